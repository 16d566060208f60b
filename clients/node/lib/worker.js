'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const { connectToPrimary, inTime, close, Connections } = require('./connections');
const { DiscardError, RetryError, ReleaseError, StaleLeaseError, isFinal, isTransient, textOf } = require('./errors');
const { Job, claim, ackClaim, ack, ackCommit, ackMany, fail, release, extend } = require('./job');
const { json } = require('./produce');

const DEFAULTS = {
  concurrency: 1,
  ahead: 0, // seconds: jobs that probably begin within this time are claimed together with those that begin at once
  tx: false, // the handler gets a transaction, in which the job is acknowledged
  wait: 5, // seconds that a claim waits for a job, and so the longest time that a stop waits for the claim
  heartbeat: 5, // seconds between two extensions of the leases; at most a third of a lease
  stopTimeout: 30, // seconds until a stop aborts the handlers that still run
  signals: ['SIGTERM', 'SIGINT'],
  connection: {},
};

const OTHERS = ['pool', 'leaseTime', 'worker', 'before', 'after', 'error', 'log']; // options without a default

/** Ends an attempt by the error of the handler. Returns what became of the job: retry, dead, released or stale. */
async function settle(db, job, error, stopping) {
  if (error instanceof StaleLeaseError) return 'stale';
  const seconds = error instanceof ReleaseError || error instanceof RetryError ? error.seconds : undefined;
  if (error instanceof ReleaseError || stopping) return (await release(db, [job], seconds)) ? 'released' : 'stale';
  return fail(db, job, textOf(error), { retry: !(error instanceof DiscardError), seconds });
}

/** Returns the result as JSON. Raises an error if it cannot become JSON. */
const textOfResult = (result) => (result === undefined ? undefined : json(result));

/**
 * Runs the jobs of one or more queues until it is stopped. One connection claims jobs and extends their leases; a pool
 * of others acknowledges them, and has the transactions of handlers.
 */
class Worker {
  #queues; #handler; #options; #problem; #stopTimer; // problem: the error that ends the worker
  #control = null; // the connection that claims
  #pool;
  #db = { query: (...args) => this.#pool.use((db) => inTime(db, 30, db.query(...args))) }; // for the methods of jobs
  #running = new Set(); // the jobs in work; the worker may get a job again while it still runs
  #waiting = []; // those of the jobs in work that were claimed ahead, and have not begun
  #busy = 0; // how many handlers run
  #pace; // milliseconds that a handler takes, a moving average
  #acks = []; // jobs that wait to be acknowledged together: { job, resolve, reject }
  #acking = false; // a connection of the pool is acknowledging them
  #waits = false; // the claim in progress may wait for a job
  #beat = 0; // when the leases must be extended: a time of performance.now()
  #stopping = false; #aborting = false;
  #wake = () => {};
  #onSignal = () => { this.stop(); };

  constructor(queues, handler, options = {}) {
    const unknown = Object.keys(options).find((name) => !(name in DEFAULTS) && !OTHERS.includes(name));
    if (unknown !== undefined) throw new TypeError(`unknown option of a worker: ${unknown}`);
    this.#queues = [].concat(queues);
    this.#handler = handler;
    this.#options = { ...DEFAULTS, ...options };
    this.#slowDown();
    this.#pool = new Connections(this.#options.connection, this.#options.pool ?? (this.#options.tx ? this.#options.concurrency : 1));
  }

  /** Begins. Raises an error if there is no primary, or no such queue. */
  async start() {
    for (const signal of this.#options.signals) process.on(signal, this.#onSignal);
    try {
      this.#control = await connectToPrimary(this.#options.connection);
      this.#take(await inTime(this.#control, 30, claim(this.#control, this.#queues, this.#options.concurrency, 0, this.#options)));
    } catch (error) {
      this.#end();
      throw error;
    }
    this.done = this.#run(); // rejects if no more job can be claimed: the queue was dropped, for example
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
      this.#stopTimer = setTimeout(() => this.#abortAll(), Math.min(timeout * 1000, 2 ** 31 - 1)); // more would be 1 ms
      this.#wake();
    }
    return this.done;
  }

  get running() { return this.#running.size; }

  async #log(level, message, fields = {}) {
    try {
      if (this.#options.log) await this.#options.log(level, message, fields);
      else if (level === 'error') console.error(JSON.stringify({ level, message, ...fields }));
    } catch (error) {
      console.error(`log: ${textOf(error, 'message')}`); // as a hook
    }
  }

  /** Calls a hook. An error of the hook does not stop the worker. */
  async #hook(name, ...args) {
    try {
      await this.#options[name]?.(...args);
    } catch (error) {
      this.#log('error', `hook ${name}: ${textOf(error, 'message')}`);
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
        if (isFinal(error) && !this.#stopping) {
          this.#problem = error;
          this.stop();
        }
        this.#abortExpired();
        // A random time, so that not all workers connect at once.
        await this.#pause(Math.min(10000, 500 * 2 ** tries++) * (0.5 + Math.random()));
      }
    }
    this.#end();
    await this.#pool.close();
    this.#log('info', 'stopped');
    if (this.#problem) throw this.#problem;
  }

  /** Extends the leases if it is time; then acknowledges and claims jobs, or waits until a job has ended. */
  async #round() {
    const left = () => (this.#running.size > 0 ? Math.max(0, this.#beat - performance.now()) : Infinity);
    if (left() === 0) await inTime(this.#control, 30, this.#extend());
    await this.#giveBack();
    if (this.#acks.length > 0) {
      if (this.#acknowledgesHere()) return this.#acknowledgeAndClaim();
      this.#acknowledgeAll();
    }
    const wanted = this.#wanted();
    if (this.#stopping || wanted <= 0 || this.#busy >= this.#options.concurrency || this.#waiting.length > 0) {
      return this.#pause(Math.min(left(), 1000, (this.#waiting[0]?.due ?? Infinity) - performance.now()));
    }
    const wait = Math.min(this.#options.wait, left() / 1000);
    this.#waits = true;
    const rows = claim(this.#control, this.#queues, wanted, Number(wait.toFixed(3)), this.#options).finally(() => { this.#waits = false; });
    this.#take(await inTime(this.#control, wait + 30, rows));
  }

  /** How many jobs to claim when that many have ended: for the hands that are free, and those that may begin soon after them. */
  #wanted(ended = 0) {
    const { concurrency, ahead } = this.#options;
    return concurrency + Math.min(100, Math.floor((concurrency * ahead * 1000) / this.#pace)) - this.#running.size + ended;
  }

  /** Claims no jobs ahead until some handlers have been fast. */
  #slowDown() { this.#pace = 1 + 2000 * this.#options.concurrency * this.#options.ahead; }

  /** Whether the connection that claims will soon be free to acknowledge jobs. pgq_ack_claim takes only one queue. */
  #acknowledgesHere() {
    return this.#control !== null && !this.#waits && !this.#stopping && this.#queues.length === 1 && this.#wanted(this.#acks.length) > 0;
  }

  /**
   * Acknowledges the jobs that have ended, and claims others, in one round trip. An error leaves the acks to the pool,
   * which finds the stale leases among them, and repeats the call if the connection was lost.
   */
  async #acknowledgeAndClaim() {
    const most = this.#wanted(this.#acks.length);
    const acks = this.#acks.splice(0);
    try {
      const rows = await inTime(this.#control, 30, ackClaim(this.#control, acks.map(({ job }) => job), this.#queues[0], most, this.#options));
      for (const { job, resolve } of acks) { this.#running.delete(job); resolve(); }
      this.#take(rows);
    } catch (error) {
      this.#acks.unshift(...acks);
      this.#acknowledgeAll();
      if (!(error instanceof StaleLeaseError)) throw error;
    }
  }

  #take(rows) {
    for (const row of rows) {
      const job = new Job(row, this.#db);
      const now = performance.now();
      job.interval = Math.max(50, Math.min(this.#options.heartbeat * 1000, job.length / 3));
      job.expires = now + job.length;
      this.#beat = Math.min(this.#running.size === 0 ? Infinity : this.#beat, now + job.interval);
      this.#running.add(job);
      this.#waiting.push(job);
    }
    this.#begin();
    for (const job of this.#waiting) job.due ??= Math.min(performance.now() + 4000 * this.#options.ahead, job.expires);
  }

  /** Begins the jobs that were claimed, in their order, as long as there are free hands. */
  #begin() {
    while (this.#waiting.length > 0 && this.#busy < this.#options.concurrency) {
      const job = this.#waiting.shift();
      job.began = performance.now();
      this.#busy++;
      this.#finish(job, this.#attempt(job));
    }
  }

  #finish(job, promise) {
    promise.catch((error) => this.#report(error)).finally(() => { this.#running.delete(job); this.#endsWork(job); this.#wake(); });
  }

  /** The handler of the job has ended, so another job may begin. The ack of the job may still be on its way. */
  #endsWork(job) {
    if (job.began === undefined) return;
    this.#pace += 0.2 * (performance.now() - job.began - this.#pace);
    job.began = undefined;
    this.#busy--;
    this.#begin();
  }

  /** Gives back the jobs that should have begun by now, or all if the worker stops: another worker may have free hands. */
  async #giveBack() {
    const late = this.#waiting.filter((job) => this.#stopping || job.due <= performance.now());
    if (late.length === 0) return;
    this.#slowDown();
    this.#waiting = this.#waiting.filter((job) => !late.includes(job));
    try {
      await inTime(this.#control, 30, release(this.#control, late));
      for (const job of late) this.#running.delete(job);
    } catch (error) {
      for (const job of late) this.#finish(job, this.#answer(job, new ReleaseError())); // as soon as there is a connection
      throw error;
    }
  }

  /** Extends the leases, also those of jobs that wait for their ack. In tx mode the transaction of the ack keeps the lease. */
  async #extend() {
    const jobs = [...this.#running].filter((job) => !(job.ended && this.#options.tx));
    const held = await extend(this.#control, jobs);
    const now = performance.now();
    this.#beat = now + Math.min(...jobs.map((job) => job.interval));
    for (const job of jobs) {
      if (held.has(job)) job.expires = now + job.length;
      else if (!job.ended) job.abort(new StaleLeaseError(new Error('the lease is lost, or the job is cancelled')));
    }
  }

  /**
   * Aborts the jobs whose leases have expired by the clock: without a connection they cannot be extended. Also ends the connections
   * of their transactions, or a query to a server that has gone silently would keep the handler.
   */
  #abortExpired() {
    for (const job of [...this.#running].filter(({ expires, ended }) => expires < performance.now() && !ended)) {
      job.abort(new StaleLeaseError(new Error('the lease has expired, since the worker has no connection')));
      job.tx?.connection.stream.destroy();
    }
  }

  #end() {
    clearTimeout(this.#stopTimer);
    for (const signal of this.#options.signals) process.off(signal, this.#onSignal);
    this.#drop();
  }

  #drop() {
    if (this.#control) close(this.#control);
    this.#control = null;
    this.#acknowledgeAll();
  }

  #report(error) {
    this.#log('error', textOf(error, 'message'), { code: error?.code });
    this.#hook('error', error);
  }

  /** Waits that long, or until a job has ended or the worker is stopped. */
  #pause(milliseconds) {
    return new Promise((resolve) => { const timer = setTimeout(resolve, milliseconds); this.#wake = () => { clearTimeout(timer); resolve(); }; });
  }

  // ---- one job ----

  /** Runs the handler, and reports its result or its error to the server. */
  async #attempt(job) {
    if (this.#stopping || job.due < job.began || job.aborted) return this.#answer(job, new ReleaseError());
    if (this.#options.before) await this.#hook('before', job);
    let problem;
    try {
      if (this.#options.tx) await this.#inTransaction(job);
      else await this.#acknowledge(job, await this.#handler(job));
    } catch (error) {
      problem = error instanceof Error ? error : new Error(textOf(error), { cause: error });
    }
    job.ended = true;
    const outcome = problem === undefined ? 'acked' : await this.#answer(job, problem);
    return this.#options.after && this.#hook('after', job, outcome, problem);
  }

  /** Runs the handler in a transaction. An attempt counts only if the handler has been called. */
  async #inTransaction(job) {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#transact(job);
      } catch (error) {
        if (job.begun) throw error;
        this.#report(error);
      }
      await sleep(Math.min(10000, 100 * 2 ** tries) * (0.5 + Math.random()));
      job.signal.throwIfAborted();
      if (this.#stopping) throw new ReleaseError();
    }
  }

  #transact(job) {
    return this.#pool.use(async (tx) => {
      await inTime(tx, 30, tx.query('BEGIN'));
      job.begun = true;
      job.db = job.tx = tx;
      try {
        const result = await this.#handler(job, tx);
        job.ended = true; // a heartbeat after the commit would find no lease
        await ackCommit(tx, job, textOfResult(result));
      } catch (error) {
        job.ended = false;
        await inTime(tx, 30, tx.query('ROLLBACK')).catch(() => { tx.broken = true; });
        throw error;
      } finally {
        Object.assign(job, { tx: undefined, db: this.#db }); // soon, tx has the transaction of another job
      }
    }, (error) => job.begun && error?.code !== '25006'); // behind a pooler, the server may have become a standby
  }

  /** Acknowledges the job together with others that end at the same time. A job with a result needs a call of its own. */
  #acknowledge(job, result) {
    const text = textOfResult(result);
    job.ended = true;
    this.#endsWork(job);
    if (text !== undefined) return this.#persist((db) => ack(db, job, text));
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
          if (acked.has(job.id)) resolve(); else reject(new StaleLeaseError(new Error('the lease is stale')));
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#acking = false;
  }

  /** Reports the error of a job. Returns what became of the job: retry, dead, released or stale. */
  async #answer(job, error) {
    if (!(error instanceof ReleaseError)) this.#log('info', `job failed: ${textOf(error, 'message')}`, { job: job.id, queue: job.queue });
    try {
      return await this.#persist((db) => settle(db, job, error, this.#aborting));
    } catch (problem) {
      this.#report(problem);
      return 'unknown';
    }
  }

  /** Repeats the call while there is no server, as long as the job may still be this worker's. */
  async #persist(call) {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#pool.use((db) => inTime(db, 30, call(db)));
      } catch (error) {
        if (!isTransient(error) || tries === 10 || (this.#aborting && tries > 0)) throw error;
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
 * Returns [{ job, outcome, error }]. A job whose next attempt is ready by then runs again, so pass `limit` if it always is.
 */
async function drain(db, queues, handler, { tx = false, limit = Infinity, ...options } = {}) {
  const ended = [];
  while (ended.length < limit) {
    const [row] = await claim(db, [].concat(queues), 1, 0, options);
    if (!row) break;
    const job = new Job(row, db);
    let [outcome, problem] = ['acked'];
    try {
      if (tx) await db.query('BEGIN');
      await ack(db, job, textOfResult(await handler(job, tx ? db : undefined)));
      if (tx) await db.query('COMMIT');
    } catch (error) {
      problem = error instanceof Error ? error : new Error(textOf(error), { cause: error });
      if (tx) await db.query('ROLLBACK');
      outcome = await settle(db, job, problem, false);
    }
    ended.push({ job, outcome, error: problem });
  }
  return ended;
}

module.exports = { Worker, work, drain };
