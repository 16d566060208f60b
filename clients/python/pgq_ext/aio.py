"""A worker whose handlers are coroutines. Producers are in calls.py: they also take a psycopg.AsyncConnection."""

import asyncio
import contextlib
import inspect
import itertools
import signal
import sys
import threading
import time

import psycopg

from . import calls
from .errors import PgqError, ReleaseError, StaleLeaseError, is_final, is_transient, line_of
from .options import Options, is_lost


async def connect(conninfo="", **connection):
    """Connect to the primary among the hosts of conninfo, or of PGHOST, with autocommit."""
    return await _connect(Options(conninfo=conninfo, connection=connection))


async def _awaited(value):
    return await value if inspect.isawaitable(value) else value


async def _connect(options, kind=psycopg.AsyncConnection):
    problem = None
    for address in options.addresses():
        try:
            return await _awaited(kind.connect(**address))
        except psycopg.OperationalError as error:
            problem = error
    raise problem


class Job(calls.Job):
    """As calls.Job; all methods must be awaited, and the coroutine of the handler is cancelled when the job is aborted."""


class _Pool:
    """Connections to the primary. One that was lost is replaced when it is needed. As `db` of a job, runs statements."""

    def __init__(self, options, kind=psycopg.AsyncConnection, slots=asyncio.PriorityQueue):
        self.options, self.kind, self.slots, self.puts = options, kind, slots(), itertools.count()
        for _ in range(options.pool):
            self._put(None)

    def _put(self, db):
        """Put a connection, or None, back. Open connections are taken first: it may be that no other can be had."""
        self.slots.put_nowait((db is None or db.closed, -next(self.puts), db))

    async def _get(self):
        return (await _awaited(self.slots.get()))[2]

    async def use(self, body):
        db = await self._get()
        try:
            if db is None or db.closed:
                db = await _connect(self.options, self.kind)
            return await _awaited(body(db))
        except BaseException as error:
            if db is not None and is_lost(error):
                await _awaited(db.close())
            raise
        finally:
            self._put(db)

    async def run(self, *statement):
        return await self.use(lambda db: calls.run(db, *statement))

    async def close(self):
        for _ in range(self.options.pool):
            db = await self._get()
            if db is not None:
                await _awaited(db.close())


class Worker:
    """Runs the jobs of one or more queues until it is stopped.

    One connection claims jobs and extends their leases; a pool of others acknowledges them, and has the transactions of
    handlers. handler(job), or handler(job, tx) in tx mode, is a coroutine function; what it returns is the result of the
    job. An aborted handler is cancelled.
    """

    def __init__(self, queues, handler, **options):
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        self.handler, self.options = handler, Options(**options)
        self.pool = _Pool(self.options)
        self.control = self.timer = None
        self.running = {}  # job: task of the attempt; the worker may get a job again while it still runs
        self.changed = asyncio.Event()
        self.stopping = self.aborting = False
        self.beat = float("inf")  # when the leases must be extended
        self.problem = None  # the error that ends the worker
        self.acks, self.ack_lock = [], asyncio.Lock()

    async def run(self):
        """Run until stop() is called or a signal comes; if the task is cancelled, give back the jobs in work.

        Raises an error if there is no primary at the start, or if no job can be claimed: no such queue, no right to it.
        """
        loop = asyncio.get_running_loop()
        signals = [getattr(signal, name) for name in self.options.signals]
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            self.control = await _connect(self.options)
            self._take(await self._claim(self.options.concurrency, 0))
            await self._run()
        except asyncio.CancelledError:
            await self._drop()  # its claim may still be on its way
            self.stop()
            self._abort_all()
            await self._run()
            raise
        finally:
            if self.timer:
                self.timer.cancel()
            for number in signals:
                loop.remove_signal_handler(number)
            await self._close()
        if self.problem:
            raise self.problem

    def stop(self, timeout=None):
        """Claim no more jobs; run() returns when those in work have ended. More calls change nothing.

        After the timeout (by default the option stop_timeout) the handlers that still run are aborted, and released if
        they then raise an error.
        """
        if not self.stopping:
            self.stopping = True
            self._log("info", "stopping", running=len(self.running))
            timeout = self.options.stop_timeout if timeout is None else timeout
            self.timer = asyncio.get_running_loop().call_later(timeout, self._abort_all)
            self.changed.set()

    # ---- claims and heartbeats ----

    async def _run(self):
        tries = 0
        while not self.stopping or self.running:
            self.changed.clear()  # here, not in _pause: what changes from now on must end the pause
            try:
                self.control = self.control or await _connect(self.options)
                await self._round()
                tries = 0
            except (psycopg.Error, PgqError, asyncio.TimeoutError) as error:
                await self._report(error)
                await self._drop()
                if is_final(error) and not self.stopping:
                    self.problem = error
                    self.stop()
                self._abort_expired()
                await self._pause(self.options.pause(tries))
                tries += 1

    async def _close(self):
        await self._drop()
        await self.pool.close()

    async def _round(self):
        """Extend the leases if it is time; then claim as many jobs as can start at once, or wait until a job has ended."""
        left = max(0, self.beat - time.monotonic()) if self.running else float("inf")
        if left == 0:
            await self._extend()
            left = max(0, self.beat - time.monotonic())
        free = self.options.concurrency - len(self.running)
        if self.stopping or free <= 0:
            await self._pause(min(left, 1))
        else:
            self._take(await self._claim(free, min(self.options.wait, left)))

    def _claim(self, most, wait):
        rows = calls.claim(self.control, self.queues, most, wait, self.options.lease_time, self.options.worker)
        return asyncio.wait_for(rows, wait + 30)  # a server that hangs keeps the connection alive

    def _take(self, rows):
        for row in rows:
            job = self._new_job(row)
            job.interval = min(self.options.heartbeat, job.interval)
            self.beat = min(self.beat if self.running else float("inf"), time.monotonic() + job.interval)
            self.running[job] = asyncio.create_task(self._attempt(job))

    def _new_job(self, row):
        return Job(row, self.pool, asyncio.Event())

    async def _extend(self):
        """Extend the leases, also those of jobs that wait for their ack. In tx mode the transaction of the ack keeps the lease."""
        jobs = [job for job in self.running if not (job.ended and self.options.tx)]
        held = await asyncio.wait_for(calls.extend(self.control, jobs), 30)
        now = time.monotonic()
        self.beat = now + min((job.interval for job in jobs), default=1)
        for job in jobs:
            if job in held:
                job.expires = now + job.length
            elif not job.ended:
                self._abort(job, StaleLeaseError("the lease is lost, or the job is cancelled"))

    def _abort_expired(self):
        """Abort the jobs whose leases have expired by the clock: without a connection they cannot be extended."""
        for job in list(self.running):
            if job.expires < time.monotonic() and not job.ended:
                self._abort(job, StaleLeaseError("the lease has expired, since the worker has no connection"))

    def _abort(self, job, reason):
        job.abort_reason = reason
        job.aborted.set()
        if job.task is not None:
            job.task.cancel()

    def _abort_all(self):
        self.aborting = True
        for job in list(self.running):
            self._abort(job, TimeoutError("the worker stops"))

    async def _pause(self, seconds):
        """Wait that long, or until a job has ended or the worker is stopped."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.changed.wait(), seconds)

    async def _drop(self):
        if self.control is not None:
            await self.control.close()
        self.control = None

    async def _report(self, error):
        self._log("error", line_of(error), sqlstate=getattr(error, "sqlstate", None))
        await self._hook(self.options.error, error)

    def _log(self, *args, **fields):
        try:
            self.options.log(*args, **fields)
        except Exception as error:  # as a hook
            print(f"log: {line_of(error)}", file=sys.stderr)

    async def _hook(self, hook, *args):
        try:
            await _awaited(hook(*args) if hook else None)
        except Exception as error:  # a hook must not stop the worker
            self._log("error", f"hook: {line_of(error)}")

    # ---- one job ----

    async def _attempt(self, job):
        """Run the handler, and report its result or its error to the server. Raises no error."""
        try:
            if self.stopping:
                await self._answer(job, ReleaseError())
                return
            await self._hook(self.options.before, job)
            problem, outcome = None, "acked"
            try:
                if self.options.tx:
                    await self._in_transaction(job)
                else:
                    await self._acknowledge(job, await self._handle(job))
            except (Exception, asyncio.CancelledError, SystemExit) as error:
                job.ended = True
                problem = job.abort_reason if isinstance(error, asyncio.CancelledError) and job.abort_reason else error
                outcome = await self._answer(job, problem)
            await self._hook(self.options.after, job, outcome, problem)
        finally:
            del self.running[job]
            self.changed.set()

    async def _handle(self, job, *args):
        """Run the handler as a task, which can be cancelled without ending the attempt."""
        if job.aborted.is_set():  # while the job waited for a connection
            raise job.abort_reason
        job.task = asyncio.create_task(self.handler(job, *args))
        try:
            return await job.task
        finally:
            job.task = None

    async def _in_transaction(self, job):
        """Run the handler in a transaction. An attempt counts only if the handler has been called."""
        tries = 0
        while True:
            try:
                return await self._transact(job)
            except (psycopg.Error, PgqError) as error:
                if job.begun:
                    raise
                if tries > 0:  # the first time, a connection may have been closed because it was idle
                    await self._report(error)
            await asyncio.sleep(self.options.pause(tries - 2))
            tries += 1
            if job.aborted.is_set():
                raise job.abort_reason
            if self.stopping:
                raise ReleaseError()

    async def _transact(self, job):
        async def body(db):
            async with db.transaction():
                job.db, job.begun = db, True
                value = await self._handle(job, db)
                await calls.ack(db, job, value)
                job.ended = True  # a heartbeat after the commit would find no lease

        try:
            await self.pool.use(body)
        except BaseException:
            job.ended = False
            raise
        finally:
            job.db = self.pool  # soon, the connection has the transaction of another job

    async def _acknowledge(self, job, value):
        """Acknowledge the job together with others that end at the same time. A job with a result needs a call of its own."""
        job.ended = True
        if value is not None:
            await self._persist(lambda db: calls.ack(db, job, value))
            return
        acked = asyncio.get_running_loop().create_future()
        self.acks.append((job, acked))
        async with self.ack_lock:
            while not acked.done():
                await self._acknowledge_all()
        if not await acked:
            raise StaleLeaseError("the lease is stale")

    async def _acknowledge_all(self):
        batch, self.acks = self.acks[:1000], self.acks[1000:]
        try:
            ids = await self._persist(lambda db: calls.ack_many(db, [job for job, _ in batch]))
            for job, acked in batch:
                acked.set_result(job.id in ids)
        except Exception as error:
            for _, acked in batch:
                acked.set_exception(error)

    async def _answer(self, job, error):
        """Report the error of a job. Return what became of the job: retry, dead, released, stale or unknown."""
        self._log("info", f"job failed: {line_of(error)}", job=job.id, queue=job.queue)
        if isinstance(error, StaleLeaseError):
            return "stale"
        try:
            return await self._persist(lambda db: calls.settle(db, job, error, self.aborting))
        except Exception as problem:
            await self._report(problem)
            return "unknown"

    async def _persist(self, call):
        """Repeat the call while there is no server, as long as the job may still be this worker's."""
        for tries in range(12):
            try:
                return await self.pool.use(call)
            except (psycopg.Error, PgqError) as error:
                if not is_transient(error) or tries == 11 or (self.aborting and tries > 0):
                    raise
            await asyncio.sleep(self.options.pause(tries - 1))


async def work(queues, handler, **options):
    """Run a worker until it is stopped, by SIGTERM for example."""
    await Worker(queues, handler, **options).run()


async def drain(db, queues, handler, *, tx=False, limit=None, lease_time=None, worker=None):
    """For tests: run the jobs that are ready, one by one, until no job is ready. db: a connection with autocommit.

    Return a list of (job, outcome, error).
    """
    ended, queues = [], [queues] if isinstance(queues, str) else list(queues)
    event = threading.Event if isinstance(db, psycopg.Connection) else asyncio.Event
    in_tx = db.execute if tx else lambda statement: None
    while limit is None or len(ended) < limit:
        rows = await _awaited(calls.claim(db, queues, 1, 0, lease_time, worker))
        if not rows:
            break
        job, problem = (calls.Job if event is threading.Event else Job)(rows[0], db, event()), None
        try:
            await _awaited(in_tx("BEGIN"))
            value = await _awaited(handler(job, db) if tx else handler(job))
            outcome = await _awaited(calls.ack(db, job, value))
            await _awaited(in_tx("COMMIT"))
        except Exception as error:
            await _awaited(in_tx("ROLLBACK"))
            problem, outcome = error, "stale"
            if not isinstance(error, StaleLeaseError):
                outcome = await _awaited(calls.settle(db, job, error))
        ended.append((job, outcome, problem))
    return ended
