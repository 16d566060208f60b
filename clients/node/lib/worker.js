'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const { connectToPrimary, Connections } = require('./connections');
const { DiscardError, RetryError, ReleaseError, StaleLeaseError, isOfServer, textOf, typed } = require('./errors');
const { Job, claim, ackClaim, ack, ackCommit, ackMany, fail, release, extend } = require('./job');

const DEFAULTS = {
  concurrency: 1,
  tx: false, // the handler gets a transaction, in which the job is acknowledged
  wait: 5, // seconds that a claim waits for a job, and so the longest time that a stop waits for it
  heartbeat: 5, // seconds between two extensions of the leases; at most a third of a lease
  stopTimeout: 30, // seconds until a stop aborts the handlers that still run
  signals: ['SIGTERM', 'SIGINT'],
  connection: {},
};

/** What became of an attempt: the answer to give, by the error of the handler. */
function verdict(error, stopping) {
  if (error instanceof ReleaseError) return { release: error.seconds };
  if (stopping) return { release: 0 };
  if (error instanceof DiscardError) return { retry: false };
  if (error instanceof RetryError) return { seconds: error.seconds };
  return {};
}

/**
 * Runs the jobs of one or more queues until it is stopped. One connection claims jobs and extends their leases; a pool
 * of others acknowledges them, and has the transactions of handlers.
 */
class Worker {
  #queues;
  #handler;
  #options;
  #control = null; // the connection that claims
  #pool;
  #running = new Set(); // the jobs in work
  #acks = []; // jobs that wait to be acknowledged together: { job, resolve, reject }
  #acking = false; // a connection of the pool is acknowledging them
  #waits = false; // the claim in progress may wait for a job
  #beat = 0; // when the leases must be extended: a time of performance.now()
  #interval; // milliseconds between two heartbeats
  #stopping = false;
  #aborting = false;
  #wake = () => {};
  #onSignal = () => { this.stop(); };
  #stopTimer;

  constructor(queues, handler, options = {}) {
    for (const name of Object.keys(options)) {
      if (!(name in DEFAULTS) && !['pool', 'leaseTime', 'worker', 'before', 'after', 'error', 'log'].includes(name)) {
        throw new TypeError(`unknown option of a worker: ${name}`);
      }
    }
    this.#queues = [].concat(queues);
    this.#handler = handler;
    this.#options = { ...DEFAULTS, ...options };
    this.#interval = this.#options.heartbeat * 1000;
    this.#pool = new Connections(this.#options.connection, this.#options.pool ?? (this.#options.tx ? this.#options.concurrency : 1));
  }

  /** Begins. Raises an error if there is no primary, or no such queue. */
  async start() {
    this.#control = await connectToPrimary(this.#options.connection);
    try {
      this.#take(await claim(this.#control, this.#queues, this.#options.concurrency, 0, this.#options));
    } catch (error) {
      this.#control.end().catch(() => {});
      throw error;
    }
    for (const signal of this.#options.signals) process.on(signal, this.#onSignal);
    this.done = this.#run();
    return this;
  }

  /**
   * Claims no more jobs, and waits until those in work have ended. After `timeout` seconds their signals are aborted,
   * and those that then raise an error are released, without a counted attempt. More calls change nothing.
   */
  stop(timeout = this.#options.stopTimeout) {
    if (!this.#stopping) {
      this.#stopping = true;
      this.#log('info', 'stopping', { running: this.#running.size });
      this.#stopTimer = setTimeout(() => this.#abortAll(), timeout * 1000);
      this.#wake();
    }
    return this.done;
  }

  get running() {
    return this.#running.size;
  }

  #log(level, message, fields = {}) {
    const { log } = this.#options;
    if (log) log(level, message, fields);
    else if (level === 'error') console.error(JSON.stringify({ level, message, ...fields }));
  }

  /** Hooks must not stop the worker. */
  async #hook(name, ...args) {
    try {
      await this.#options[name]?.(...args);
    } catch (error) {
      this.#log('error', `hook ${name}: ${error?.message ?? error}`);
    }
  }

  #abortAll() {
    this.#aborting = true;
    for (const job of this.#running) job.abort(new Error('the worker stops'));
  }

  // ---- claims and heartbeats ----

  async #run() {
    let tries = 0;
    while (!this.#stopping || this.#running.size > 0) {
      try {
        this.#control ??= await connectToPrimary(this.#options.connection);
        await this.#round();
        tries = 0;
      } catch (error) {
        this.#report(error);
        this.#drop();
        // At random, so that not all workers come at once.
        await this.#pause(Math.min(10000, 500 * 2 ** tries++) * (0.5 + Math.random()));
      }
    }
    clearTimeout(this.#stopTimer);
    for (const signal of this.#options.signals) process.off(signal, this.#onSignal);
    this.#drop();
    await this.#pool.close();
    this.#log('info', 'stopped');
  }

  /** Extends the leases if it is time; then acknowledges and claims jobs, or waits for a hand. */
  async #round() {
    const left = () => (this.#running.size > 0 ? Math.max(0, this.#beat - performance.now()) : Infinity);
    if (left() === 0) await this.#extend();
    if (this.#acks.length > 0) {
      if (this.#acknowledgesHere()) {
        await this.#acknowledgeAndClaim();
        return;
      }
      this.#acknowledgeAll();
    }
    const free = this.#options.concurrency - this.#running.size;
    if (this.#stopping || free <= 0) {
      await this.#pause(Math.min(left(), 1000));
      return;
    }
    this.#waits = true;
    try {
      const wait = Math.min(this.#options.wait, left() / 1000);
      this.#take(await claim(this.#control, this.#queues, free, wait, this.#options));
    } finally {
      this.#waits = false;
    }
  }

  /** Whether the connection that claims will soon be free to acknowledge jobs. pgq_ack_claim takes only one queue. */
  #acknowledgesHere() {
    return this.#control !== null && !this.#waits && !this.#stopping && this.#queues.length === 1;
  }

  /**
   * Acknowledges the jobs that have ended, and claims others, in one round trip. An error leaves the acks to the pool,
   * which finds the stale leases among them, and repeats the call if the connection was lost.
   */
  async #acknowledgeAndClaim() {
    const acks = this.#acks.splice(0, 1000);
    const most = this.#options.concurrency - this.#running.size + acks.length;
    try {
      const rows = await ackClaim(this.#control, acks.map(({ job }) => job), this.#queues[0], most, this.#options);
      for (const { job, resolve } of acks) {
        this.#running.delete(job);
        resolve();
      }
      this.#take(rows);
    } catch (error) {
      this.#acks.unshift(...acks);
      this.#acknowledgeAll();
      if (!(error instanceof StaleLeaseError)) throw error;
    }
  }

  #take(rows) {
    for (const row of rows) {
      const job = new Job(row, { query: (...args) => this.#pool.use((db) => db.query(...args)) });
      this.#interval = Math.min(this.#options.heartbeat, row.seconds / 3) * 1000;
      if (this.#running.size === 0) this.#beat = performance.now() + this.#interval;
      this.#running.add(job);
      this.#attempt(job);
    }
  }

  async #extend() {
    const jobs = [...this.#running].filter((job) => !job.ended);
    const held = await extend(this.#control, jobs);
    this.#beat = performance.now() + this.#interval;
    for (const job of jobs) if (!held.has(job.id) && !job.ended) job.abort(new StaleLeaseError(new Error('the lease is lost, or the job is cancelled')));
  }

  #drop() {
    this.#control?.end().catch(() => {});
    this.#control = null;
    this.#acknowledgeAll();
  }

  #report(error) {
    this.#log('error', textOf(error?.message ?? error), { code: error?.code });
    this.#hook('error', error);
  }

  /** Waits that long, or until a hand is free or the worker is stopped. */
  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // ---- one job ----

  /** Runs the handler, and gives its answer to the server. Raises nothing. */
  async #attempt(job) {
    if (this.#stopping) {
      await this.#answer(job, new ReleaseError());
    } else {
      if (this.#options.before) await this.#hook('before', job);
      let problem;
      try {
        if (this.#options.tx) await this.#inTransaction(job);
        else await this.#acknowledge(job, await this.#handler(job));
      } catch (error) {
        problem = typed(error) ?? new Error('undefined');
      }
      job.ended = true;
      const outcome = problem === undefined ? 'acked' : await this.#answer(job, problem);
      if (this.#options.after) await this.#hook('after', job, outcome, problem);
    }
    this.#running.delete(job);
    this.#wake();
  }

  #inTransaction(job) {
    return this.#pool.use(async (tx) => {
      job.db = tx;
      await tx.query('BEGIN');
      try {
        const result = await this.#handler(job, tx);
        job.ended = true; // a heartbeat after the commit would find no lease
        await ackCommit(tx, job, result);
      } catch (error) {
        job.ended = false;
        await tx.query('ROLLBACK').catch(() => { tx.broken = true; });
        throw error;
      }
    }, () => true);
  }

  /** Acknowledges together what ends together; a result needs a call of its own. */
  #acknowledge(job, result) {
    job.ended = true;
    if (result !== undefined) return this.#persist((db) => ack(db, job, result));
    return new Promise((resolve, reject) => {
      this.#acks.push({ job, resolve, reject });
      if (this.#acknowledgesHere()) this.#wake();
      else this.#acknowledgeAll();
    });
  }

  async #acknowledgeAll() {
    if (this.#acking) return;
    this.#acking = true;
    while (this.#acks.length > 0) {
      const batch = this.#acks.splice(0, 1000);
      try {
        const acked = await this.#persist((db) => ackMany(db, batch.map(({ job }) => job)));
        for (const { job, resolve, reject } of batch) {
          if (acked.has(job.id)) resolve();
          else reject(new StaleLeaseError(new Error('the lease is stale')));
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#acking = false;
  }

  /** Reports the error of a job. Returns what became of the job: retry, dead, released or stale. */
  async #answer(job, error) {
    const { release: seconds, ...how } = verdict(error, this.#aborting);
    if (!(error instanceof ReleaseError)) this.#log('info', `job failed: ${textOf(error?.message ?? error)}`, { job: job.id, queue: job.queue });
    try {
      return await this.#persist(async (db) => {
        if (seconds !== undefined) return (await release(db, job, seconds)) ? 'released' : 'stale';
        return error instanceof StaleLeaseError ? 'stale' : fail(db, job, textOf(error), how);
      });
    } catch (problem) {
      this.#report(problem);
      return 'unknown';
    }
  }

  /** Repeats the call while there is no server, as long as the job may still be this worker's. */
  async #persist(call) {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#pool.use(call);
      } catch (error) {
        if (isOfServer(error) || tries === 10 || (this.#stopping && tries > 0)) throw error;
        await sleep(Math.min(10000, 200 * 2 ** tries) * (0.5 + Math.random()));
      }
    }
  }
}

/** Starts a worker. handler(job) or, with { tx: true }, handler(job, tx); what it returns is the result of the job. */
function work(queues, handler, options) {
  return new Worker(queues, handler, options).start();
}

/**
 * For tests: runs the jobs that are ready, one by one, until no job is ready. db: a client outside of a transaction.
 * Returns [{ job, outcome, error }]. Each job is tried once; errors of the handler are reported to the server.
 */
async function drain(db, queues, handler, { tx = false, limit = Infinity, ...options } = {}) {
  const ended = [];
  while (ended.length < limit) {
    const [row] = await claim(db, [].concat(queues), 1, 0, options);
    if (!row) break;
    const job = new Job(row, db);
    let outcome = 'acked';
    let problem;
    try {
      if (tx) await db.query('BEGIN');
      await ack(db, job, await handler(job, tx ? db : undefined));
      if (tx) await db.query('COMMIT');
    } catch (error) {
      problem = typed(error);
      if (tx) await db.query('ROLLBACK');
      const { release: seconds, ...how } = verdict(problem, false);
      if (seconds !== undefined) outcome = (await release(db, job, seconds)) ? 'released' : 'stale';
      else outcome = problem instanceof StaleLeaseError ? 'stale' : await fail(db, job, textOf(problem), how);
    }
    ended.push({ job, outcome, error: problem });
  }
  return ended;
}

module.exports = { Worker, work, drain };
