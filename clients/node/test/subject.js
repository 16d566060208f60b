// What the suite test/clients/library_*.pl runs: a worker whose handler does what the payload of the job says, or calls of a
// producer. The only argument is JSON. The program prints a line of JSON for each event.
'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const pgq = require('..');

const say = (event) => console.log(JSON.stringify(event));
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const camelKeys = (object) => Object.fromEntries(Object.entries(object).map(([key, value]) => [camel(key), value]));

const ODD = {
  nul: () => { throw new Error('odd \0 text'); },
  surrogate: () => { throw new Error('odd \udce9 text'); },
  long: () => { throw new Error(`odd text ${'x'.repeat(1 << 20)}`); },
  empty: () => { throw new Error(''); },
  not_an_error: () => { throw undefined; }, // eslint-disable-line no-throw-literal
  unicode: () => { throw new Error('odd ä😀 text'); },
  unprintable: () => { throw Object.create(null); }, // eslint-disable-line no-throw-literal
};

const ODD_RESULTS = {
  circular: () => { const result = {}; result.self = result; return result; },
  nul: () => 'odd \0 result',
};

/** Sleeps that many seconds, or until the signal of the job is aborted. */
async function rest(job, seconds) {
  try {
    await sleep(seconds * 1000, undefined, { signal: job.signal });
  } catch {
    say({ event: 'aborted', job: job.id, why: job.signal.reason.name });
    throw new Error('the job was aborted');
  }
}

const STEPS = {
  insert: (job, tx, text) => tx.query('INSERT INTO effect (job_id, text) VALUES ($1, $2)', [job.id, text]),
  sleep: (job, tx, seconds) => rest(job, seconds),
  sleep_at_first: (job, tx, seconds) => (job.attempt === 1 ? rest(job, seconds) : undefined),
  busy: (job, tx, seconds) => sleep(seconds * 1000),
  busy_at_first: (job, tx, seconds) => sleep(job.attempt === 1 ? seconds * 1000 : 0),
  busy_next: (job, tx, seconds) => sleep(job.attempt > 1 ? seconds * 1000 : 0),
  gate: (job, tx) => tx.query('SELECT FROM gate'),
  swallow: (job, tx, text) => tx.query(text).catch(() => {}),
  fail: (job, tx, text) => { throw new Error(text); },
  fail_at_first: (job, tx, text) => { if (job.attempt === 1) throw new Error(text); },
  discard: (job, tx, text) => { throw new pgq.DiscardError(text); },
  retry: (job, tx, seconds) => { throw new pgq.RetryError('later', seconds); },
  release: (job, tx, seconds) => { throw new pgq.ReleaseError(seconds); },
  odd: (job, tx, kind) => ODD[kind](),
  progress: (job, tx, value) => job.progress(value),
  show_progress: (job) => say({ event: 'progress', job: job.id, value: job.lastProgress }),
  checkpoint: async (job, tx, [step, value]) => say({ event: 'checkpoint', value: await job.checkpoint(step, value) }),
  parents: async (job, tx) => say({ event: 'parents', states: (await job.parents()).map((parent) => [parent.state, parent.result]) }),
  headers: (job) => say({ event: 'headers', value: job.headers }),
  enqueue: async (job, tx, [queue, payload]) => { await pgq.enqueue(tx, queue, payload); },
  publish: async (job, tx, [topic, payload]) => { await pgq.publish(tx, topic, payload); },
};

async function handle(job, tx) {
  let result;
  for (const [step, value] of job.payload.steps) {
    if (step === 'result') result = value;
    else if (step === 'odd_result') result = ODD_RESULTS[value]();
    else await STEPS[step](job, tx, value);
  }
  return result;
}

/** What all languages say of an answer. */
function answerOf(name, answer) {
  if (name === 'result') return answer && [answer.state, answer.result];
  if (name.startsWith('publish')) return answer.map(({ queue, id }) => [queue, id]);
  return answer ?? null;
}

async function produce(calls) {
  const db = await pgq.connect();
  for (const [name, ...args] of calls) {
    try {
      if (name === 'sql') await db.query(args[0]);
      else if (name === 'drain') {
        const ended = await pgq.drain(db, args[0], handle, camelKeys(args[1] ?? {}));
        say({ answer: ended.map(({ outcome }) => outcome) });
      } else {
        if (name === 'create_batch') args.unshift(...args.splice(0).map(camelKeys));
        const options = (value) => (value?.constructor === Object ? camelKeys(value) : value);
        const last = name === 'enqueue_many' ? [args[0], args[1].map(camelKeys)] : [...args.slice(0, 2), ...args.slice(2).map(options)];
        const answer = await pgq[camel(name)](db, ...(name === 'publish_many' ? [args[0].map(camelKeys)] : last));
        say({ answer: answerOf(name, answer) });
      }
    } catch (error) {
      say({ error: error instanceof pgq.PgqError ? error.name : 'Error', code: error.code });
    }
  }
  await db.end();
}

async function main() {
  const { produce: calls, queues, hooks_fail: hooksFail, stopped, ...options } = JSON.parse(process.argv[2]);
  if (calls) return produce(calls);
  const broken = () => { if (hooksFail) throw new Error('the hook fails'); };
  const all = {
    ...camelKeys(options),
    before: (job) => { say({ event: 'before', job: job.id, headers: job.headers }); broken(); },
    after: (job, outcome, error) => { say({ event: 'after', job: job.id, outcome, error: error?.message?.slice(0, 1000) }); broken(); },
    error: (error) => { say({ event: 'error', message: error.message }); broken(); },
    log: (level, message) => { say({ event: 'log', level, message: message.slice(0, 1000) }); broken(); },
  };
  const worker = stopped ? new pgq.Worker(queues, handle, all) : await pgq.work(queues, handle, all);
  if (stopped) {
    worker.stop();
    await worker.start();
  }
  say({ event: 'started' });
  await worker.done;
  say({ event: 'ended' });
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
