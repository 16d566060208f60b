"""A worker whose handlers are functions, which run in threads; and drain() for tests."""

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from . import aio, calls
from .errors import StaleLeaseError, text_of, verdict
from .options import Options, is_lost


def connect(conninfo="", **connection):
    """Connect to the primary among the hosts of conninfo, or of PGHOST, with autocommit."""
    return _connect(Options(conninfo=conninfo, connection=connection))


def _connect(options):
    problem = None
    for address in options.addresses():
        try:
            return psycopg.connect(**address)
        except psycopg.OperationalError as error:
            problem = error
    raise problem


class _Pool:
    """As aio._Pool, for handlers in threads."""

    def __init__(self, options):
        self.options = options
        self.slots = queue.LifoQueue()
        for _ in range(options.pool):
            self.slots.put(None)

    def use(self, body):
        db = self.slots.get()
        try:
            if db is None or db.closed:
                db = _connect(self.options)
            return body(db)
        except BaseException as error:
            if db is not None and is_lost(error):
                db.close()
            raise
        finally:
            self.slots.put(db)

    def run(self, *statement):
        return self.use(lambda db: calls.run(db, *statement))

    def close(self):
        for _ in range(self.options.pool):
            db = self.slots.get()
            if db is not None:
                db.close()


class _InThreads(aio.Worker):
    """Claims and answers in an event loop; the handlers, and their transactions, are in threads."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.threads = ThreadPoolExecutor(self.options.concurrency, "pgq_ext")
        self.of_handlers = _Pool(self.options)

    def _new_job(self, row):
        return calls.Job(row, self.of_handlers, threading.Event())

    def _in_thread(self, function, *args):
        return asyncio.get_running_loop().run_in_executor(self.threads, function, *args)

    async def _handle(self, job):
        return await self._in_thread(self.handler, job)

    async def _transact(self, job):
        await self._in_thread(self._transact_here, job)

    def _transact_here(self, job):
        def body(db):
            with db.transaction():
                job.db, job.begun = db, True
                calls.ack(db, job, self.handler(job, db))
                job.ended = True  # a heartbeat after the commit would find no lease

        try:
            self.of_handlers.use(body)
        except BaseException:
            job.ended = False
            raise

    async def _close(self):
        await super()._close()
        self.of_handlers.close()


class Worker:
    """Runs the jobs of one or more queues until it is stopped. handler(job), or handler(job, tx) in tx mode."""

    def __init__(self, queues, handler, **options):
        self._args, self._options = (queues, handler), options
        self._worker = self._loop = None

    def run(self):
        """Run until stop() is called or a signal comes. Raises an error if there is no primary or no such queue."""
        asyncio.run(self._run())

    async def _run(self):
        self._worker, self._loop = _InThreads(*self._args, **self._options), asyncio.get_running_loop()
        await self._worker.run()

    def stop(self, timeout=None):
        """See aio.Worker.stop(). May be called from any thread."""
        self._loop.call_soon_threadsafe(self._worker.stop, timeout)


def work(queues, handler, **options):
    """Run a worker until it is stopped, by SIGTERM for example."""
    Worker(queues, handler, **options).run()


def drain(db, queues, handler, *, tx=False, limit=None, lease_time=None, worker=None):
    """For tests: run the jobs that are ready, one by one, until no job is ready. db: a connection with autocommit.

    Return a list of (job, outcome, error).
    """
    ended = []
    queues = [queues] if isinstance(queues, str) else list(queues)
    while limit is None or len(ended) < limit:
        rows = calls.claim(db, queues, 1, 0, lease_time, worker)
        if not rows:
            break
        job, problem = calls.Job(rows[0], db, threading.Event()), None
        try:
            if tx:
                with db.transaction():
                    outcome = calls.ack(db, job, handler(job, db))
            else:
                outcome = calls.ack(db, job, handler(job))
        except Exception as error:
            problem = error
            stale = isinstance(error, StaleLeaseError)
            outcome = "stale" if stale else calls.settle(db, job, text_of(error), **verdict(error, False))
        ended.append((job, outcome, problem))
    return ended
