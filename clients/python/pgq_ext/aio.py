"""A worker whose handlers are coroutines. Producers are in calls.py: they also take a psycopg.AsyncConnection."""

import asyncio
import signal
import time

import psycopg

from . import calls
from .errors import PgqError, ReleaseError, StaleLeaseError, is_of_server, text_of, verdict
from .options import Options, is_lost


async def connect(conninfo="", **connection):
    """Connect to the primary among the hosts of conninfo, or of PGHOST, with autocommit."""
    return await psycopg.AsyncConnection.connect(**Options(conninfo=conninfo, connection=connection).for_connection())


class Job(calls.Job):
    """As calls.Job; all methods must be awaited, and the coroutine of the handler is cancelled when the job is aborted."""


class _Pool:
    """Connections to the primary. One that was lost is replaced when it is needed. As `db` of a job, runs statements."""

    def __init__(self, options):
        self.options = options
        self.slots = asyncio.LifoQueue()
        for _ in range(options.pool):
            self.slots.put_nowait(None)

    async def use(self, body):
        db = await self.slots.get()
        try:
            if db is None or db.closed:
                db = await psycopg.AsyncConnection.connect(**self.options.for_connection())
            return await body(db)
        except BaseException as error:
            if db is not None and is_lost(error):
                await db.close()
            raise
        finally:
            self.slots.put_nowait(db)

    async def run(self, *statement):
        return await self.use(lambda db: calls.run(db, *statement))

    async def close(self):
        for _ in range(self.options.pool):
            db = await self.slots.get()
            if db is not None:
                await db.close()


class Worker:
    """Runs the jobs of one or more queues until it is stopped.

    One connection claims jobs and extends their leases; a pool of others acknowledges them, and has the transactions of
    handlers. handler(job), or handler(job, tx) in tx mode, is a coroutine function; what it returns is the result of the
    job. An aborted handler is cancelled.
    """

    def __init__(self, queues, handler, **options):
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        self.handler = handler
        self.options = Options(**options)
        self.pool = _Pool(self.options)
        self.control = None
        self.running = {}  # id of the job: (job, task of the handler)
        self.changed = asyncio.Event()
        self.stopping = self.aborting = False
        self.beat = float("inf")
        self.interval = self.options.heartbeat
        self.acks, self.ack_lock = [], asyncio.Lock()

    async def run(self):
        """Run until stop() is called or a signal comes. Raises an error if there is no primary or no such queue."""
        self.control = await psycopg.AsyncConnection.connect(**self.options.for_connection())
        loop = asyncio.get_running_loop()
        self._take(await self._claim(self.options.concurrency, 0))
        signals = [getattr(signal, name) for name in self.options.signals]
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            await self._run()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def stop(self, timeout=None):
        """Claim no more jobs; run() returns when those in work have ended. More calls change nothing.

        After the timeout (by default the option stop_timeout) the handlers that still run are aborted, and released if
        they then raise an error.
        """
        if not self.stopping:
            self.stopping = True
            timeout = self.options.stop_timeout if timeout is None else timeout
            self.timer = asyncio.get_running_loop().call_later(timeout, self._abort_all)
            self.changed.set()

    # ---- claims and heartbeats ----

    async def _run(self):
        tries = 0
        while not self.stopping or self.running:
            try:
                self.control = self.control or await psycopg.AsyncConnection.connect(**self.options.for_connection())
                await self._round()
                tries = 0
            except (psycopg.Error, PgqError) as error:
                await self._report(error)
                await self._drop()
                await self._pause(self.options.pause(tries))
                tries += 1
        if self.stopping:
            self.timer.cancel()
        await self._drop()
        await self.pool.close()

    async def _round(self):
        """Extend the leases if it is time; then claim jobs for free hands, or wait for a hand."""
        left = max(0, self.beat - time.monotonic()) if self.running else float("inf")
        if left == 0:
            await self._extend()
            left = self.interval
        free = self.options.concurrency - len(self.running)
        if self.stopping or free <= 0:
            await self._pause(min(left, 1))
        else:
            self._take(await self._claim(free, min(self.options.wait, left)))

    def _claim(self, most, wait):
        return calls.claim(self.control, self.queues, most, wait, self.options.lease_time, self.options.worker)

    def _take(self, rows):
        for row in rows:
            job = self._new_job(row)
            self.interval = min(self.options.heartbeat, row["seconds"] / 3)
            if not self.running:
                self.beat = time.monotonic() + self.interval
            self.running[job.id] = (job, asyncio.create_task(self._attempt(job)))

    def _new_job(self, row):
        return Job(row, self.pool, asyncio.Event())

    async def _extend(self):
        jobs = [job for job, _ in self.running.values() if not job.ended]
        held = await calls.extend(self.control, jobs)
        self.beat = time.monotonic() + self.interval
        for job in jobs:
            if job.id not in held and not job.ended:
                self._abort(job, StaleLeaseError("the lease is lost, or the job is cancelled"))

    def _abort(self, job, reason):
        job.abort_reason = reason
        job.aborted.set()
        if job.task is not None:
            job.task.cancel()

    def _abort_all(self):
        self.aborting = True
        for job, _ in self.running.values():
            self._abort(job, TimeoutError("the worker stops"))

    async def _pause(self, seconds):
        """Wait that long, or until a job has ended or the worker is stopped."""
        self.changed.clear()
        try:
            await asyncio.wait_for(self.changed.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def _drop(self):
        if self.control is not None:
            await self.control.close()
        self.control = None

    async def _report(self, error):
        self.options.log("error", str(error), sqlstate=getattr(error, "sqlstate", None))
        await self._hook(self.options.error, error)

    async def _hook(self, hook, *args):
        try:
            answer = hook(*args) if hook else None
            if asyncio.iscoroutine(answer):
                await answer
        except Exception as error:  # a hook must not stop the worker
            self.options.log("error", f"hook: {error}")

    # ---- one job ----

    async def _attempt(self, job):
        """Run the handler, and give its answer to the server. Raises nothing."""
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
            except (Exception, asyncio.CancelledError) as error:
                job.ended = True
                problem = job.abort_reason if isinstance(error, asyncio.CancelledError) and job.abort_reason else error
                outcome = await self._answer(job, problem)
            await self._hook(self.options.after, job, outcome, problem)
        finally:
            del self.running[job.id]
            self.changed.set()

    async def _handle(self, job, *args):
        """Run the handler as a task, which can be cancelled without ending the attempt."""
        job.task = asyncio.create_task(self.handler(job, *args))
        try:
            return await job.task
        finally:
            job.task = None

    async def _in_transaction(self, job):
        async def body(db):
            job.db = db
            async with db.transaction():
                value = await self._handle(job, db)
                await calls.ack(db, job, value)
                job.ended = True  # a heartbeat after the commit would find no lease

        try:
            await self.pool.use(body)
        except BaseException:
            job.ended = False
            raise

    async def _acknowledge(self, job, value):
        """Acknowledge together what ends together; a result needs a call of its own."""
        job.ended = True
        if value is not None:
            await self._persist(lambda db: calls.ack(db, job, value))
            return
        entry = [job, None]
        self.acks.append(entry)
        async with self.ack_lock:
            if entry[1] is None:
                batch, self.acks = self.acks, []
                acked = await self._persist(lambda db: calls.ack_many(db, [job for job, _ in batch]))
                for other in batch:
                    other[1] = other[0].id in acked
        if not entry[1]:
            raise StaleLeaseError("the lease is stale")

    async def _answer(self, job, error):
        """Report the error of a job. Return what became of the job: retry, dead, released, stale or unknown."""
        how = verdict(error, self.aborting)
        self.options.log("info", f"job failed: {error}", job=job.id, queue=job.queue)
        if isinstance(error, StaleLeaseError):
            return "stale"
        try:
            return await self._persist(lambda db: calls.settle(db, job, text_of(error), **how))
        except Exception as problem:
            await self._report(problem)
            return "unknown"

    async def _persist(self, call):
        """Repeat the call while there is no server, as long as the job may still be this worker's."""
        for tries in range(12):
            try:
                return await self.pool.use(call)
            except (psycopg.Error, PgqError) as error:
                if isinstance(error, PgqError) or is_of_server(error) or tries == 11 or (self.stopping and tries > 0):
                    raise
            await asyncio.sleep(self.options.pause(tries - 1))


async def work(queues, handler, **options):
    """Run a worker until it is stopped, by SIGTERM for example."""
    await Worker(queues, handler, **options).run()
