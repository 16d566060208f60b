"""A worker whose handlers are functions, which run in threads; and drain() for tests."""

import asyncio
import contextlib
import queue
import threading
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor

import psycopg

from . import aio, calls
from .options import Options


def _now(coroutine):
    """Run a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


def connect(conninfo="", **connection):
    """Connect to the primary among the hosts of conninfo, or of PGHOST, with autocommit."""
    return _now(aio._connect(Options(conninfo=conninfo, connection=connection), psycopg.Connection))


class _Pool(aio._Pool):
    """For handlers in threads."""

    def __init__(self, options):
        super().__init__(options, psycopg.Connection, queue.PriorityQueue)

    def use(self, body):
        return _now(super().use(body))

    def run(self, *statement):
        return self.use(lambda db: calls.run(db, *statement))

    def close(self):
        _now(super().close())


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
        finally:
            job.db = self.of_handlers  # soon, the connection has the transaction of another job

    async def _close(self):
        await super()._close()
        self.of_handlers.close()


class Worker:
    """Runs the jobs of one or more queues until it is stopped. handler(job), or handler(job, tx) in tx mode."""

    def __init__(self, queues, handler, **options):
        self._args, self._options, self._stop = (queues, handler), options, Future()

    def run(self):
        """Run until stop() is called or a signal comes. Raises an error if there is no primary or no such queue."""
        asyncio.run(self._run())

    async def _run(self):
        worker = _InThreads(*self._args, **self._options)
        asyncio.wrap_future(self._stop).add_done_callback(lambda stop: worker.stop(stop.result()))
        await worker.run()

    def stop(self, timeout=None):
        """See aio.Worker.stop(). May be called from any thread, also before run(), which then returns without having run a job."""
        with contextlib.suppress(InvalidStateError):  # it was called before
            self._stop.set_result(timeout)


def work(queues, handler, **options):
    """Run a worker until it is stopped, by SIGTERM for example."""
    Worker(queues, handler, **options).run()


def drain(db, queues, handler, **options):
    """As aio.drain(), with a psycopg.Connection, and a handler that is a function."""
    return _now(aio.drain(db, queues, handler, **options))
