// Uses everything that the package pgq-ext exports; test/clients/packages.pl compiles this file, and does not run it.
import { Pool } from 'pg';
import * as pgq from 'pgq-ext';
import type { Callback, Connection, Db, Handler, JobOptions, NewJob, Outcome, Published, WorkerOptions } from 'pgq-ext';

interface Mail { to: string }

async function produce(db: Db, pool: Pool): Promise<string[]> {
  const options: JobOptions = {
    priority: 1, delay: 2, runAt: new Date(), groupKey: 'a', uniqueKey: 'b', uniqueUntil: 'claimed', uniqueFor: '1 h',
    onConflict: 'replace', headers: { traceparent: '00-1-2-01' }, maxAttempts: 3, expiresIn: '1 day', onParentFailure: 'hold',
  };
  const id: string = await pgq.enqueue(pool, 'mail', { to: 'ann@example.org' }, options);
  const jobs: NewJob[] = [{ payload: 1, ref: 'first' }, { payload: 2, after: ['first', id] }];
  const ids: string[] = await pgq.enqueueMany(db, 'mail', jobs);
  const published: Published[] = await pgq.publish(db, 'orders.new', {}, { mustRoute: true });
  await pgq.publishMany(db, [{ topic: 'orders.new', payload: {} }]);
  const onSuccess: Callback = { queue: 'mail', payload: {} };
  const batch = await pgq.createBatch(db, { onSuccess, metadata: 1 });
  await pgq.enqueue(db, 'mail', {}, { batch });
  await pgq.closeBatch(db, batch);
  const answer: string = await pgq.cancel(db, id);
  const ended = await pgq.result(db, id, 1);
  return [...ids, ...published.map((job) => job.id), answer, ended?.state ?? 'unknown', String(ended?.error)];
}

const handler: Handler<Mail> = async (job, tx) => {
  await tx.query('INSERT INTO sent VALUES ($1, $2)', [job.id, job.payload.to]);
  await fetch('http://localhost/', { signal: job.signal });
  await job.progress({ done: job.lastProgress });
  const step: number | null = await job.checkpoint<number>('step', 1);
  const states: string[] = (await job.parents()).map((parent) => parent.state);
  await job.assertLease();
  if (job.attempt === job.maxAttempts) throw new pgq.DiscardError(`${job.queue} ${job.lastError ?? ''}`);
  if (job.groupKey === null) throw new pgq.RetryError('later', 60);
  if (job.priority > 1) throw new pgq.ReleaseError(1);
  return { step, states, headers: job.headers, at: [job.enqueuedAt, job.runAt], lease: job.lease };
};

function nameOf(error: unknown): string {
  if (error instanceof pgq.StaleLeaseError) return 'stale';
  if (error instanceof pgq.QueueFullError) return 'full';
  if (error instanceof pgq.UnroutableError) return 'unroutable';
  if (error instanceof pgq.NotFoundError) return 'not found';
  if (error instanceof pgq.DuplicateError) return 'duplicate';
  return error instanceof pgq.PgqError ? `${error.code} ${error.detail ?? ''} ${error.hint ?? ''}` : 'another one';
}

async function main(): Promise<void> {
  const connection: Connection = { host: 'one,two', port: 5432 };
  const db = await pgq.connect(connection);
  await produce(db, new Pool());
  const ended: { job: pgq.Job; outcome: Outcome }[] = await pgq.drain(db, ['mail'], handler, { tx: true, limit: 10 });
  const options: WorkerOptions = {
    concurrency: 10, tx: true, wait: 1, heartbeat: 2, leaseTime: '1 min', stopTimeout: 10, signals: ['SIGTERM'], pool: 10, worker: 'a',
    connection,
    before: (job) => { console.log(job.id); },
    after: (job, outcome, error) => { console.log(job.id, outcome, error && nameOf(error)); },
    error: (error) => { console.error(error); },
    log: (level, message, fields) => { console.log(level, message, fields, ended.length); },
  };
  const worker: pgq.Worker = await pgq.work('mail', handler, options);
  if (worker.running === 0) await worker.stop(1);
  await worker.done;
  // @ts-expect-error: there is no such option
  await pgq.work('mail', handler, { concurency: 1 });
}

main();
