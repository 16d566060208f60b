// A worker with graphile-worker.  node graphile_worker.mjs setup | one|many noop|update CONCURRENCY
// one: the defaults; many: localQueue and completeJobBatchDelay, the documented way to more speed.
import { require, server } from '../node/race.mjs'
const { Logger, makeWorkerUtils, run } = require('graphile-worker')
const { Pool } = require('pg')

const [way, kind, concurrency] = process.argv.slice(2)
const pgPool = new Pool({ ...server, max: Number(concurrency ?? 1) + 8 })
const logger = new Logger(() => () => {})
if (way === 'setup') {
  const utils = await makeWorkerUtils({ pgPool, logger })
  await utils.migrate()
  process.exit(0)
}
const handlers = {
  noop: () => {},
  update: async (payload, helpers) => { await helpers.query('UPDATE account SET n = n + 1 WHERE id = $1', [payload.template]) }
}
const many = { localQueue: { size: Math.max(Number(concurrency), 2) }, completeJobBatchDelay: 0 }
await run({
  pgPool, logger, taskList: { mail: handlers[kind] }, noHandleSignals: true,
  preset: { worker: { concurrentJobs: Number(concurrency), ...(way === 'many' ? many : {}) } }
})
process.on('SIGTERM', () => process.exit(0))
