// Parts that the drivers of the libraries for Node share. The drivers take the arguments of bench/load, and print the
// same figures. Each library is used as its documentation recommends, in one process.
import { createRequire } from 'node:module'

// the libraries are where script/npm_modules.sh puts them
export const require = createRequire(process.cwd() + '/build/node/')
export const server = { host: process.env.PGHOST, user: process.env.PGUSER, database: process.env.PGDATABASE }
export const payload = (number = 17) => ({ to: 'somebody@example.com', template: number })
export const given = Object.fromEntries(process.argv.slice(2).map(word => word.split('=', 2)))
export const number = (name, otherwise) => Number(given[name] ?? otherwise)

export const milliseconds = () => performance.now()
export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
export const say = (metric, value, digits = 0) => console.log(`${metric}\t${value.toFixed(digits)}`)

// Runs `clients` clients that call turn() again and again; turn() returns its number of jobs. After `seconds`, or when
// `jobs` jobs are begun, prints the rate since the end of warm_up.
export async function cycle(turn) {
  const batch = number('batch', 1), limit = number('jobs', Infinity)
  let begun = 0, done = 0, over = false
  const client = async () => {
    while (!over && (begun += batch) <= limit) {
      const jobs = await turn(batch)
      done += jobs
    }
    over = true
  }
  const clients = Array.from({ length: number('clients', 1) }, client)
  await rate(() => done, () => over)
  over = true
  await Promise.all(clients)
  say('done', done)
}

// Prints the rate at which done() grows after warm_up, during `seconds` or until over() returns true.
export async function rate(done, over) {
  const rest = async seconds => {
    for (const end = milliseconds() + 1000 * seconds; milliseconds() < end && !over();) await sleep(5)
  }
  await rest(number('warm_up', 0))
  const begin = milliseconds(), before = done()
  await rest(number('seconds', 1e6))
  say('rate', (done() - before) / (milliseconds() - begin) * 1000)
}

// Enqueues jobs at a steady rate. enqueue(number) returns when the job is enqueued; a worker of the job calls note(number).
export class Waiting {
  constructor() {
    this.rate = number('rate', 100)
    this.jobs = Math.floor(this.rate * (number('warm_up', 0) + number('seconds', 1)))
    this.times = Array.from({ length: this.jobs }, () => ({}))
    this.claimed = 0
  }
  note(number) {
    this.times[number].claimed = milliseconds()
    this.claimed++
  }
  async run(enqueue) {
    const begin = milliseconds()
    let next = 0
    const producer = async () => {
      for (let number; (number = next++) < this.jobs;) {
        const due = begin + number / this.rate * 1000
        if (due > milliseconds()) await sleep(due - milliseconds())
        const times = this.times[number]
        times.sent = milliseconds()
        await enqueue(number)
        times.committed = milliseconds()
      }
    }
    await Promise.all(Array.from({ length: number('producers', 8) }, producer))
    for (const end = milliseconds() + 30000; this.claimed < this.jobs;) {
      if (milliseconds() > end) throw new Error('jobs are not claimed')
      await sleep(5)
    }
    say('rate', this.jobs / (milliseconds() - begin) * 1000)
    say('done', this.jobs)
    for (const [name, from] of [['commit', 'committed'], ['send', 'sent']]) this.percentiles(name, from)
  }
  percentiles(name, from) {
    const all = this.times.map(times => times.claimed - times[from])
    all.splice(0, Math.min(Math.floor(number('warm_up', 0) * this.rate), Math.floor(all.length / 2)))
    all.sort((a, b) => a - b)
    for (const [label, part] of [['p50', 0.5], ['p95', 0.95], ['p99', 0.99], ['max', 1]])
      say(`${name}_${label}`, all[Math.min(Math.floor(all.length * part), all.length - 1)], 3)
  }
}

// Runs the function that the argument do= names.
export async function run(pieces) {
  if (!pieces[given.do]) throw new Error(`this side cannot ${given.do}`)
  await pieces[given.do]()
}
