// A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two: then the
// worker goes on after a failover. On SIGTERM the worker finishes the job that it is working on. If it has lost a job (the job
// took too long, or was cancelled), pgq_ack fails, which rolls the work back. Create the queue by SELECT
// pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the lease until max_runtime
// is over; then a job that hangs goes to another worker.
const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

let stopping = false;
let held = null; // the lease of the claimed job: [job_id, lease]
process.on('SIGTERM', () => { stopping = true; });

async function handle(db, { job_id, payload }) { // the work, committed together with the ack
  await db.query('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job_id, payload.to]);
}

function storable(error) { // PostgreSQL stores no NUL
  return String(error?.message ?? error).replaceAll('\0', '?');
}

async function connect() {
  let problem = new Error('no primary');
  for (const host of (process.env.PGHOST || 'localhost').split(',')) {
    const db = new Client({ host, connectionTimeoutMillis: 3000 });
    db.on('error', () => {}); // the next query reports the error
    try {
      await db.connect();
      const { rows: [{ standby }] } = await db.query('SELECT pg_is_in_recovery() AS standby');
      if (!standby) return db;
    } catch (error) {
      problem = error;
    }
    db.end().catch(() => {});
  }
  throw problem;
}

async function connected(use) { // reconnects to the primary after an error; a claimed job is then claimed again
  while (!stopping) {
    let db;
    try {
      db = await connect();
      await use(db);
    } catch (error) {
      console.error(error.message);
      await sleep(1000);
    }
    db?.end().catch(() => {});
  }
}

async function heartbeat(db) {
  for (;;) {
    await sleep(3000); // well within the queue's lease_time
    if (held) await db.query('SELECT pgq_extend($1, $2)', held);
  }
}

async function work(db, job, lease) {
  try {
    await db.query('BEGIN');
    await handle(db, job);
    await db.query('SELECT pgq_ack($1, $2)', lease);
    await db.query('COMMIT');
  } catch (error) { // the job is tried again after the queue's backoff
    await db.query('ROLLBACK');
    await db.query('SELECT pgq_fail($1, $2, error => $3)', [...lease, storable(error)]);
  }
}

async function workAll(db) {
  try {
    while (!stopping) {
      const { rows: [job] } = await db.query("SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')");
      if (!job) continue;
      held = [job.job_id, job.lease];
      if (stopping) await db.query('SELECT pgq_release($1, $2)', held); // the job has not begun: give it back
      else await work(db, job, held);
      held = null;
    }
  } finally {
    held = null; // if the connection is lost, another worker gets the job
  }
}

async function main() {
  await (await connect()).end(); // fail now if the connection is impossible from the start
  connected(heartbeat); // on a connection of its own, since the other one is busy
  await connected(workAll);
  process.exit();
}

main();
