// pg-boss: jobs by send and insert, work by fetch and complete, as its documentation recommends for work without delay;
// work(), which polls at most every half a second, in the workload in which workers wait.
import { cycle, given, number, payload, require, run, server, Waiting } from './race.mjs'
const PgBoss = require('pg-boss')
const { Client } = require('pg')

const schema = 'pgboss_node', queue = given.queue
const boss = new PgBoss({ ...server, schema, max: number('clients', 1) + 8, supervise: false, schedule: false })
boss.on('error', error => { throw error })
await boss.start()

async function query(sql) {
  const client = new Client(server)
  await client.connect()
  const { rows } = await client.query(sql)
  await client.end()
  return rows
}

const insert = jobs => boss.insert(Array.from({ length: jobs }, () => ({ name: queue, data: payload() })))

async function enqueue(batch) {
  await (batch > 1 ? insert(batch) : boss.send(queue, payload()))
  return batch
}

async function finish(batch) {
  const jobs = await boss.fetch(queue, { batchSize: batch })
  if (jobs.length === 0) throw new Error('a fetch came back empty')
  await boss.complete(queue, jobs.map(job => job.id))
  return jobs.length
}

await run({
  setup: () => boss.createQueue(queue),
  fill: async () => {
    for (let left = number('jobs', 0); left > 0; left -= 1000) await insert(Math.min(left, 1000))
  },
  count: async () => {
    const rows = await query(`SELECT count(*) FROM ${schema}.job WHERE name = '${queue}' AND state < 'completed'`)
    console.log(rows[0].count)
  },
  vacuum: () => query(`VACUUM (ANALYZE, INDEX_CLEANUP ON) ${schema}.job`),
  enqueue: () => cycle(enqueue),
  'claim,ack': () => cycle(finish),
  'enqueue,claim,ack': () => cycle(async batch => {
    await enqueue(batch)
    return finish(batch)
  }),
  wait: async () => {
    const waiting = new Waiting()
    for (let i = number('clients', 16); i > 0; i--)
      await boss.work(queue, { batchSize: 100, pollingIntervalSeconds: 0.5 }, async jobs => {
        for (const job of jobs) waiting.note(job.data.template)
      })
    await waiting.run(number => boss.send(queue, payload(number)))
    await boss.offWork(queue)
  }
})
await boss.stop({ graceful: false, wait: false })
process.exit(0)
