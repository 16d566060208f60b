const { Client } = require('pg');

const db = new Client();
const rows = async (sql, ...values) => (await db.query({ text: sql, values, rowMode: 'array' })).rows;

async function tell(what, sql, ...values) {
  const answer = await rows(sql, ...values).then((all) => all[0][0], (error) => error.code);
  console.log(`${what}: ${answer}`);
}

async function main() {
  await db.connect();
  await tell('id', 'SELECT pgq_enqueue($1, $2)', 'mail', JSON.stringify({ to: 'ada' }));
  await tell('NULL for all that may be', 'SELECT (pgq_enqueue($1, $2, delay => $3, headers => $4, max_attempts => $5) > 0)::text', 'mail', JSON.stringify([]), null, null, undefined);
  await tell('NULL as JSON', 'SELECT (pgq_enqueue($1, $2) > 0)::text', 'mail', JSON.stringify(null));
  await tell('NULL payload', 'SELECT pgq_enqueue($1, $2)', 'mail', null);
  await tell('interval', "SELECT (pgq_enqueue('mail', '1', delay => $1) > 0)::text", '1 h');
  await tell('NULL arrays', 'SELECT count(*) FROM pgq_ack_many($1, $2)', null, null);
  await tell('one NULL array', 'SELECT count(*) FROM pgq_ack_many($1, $2)', [], null);
  await tell('empty arrays', 'SELECT count(*) FROM pgq_ack_many($1, $2)', [], []);
  let [[id, lease, payload]] = await rows('SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, $3)', [], [], 'mail');
  console.log(`payload: ${typeof payload}`);
  console.log(`ids: ${typeof id} ${typeof lease} ${[id, lease].every((x) => Number.isSafeInteger(Number(x)) && String(Number(x)) === x)}`);
  await tell('arrays', "SELECT payload::text FROM pgq_ack_claim($1, $2, 'mail')", [id], [lease]);
  await tell('no queues', "SELECT count(*) FROM pgq_claim_any($1, wait => '1 ms')", []);
  [[id, lease]] = await rows('SELECT job_id, lease FROM pgq_claim_any($1)', ['other', 'mail']);
  await tell('why NULL', 'SELECT pgq_fail($1, $2, error => $3, retry_in => $4)', id, lease, null, null);
  // Numbers, and what JSON.stringify is for.
  await rows('SELECT pgq_enqueue($1, $2)', 'other', []);
  [[id, lease, payload]] = await rows("SELECT job_id, lease, payload FROM pgq_claim('other')");
  console.log(`an array as payload: ${JSON.stringify(payload)}`);
  await tell('false', 'SELECT pgq_fail($1, $2, retry => $3)', Number(id), Number(lease), false);
  await tell('a string as payload', 'SELECT pgq_enqueue($1, $2)', 'other', 'hello');
  await db.end();
}

main();
