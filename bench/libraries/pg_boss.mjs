// A worker with pg-boss.  node pg_boss.mjs setup | one|many noop|update CONCURRENCY
// Loops of fetch and complete, since work() polls at most every 0.5 s. one: a loop for each hand; many: one loop, which fetches and
// completes as many jobs at once as there are hands.
import { require, server } from '../node/race.mjs'
const PgBoss = require('pg-boss')
const { Pool } = require('pg')

const [way, kind, concurrency] = process.argv.slice(2)
const hands = Number(concurrency ?? 1)
const boss = new PgBoss({ ...server, max: hands + 8, supervise: false, schedule: false })
boss.on('error', error => { throw error })
await boss.start()
if (way === 'setup') {
  await boss.createQueue('mail')
  process.exit(0)
}
const pool = new Pool({ ...server, max: hands })
const handlers = {
  noop: () => {},
  update: job => pool.query('UPDATE account SET n = n + 1 WHERE id = $1', [job.data.template])
}
async function loop(batchSize) {
  for (;;) {
    const jobs = await boss.fetch('mail', { batchSize }) ?? []
    await Promise.all(jobs.map(handlers[kind]))
    if (jobs.length > 0) await boss.complete('mail', jobs.map(job => job.id))
    else await new Promise(resolve => setTimeout(resolve, 100))
  }
}
process.on('SIGTERM', () => process.exit(0))
await (way === 'many' ? loop(hands) : Promise.all(Array.from({ length: hands }, () => loop(1))))
