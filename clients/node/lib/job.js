'use strict';
const { query, json, interval } = require('./produce');

/** A job that a worker has claimed. Its methods call the functions of the same names. */
class Job {
  #abort; // an AbortController, made when it is needed
  #db;

  /** row: of pgq_claim. db: what the methods use: the transaction of the handler, if it has one. */
  constructor(row, db) {
    Object.assign(this, {
      id: row.job_id, lease: row.lease, queue: row.queue, payload: row.payload, headers: row.headers ?? {},
      groupKey: row.group_key, priority: row.priority, attempt: row.attempt, maxAttempts: row.max_attempts,
      enqueuedAt: row.enqueued_at, runAt: row.run_at, lastError: row.last_error, lastProgress: row.progress,
      length: row.seconds * 1000, // of the lease
    });
    this.#db = db;
  }

  /** Aborted when the lease is lost, the job is cancelled, or the worker must end at once. `signal.reason` says why. */
  get signal() { return (this.#abort ??= new AbortController()).signal; }

  get aborted() { return this.#abort?.signal.aborted ?? false; }

  abort(reason) { (this.#abort ??= new AbortController()).abort(reason); }

  set db(db) { this.#db = db; }

  /** Stores how far the work has come; the next attempt finds it in `lastProgress`. */
  async progress(value) {
    await query(this.#db, 'SELECT pgq_progress($1, $2, $3)', [this.id, this.lease, json(value)]);
  }

  /** Keeps the value of a step, once for all attempts, and returns the value that is kept. Without a value: reads it. */
  async checkpoint(step, value) {
    const passed = value === undefined ? null : json(value);
    const [row] = await query(this.#db, 'SELECT pgq_checkpoint($1, $2, $3, $4) AS value', [this.id, this.lease, step, passed]);
    return row.value;
  }

  /** The jobs after which this one was enqueued: [{ job_id, ref, state, result, error }]. */
  parents() { return query(this.#db, 'SELECT * FROM pgq_parents($1, $2)', [this.id, this.lease]); }

  /** Raises StaleLeaseError if the lease has ended. In a transaction, keeps the lease until its end. */
  async assertLease() {
    await query(this.#db, 'SELECT pgq_assert_lease($1, $2)', [this.id, this.lease]);
  }
}

const COLUMNS = `job_id, lease, queue, payload, headers, group_key, priority, attempt, max_attempts, enqueued_at, run_at,
  last_error, progress, extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS seconds`;
const ARGUMENTS = { claim: '$1, $2, wait => $3, lease_time => $4, worker => $5', ack: '$1, $2, $3, $4, lease_time => $5, worker => $6' };
const length = (leaseTime) => (leaseTime === undefined ? null : interval(leaseTime));
const leasesOf = (jobs) => [jobs.map((job) => job.id), jobs.map((job) => job.lease)];

/** Claims up to `most` jobs; returns rows, with the length of the lease as `seconds`. */
function claim(db, queues, most, wait, { leaseTime, worker }) {
  const [name, from] = queues.length === 1 ? ['pgq_claim', queues[0]] : ['pgq_claim_any', queues];
  return query(db, `SELECT ${COLUMNS} FROM ${name}(${ARGUMENTS.claim})`, [from, most, interval(wait), length(leaseTime), worker ?? null]);
}

/** Acknowledges jobs without results, and claims up to `most` others. A stale lease is an error; then nothing is done. */
function ackClaim(db, jobs, queue, most, { leaseTime, worker }) {
  return query(db, `SELECT ${COLUMNS} FROM pgq_ack_claim(${ARGUMENTS.ack})`, [...leasesOf(jobs), queue, most, length(leaseTime), worker ?? null]);
}

/** Acknowledges one job in the present transaction. result: as JSON, or undefined. */
async function ack(db, job, result) {
  await query(db, 'SELECT pgq_ack($1, $2, result => $3)', [job.id, job.lease, result ?? null]);
}

/** Acknowledges the job, with a result as JSON or undefined, and commits, in one round trip. The numbers are of the server, and so need no quotes. */
async function ackCommit(tx, job, result) {
  const value = result === undefined ? 'NULL' : tx.escapeLiteral(result);
  await query(tx, `SELECT pgq_ack(${job.id}, ${job.lease}, result => ${value}); COMMIT`);
}

/** Acknowledges jobs without results; returns the ids of those whose lease was still good. */
async function ackMany(db, jobs) {
  const rows = await query(db, 'SELECT pgq_ack_many($1, $2) AS id', leasesOf(jobs));
  return new Set(rows.map((row) => row.id));
}

async function fail(db, job, error, { retry = true, seconds } = {}) {
  const [row] = await query(db, 'SELECT pgq_fail($1, $2, error => $3, retry => $4, retry_in => $5) AS answer',
    [job.id, job.lease, error, retry, seconds === undefined ? null : interval(seconds)]);
  return row.answer;
}

/** Gives back jobs. Returns whether the lease of the first one was still good. */
async function release(db, jobs, seconds = 0) {
  const [row] = await query(db, 'SELECT pgq_release(job_id, lease, $3) AS released FROM unnest($1::bigint[], $2::bigint[]) AS held(job_id, lease)',
    [...leasesOf(jobs), interval(seconds)]);
  return row.released;
}

/** Extends leases; returns the jobs that still have theirs. Jobs may have leases of the same number, and a job two leases. */
async function extend(db, jobs) {
  const rows = await query(db,
    `SELECT n FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS held(job_id, lease, n)
     WHERE pgq_extend(job_id, lease) IS NOT NULL`,
    leasesOf(jobs));
  return new Set(rows.map((row) => jobs[row.n - 1]));
}

module.exports = { Job, claim, ackClaim, ack, ackCommit, ackMany, fail, release, extend };
