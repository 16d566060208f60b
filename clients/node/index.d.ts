/** Enqueue and run jobs of pgq_ext. The reference of pgq_ext says what the functions of the same names do. */
import type { Client, ClientConfig } from 'pg';

/** An id of a job or batch: a text of digits, or a number. */
export type Id = string | number;
/** Seconds, or an interval of PostgreSQL such as '5 min'. */
export type Interval = number | string;
/** A client or pool of pg, or anything that has this method. In a transaction, all calls are part of it. */
export interface Db { query(text: string, values?: unknown[]): Promise<{ rows: any[] }> }

export interface JobOptions {
  priority?: number;
  delay?: Interval;
  runAt?: Date | string;
  groupKey?: string;
  uniqueKey?: string;
  uniqueUntil?: 'finished' | 'claimed';
  uniqueFor?: Interval;
  onConflict?: 'keep' | 'replace' | 'preserve_run_at' | 'append' | 'error';
  headers?: Record<string, unknown>;
  maxAttempts?: number;
  expiresIn?: Interval;
  batch?: Id;
  after?: Id[];
  onParentFailure?: 'cancel' | 'run' | 'hold';
}
/** A job of an array. `after` may name other jobs of the array by their `ref`. */
export interface NewJob extends Omit<JobOptions, 'after'> { payload: unknown; ref?: string; after?: Id[] }
export interface Callback extends NewJob { queue: string }
export interface Published { queue: string; id: string }

/** Adds a job, and returns its id. */
export function enqueue(db: Db, queue: string, payload: unknown, options?: JobOptions): Promise<string>;
/** Adds jobs, all or none, and returns their ids. */
export function enqueueMany(db: Db, queue: string, jobs: NewJob[]): Promise<string[]>;
export function publish(db: Db, topic: string, payload: unknown, options?: JobOptions & { mustRoute?: boolean }): Promise<Published[]>;
export function publishMany(db: Db, jobs: (NewJob & { topic: string })[]): Promise<Published[]>;
export function createBatch(db: Db, options?: { onSuccess?: Callback; onFailure?: Callback; onFinish?: Callback; metadata?: unknown }): Promise<string>;
export function closeBatch(db: Db, batch: Id): Promise<void>;
export function cancel(db: Db, id: Id): Promise<string>;
/** Waits up to that many seconds for the end of the job. null: the server does not know the job (any more). */
export function result(db: Db, id: Id, seconds?: number): Promise<{ job_id: string; state: string; result: any; error: string | null } | null>;

/** `host` and `port` may be lists with commas, as PGHOST and PGPORT may: the primary among them is used. */
export type Connection = Omit<ClientConfig, 'host' | 'port'> & { host?: string; port?: string | number };
export function connect(connection?: Connection): Promise<Client>;

/** A job that a worker has claimed. In `tx` mode the methods are part of the transaction of the handler. */
export interface Job<Payload = any> {
  readonly id: string;
  readonly lease: string;
  readonly queue: string;
  readonly payload: Payload;
  readonly headers: Record<string, any>;
  readonly groupKey: string | null;
  readonly priority: number;
  /** 1 for the first try. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly enqueuedAt: Date;
  readonly runAt: Date;
  readonly lastError: string | null;
  /** What an earlier attempt has passed to progress(). */
  readonly lastProgress: any;
  /** Aborted when the lease is lost, the job is cancelled, or the worker must end at once. */
  readonly signal: AbortSignal;
  progress(value: unknown): Promise<void>;
  /** Keeps the value of a step, once for all attempts; returns the value that is kept. Without a value: reads it. */
  checkpoint<Value = any>(step: string, value?: Value): Promise<Value | null>;
  parents(): Promise<{ job_id: string; ref: string | null; state: string; result: any; error: string | null }[]>;
  assertLease(): Promise<void>;
}

export type Outcome = 'acked' | 'retry' | 'dead' | 'released' | 'stale' | 'unknown';
/** What it returns is the result of the job. tx: the transaction, in `tx` mode. */
export type Handler<Payload = any> = (job: Job<Payload>, tx: Client) => unknown;

export interface WorkerOptions {
  /** How many jobs run at a time. Default 1. */
  concurrency?: number;
  /** The handler and the ack are one transaction. Default false. */
  tx?: boolean;
  /** Seconds that a claim waits for a job, and so the longest time that a stop waits for a claim. Default 5. */
  wait?: number;
  /** Seconds between two extensions of the leases; at most a third of a lease. Default 5. */
  heartbeat?: number;
  /** Length of the leases. Default: the lease_time of the queue. */
  leaseTime?: Interval;
  /** Seconds after which a stop aborts the handlers that still run. Default 30. */
  stopTimeout?: number;
  /**
   * Seconds. While jobs end fast, a claim also takes jobs that will probably begin within this time, at most 100. Jobs that have not
   * begun after four times as long are released. If the process dies, the jobs that it has claimed lose an attempt, also those
   * that have not begun. Default 0: the worker claims only jobs that begin at once.
   */
  ahead?: number;
  /** Signals that stop the worker. Default SIGTERM and SIGINT. */
  signals?: NodeJS.Signals[];
  /** How many connections acknowledge jobs and run transactions. Default: `concurrency` in tx mode, else 1. */
  pool?: number;
  /** The label of the worker in views. Default: application_name. */
  worker?: string;
  connection?: Connection;
  before?(job: Job): unknown;
  after?(job: Job, outcome: Outcome, error?: unknown): unknown;
  /** An error that is not of a job: a lost connection, for example. The worker goes on. */
  error?(error: any): unknown;
  /** Default: errors go to standard error, as JSON. */
  log?(level: 'info' | 'error', message: string, fields: Record<string, unknown>): void;
}
export class Worker {
  /** Resolves when the worker has ended. Rejects if no more job can be claimed: the queue was dropped, for example. */
  done: Promise<void>;
  /** The number of jobs in work. */
  readonly running: number;
  stop(timeout?: number): Promise<void>;
}
/** Starts a worker. Rejects if there is no primary or no such queue. */
export function work<Payload = any>(queues: string | string[], handler: Handler<Payload>, options?: WorkerOptions): Promise<Worker>;
/** For tests: runs the jobs that are ready, one by one, until no job is ready. Returns what became of them. */
export function drain(db: Db, queues: string | string[], handler: Handler, options?: { tx?: boolean; limit?: number; leaseTime?: Interval; worker?: string }): Promise<{ job: Job; outcome: Outcome; error?: unknown }[]>;

export class PgqError extends Error { code: string; detail?: string; hint?: string }
/** PQ001: the lease has ended; another worker may have the job. */
export class StaleLeaseError extends PgqError {}
/** PQ002: the queue is full. */
export class QueueFullError extends PgqError {}
/** PQ003: no queue is bound to the topic, and `mustRoute` was set. */
export class UnroutableError extends PgqError {}
/** 42704: there is no such queue, job or batch. */
export class NotFoundError extends PgqError {}
/** 23505: a job has the unique key. */
export class DuplicateError extends PgqError {}
/** Throw it in a handler: the job becomes a dead letter at once. */
export class DiscardError extends Error { constructor(message?: string) }
/** Throw it in a handler: the next attempt begins after that many seconds. */
export class RetryError extends Error { constructor(message: string, seconds: number) }
/** Throw it in a handler: the job is given back, for that many seconds, without a counted attempt. */
export class ReleaseError extends Error { constructor(seconds?: number) }
