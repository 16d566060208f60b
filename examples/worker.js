// Works off the queue "mail". SIGTERM: the job in hand is finished, what has not begun is given back.
const { Pool } = require('pg');

const db = new Pool({ max: 2 }); // the work, and the heartbeat
let stopping = false;
let held = []; // the jobs claimed last
process.on('SIGTERM', () => { stopping = true; });

async function handle(client, job) { // the work: committed with the ack, or not at all
  await client.query('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job.job_id, job.payload.to]);
}

const heartbeat = setInterval(async () => { // well within the queue's lease_time
  for (const job of held) await db.query('SELECT pgq_extend($1, $2)', [job.job_id, job.lease]);
}, 3000);

async function work(job) {
  const client = await db.connect();
  try {
    await client.query('BEGIN');
    await handle(client, job);
    await client.query('SELECT pgq_ack($1, $2)', [job.job_id, job.lease]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    await client.query('SELECT pgq_fail($1, $2, error => $3)', [job.job_id, job.lease, error.message]);
  } finally {
    client.release();
  }
}

async function main() {
  while (!stopping) {
    held = (await db.query("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')")).rows;
    for (const job of held) {
      if (stopping) await db.query('SELECT pgq_release($1, $2)', [job.job_id, job.lease]);
      else await work(job);
    }
  }
  clearInterval(heartbeat);
  await db.end();
}

main();
