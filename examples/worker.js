// Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the worker finishes the job in hand. If the worker
// has lost a job (the job took too long, or was cancelled) pgq_ack fails, which undoes the work. Where there is a standby,
// PGHOST=one,two, and the worker goes on after a failover.
// The queue: SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the lease
// until max_runtime: a job that hangs goes to another worker then.
const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

let stopping = false;
let held = null; // the lease of the job in hand: [job_id, lease]
process.on('SIGTERM', () => { stopping = true; });

async function handle(db, { job_id, payload }) { // the work: committed with the ack, or not at all
  await db.query('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job_id, payload.to]);
}

function storable(error) { // PostgreSQL stores no NUL
  return String(error?.message ?? error).replaceAll('\0', '?');
}

async function connect() {
  let problem = new Error('no primary');
  for (const host of (process.env.PGHOST || 'localhost').split(',')) {
    const db = new Client({ host, connectionTimeoutMillis: 3000 });
    db.on('error', () => {}); // the next query says it
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

async function connected(use) { // connects again to the primary; the job in hand comes again
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
  } catch (error) { // tried again after the queue's backoff
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
      if (stopping) await db.query('SELECT pgq_release($1, $2)', held); // the job has not begun: it is given back
      else await work(db, job, held);
      held = null;
    }
  } finally {
    held = null; // the connection is lost: another worker gets the job
  }
}

async function main() {
  await (await connect()).end(); // what is wrong from the start is an error
  connected(heartbeat); // a connection of its own: the other one is busy
  await connected(workAll);
  process.exit();
}

main();
