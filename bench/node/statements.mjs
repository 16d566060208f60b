// Writes the side of a library for bench/load: the statements that the library itself sends, recorded while it enqueues,
// fetches and completes a few jobs.
//
//   node statements.mjs graphile_worker|pg_boss
import { payload, require, server } from './race.mjs'
const pg = require('pg')

const ignore = () => {} // a failed query raises its error where it is awaited; other errors come only while the listener stops
const sent = []
const query = pg.Client.prototype.query
pg.Client.prototype.query = function (text, values, ...more) {
  sent.push(typeof text === 'string' ? { text, values } : { text: text.text, values: text.values ?? values })
  return query.call(this, text, values, ...more)
}
const found = pattern => sent.find(({ text }) => pattern.test(text)) ?? (() => { throw new Error(`no ${pattern}`) })()

// Puts the values into the places of the parameters; a value in `kept` is replaced by the other text there.
function statement({ text, values }, kept) {
  const literal = value => value == null ? 'null' : Array.isArray(value) ? `'{${value}}'` : `'${typeof value === 'object' ? JSON.stringify(value) : value}'`
  return text.replace(/\$(\d+)/g, (_, n) => kept[n] ?? literal(values[n - 1])).trim().replace(/;?$/, ';')
}
const one = (text, batch) => text.replaceAll(':batch', batch)

async function graphile_worker() {
  const { Logger, makeWorkerUtils, run } = require('graphile-worker')
  const pool = new pg.Pool(server).on('error', ignore).on('connect', client => client.on('error', ignore))
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  for (const worker of [{}, { localQueue: { size: 4321 }, completeJobBatchDelay: 20, concurrentJobs: 5 }]) {
    let done = 0
    const runner = await run({ pgPool: pool, logger, noHandleSignals: true, taskList: { bench: () => { done++ } }, preset: { worker } })
    await utils.addJobs(Array.from({ length: 5 }, () => ({ identifier: 'bench', payload: payload() })))
    while (done < 5) await new Promise(resolve => setTimeout(resolve, 10))
    await runner.stop()
  }
  const claim = statement(found(/limit 4321\b/), {}).replace('limit 4321', 'limit :batch')
  const job = data => `('bench', ${data}, null, null, null, null, null, null)::graphile_worker.job_spec`
  return {
    count: 'SELECT count(*) FROM graphile_worker._private_jobs;',
    vacuum: 'VACUUM (ANALYZE, INDEX_CLEANUP ON) graphile_worker._private_jobs;',
    setup: 'SELECT 1;',
    fill: `SELECT count(*) FROM graphile_worker.add_jobs(array_fill(${job("':payload'")}, ARRAY[:jobs]));`,
    enqueue: "SELECT id FROM graphile_worker.add_job('bench', $1::json);",
    enqueue_many: `SELECT id FROM graphile_worker.add_jobs(ARRAY(SELECT ${job('data::json')} FROM unnest($1::jsonb[]) AS data));`,
    claim: one(claim, 1),
    claim_many: claim,
    ack: statement(found(/where id = \$1::bigint$/), { 1: '$1' }),
    ack_many: statement(found(/^delete[^]*unnest\(\$1::bigint\[\]\)/), { 1: '$1' })
  }
}

async function pg_boss() {
  const PgBoss = require('pg-boss')
  const boss = new PgBoss({ ...server, supervise: false, schedule: false })
  await boss.start()
  await boss.createQueue('bench')
  sent.length = 0
  await boss.send('bench', payload())
  await boss.insert([{ name: 'bench', data: payload() }])
  const jobs = await boss.fetch('bench', { batchSize: 2 })
  await boss.complete('bench', jobs.map(job => job.id))
  const claim = statement(found(/FOR UPDATE SKIP LOCKED/), { 1: "':queue'", 2: ':batch' })
  const ack = statement(found(/SET completed_on/), { 1: "':queue'", 2: '$1' })
  const rows = "(SELECT json_agg(json_build_object('name', ':queue', 'data', data)) FROM unnest($1::jsonb[]) AS data)"
  return {
    count: "SELECT count(*) FROM pgboss.job WHERE name = ':queue' AND state < 'completed';",
    vacuum: 'VACUUM (ANALYZE, INDEX_CLEANUP ON) pgboss.job;',
    setup: `SELECT pgboss.create_queue(':queue', '{"policy": "standard"}');`,
    fill: "INSERT INTO pgboss.job (name, data) SELECT ':queue', ':payload' FROM generate_series(1, :jobs);",
    enqueue: statement(found(/\$3::jsonb as data/), { 2: "':queue'", 3: '$1' }),
    enqueue_many: statement(found(/json_to_recordset/), { 1: rows }),
    claim: one(claim, 1),
    claim_many: claim,
    ack,
    ack_many: ack
  }
}

const pieces = await { graphile_worker, pg_boss }[process.argv[2]]()
for (const [name, sql] of Object.entries(pieces)) console.log(`-- ${name}\n${sql}\n`)
process.exit(0)
