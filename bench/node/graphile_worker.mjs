// graphile-worker: jobs by addJob and addJobs, work by run(). With batch=N a worker fetches up to N jobs at once
// (localQueue) and completes them together (completeJobBatchDelay).
import { cycle, given, number, payload, rate, require, run, say, server, sleep, Waiting } from './race.mjs'
const { Logger, makeWorkerUtils, run: work } = require('graphile-worker')
const { Pool } = require('pg')

const schema = 'graphile_worker_node', task = given.queue
const pgPool = new Pool({ ...server, max: Math.max(number('clients', 1), number('producers', 8)) + 8 })
const ignore = () => {} // a failed query raises its error where it is awaited; other errors come only while the listener stops
pgPool.on('error', ignore).on('connect', client => client.on('error', ignore))
const logger = new Logger(() => () => {})
const utils = await makeWorkerUtils({ pgPool, schema, logger })

function worker(handler) {
  const batch = number('batch', 1)
  const batches = batch > 1 ? { localQueue: { size: batch }, completeJobBatchDelay: 0 } : {}
  const concurrentJobs = batch > 1 ? batch : number('clients', 1)
  return work({ pgPool, schema, logger, noHandleSignals: true, taskList: { [task]: handler }, preset: { worker: { concurrentJobs, ...batches } } })
}

const add = (data = payload()) => utils.addJob(task, data)
const addMany = jobs => utils.addJobs(Array.from({ length: jobs }, () => ({ identifier: task, payload: payload() })))

async function count(which = 'true') {
  const { rows } = await pgPool.query(`SELECT count(*)::int FROM ${schema}._private_jobs WHERE ${which}`)
  return rows[0].count
}

// A job is completed a little after the work on it, even after the worker has stopped: a job without a row counts as done.
async function work_off() {
  const limit = number('jobs', Infinity), before = await count()
  let done = 0
  const runner = await worker(() => { done++ })
  await rate(() => done, () => done >= limit)
  await runner.stop()
  for (let i = 0; i < 1000 && await count('locked_at IS NOT NULL') > 0; i++) await sleep(5)
  say('done', before - await count())
}

// Each client adds a job, permits the work on one job, and goes on when that work is done.
async function live() {
  const permits = [], waiting = []
  const runner = await worker(async () => {
    const done = permits.shift() ?? await new Promise(resolve => waiting.push(resolve))
    if (done !== 'never') done()
  })
  await cycle(async () => {
    await add()
    await new Promise(done => waiting.length > 0 ? waiting.shift()(done) : permits.push(done))
    return 1
  })
  // Jobs that wait for a permit at the end are worked on without being counted, and replaced by new jobs.
  const stopped = runner.stop()
  let extra = 0
  while (await Promise.race([stopped.then(() => false), sleep(5).then(() => true)]))
    for (; waiting.length > 0; extra++) waiting.shift()('never')
  if (extra > 0) await addMany(extra)
}

await run({
  setup: () => utils.migrate(),
  fill: async () => {
    for (let left = number('jobs', 0); left > 0; left -= 1000) await addMany(Math.min(left, 1000))
  },
  count: async () => console.log(await count()),
  vacuum: () => pgPool.query(`VACUUM (ANALYZE, INDEX_CLEANUP ON) ${schema}._private_jobs`),
  enqueue: () => cycle(async batch => {
    await (batch > 1 ? addMany(batch) : add())
    return batch
  }),
  'claim,ack': work_off,
  'enqueue,claim,ack': live,
  wait: async () => {
    const waiting = new Waiting()
    const runner = await worker(job => waiting.note(job.template))
    await waiting.run(number => add(payload(number)))
    await runner.stop()
  }
})
await utils.release()
await pgPool.end()
process.exit(0)
