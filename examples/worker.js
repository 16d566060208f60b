// Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
// is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work. Where
// there is a standby, PGHOST=one,two, and it goes on after a failover.
const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

let stopping = false;
let held = []; // of the jobs claimed last those that have not ended
process.on('SIGTERM', () => { stopping = true; });

async function handle(db, { job_id, payload }) { // the work: committed with the ack, or not at all
  await db.query('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job_id, payload.to]);
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

async function connected(use) { // whoever is the primary: what was in hand comes again
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
    for (const { job_id, lease } of [...held]) await db.query('SELECT pgq_extend($1, $2)', [job_id, lease]);
  }
}

async function work(db, job) {
  const ticket = [job.job_id, job.lease];
  try {
    await db.query('BEGIN');
    await handle(db, job);
    await db.query('SELECT pgq_ack($1, $2)', ticket);
    await db.query('COMMIT');
  } catch (error) { // tried again after the queue's backoff
    await db.query('ROLLBACK');
    await db.query('SELECT pgq_fail($1, $2, error => $3)', [...ticket, error.message]);
  }
}

async function workAll(db) {
  try {
    while (!stopping) {
      held = (await db.query("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')")).rows;
      for (const job of [...held]) {
        if (stopping) await db.query('SELECT pgq_release($1, $2)', [job.job_id, job.lease]);
        else await work(db, job);
        held.shift();
      }
    }
  } finally {
    held = []; // the connection is gone: somebody else gets them
  }
}

async function main() {
  await (await connect()).end(); // what is wrong from the start is an error
  connected(heartbeat); // a connection of its own: the other one is busy
  await connected(workAll);
  process.exit();
}

main();
