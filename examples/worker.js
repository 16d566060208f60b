// Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
// is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work.
const { Client } = require('pg');

const db = new Client();
const beat = new Client(); // a connection of its own: the other one is busy
let stopping = false;
let held = []; // the jobs claimed last
process.on('SIGTERM', () => { stopping = true; });

async function handle({ job_id, payload }) { // the work: committed with the ack, or not at all
  await db.query('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job_id, payload.to]);
}

async function heartbeat() {
  for (const { job_id, lease } of held) await beat.query('SELECT pgq_extend($1, $2)', [job_id, lease]);
}

async function work(job) {
  const ticket = [job.job_id, job.lease];
  try {
    await db.query('BEGIN');
    await handle(job);
    await db.query('SELECT pgq_ack($1, $2)', ticket);
    await db.query('COMMIT');
  } catch (error) { // tried again after the queue's backoff
    await db.query('ROLLBACK');
    await db.query('SELECT pgq_fail($1, $2, error => $3)', [...ticket, error.message]);
  }
}

async function main() {
  await Promise.all([db.connect(), beat.connect()]);
  const timer = setInterval(heartbeat, 3000); // well within the queue's lease_time
  while (!stopping) {
    held = (await db.query("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')")).rows;
    for (const job of held) {
      if (stopping) await db.query('SELECT pgq_release($1, $2)', [job.job_id, job.lease]);
      else await work(job);
    }
  }
  clearInterval(timer);
  await Promise.all([db.end(), beat.end()]);
}

main();
