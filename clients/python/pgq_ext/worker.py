"""A worker whose handlers run in threads."""

import queue
import signal
import threading
import time

import psycopg

from . import calls
from .errors import PgqError, ReleaseError, StaleLeaseError, is_of_server, text_of, verdict
from .options import Options


def connect(conninfo="", **connection):
    """Connect to the primary among the hosts of conninfo, or of PGHOST, with autocommit."""
    return psycopg.connect(**Options(conninfo=conninfo, connection=connection).for_connection())


class _Pool:
    """Connections to the primary. One that was lost is replaced when it is needed. As `db` of a job, runs statements."""

    def __init__(self, options):
        self.options = options
        self.slots = queue.LifoQueue()
        for _ in range(options.pool):
            self.slots.put(None)

    def use(self, body):
        db = self.slots.get()
        try:
            if db is None or db.closed:
                db = psycopg.connect(**self.options.for_connection())
            return body(db)
        except BaseException as error:
            if db is not None and not (isinstance(error, PgqError) or is_of_server(error) or not isinstance(error, psycopg.Error)):
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


class Worker:
    """Runs the jobs of one or more queues until it is stopped.

    One connection claims jobs and extends their leases; a pool of others acknowledges them, and has the transactions of
    handlers. handler(job), or handler(job, tx) in tx mode; what it returns is the result of the job.
    """

    def __init__(self, queues, handler, **options):
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        self.handler = handler
        self.options = Options(**options)
        self.pool = _Pool(self.options)
        self.control = None
        self.running = {}
        self.changed = threading.Condition()
        self.stopping = self.aborting = False
        self.stop_at = self.beat = float("inf")
        self.interval = self.options.heartbeat
        self.acks, self.ack_lock = [], threading.Lock()

    def run(self):
        """Run until stop() is called or a signal comes. Raises an error if there is no primary or no such queue."""
        self.control = psycopg.connect(**self.options.for_connection())
        self._take(self._claim(self.options.concurrency, 0))
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {name: signal.signal(name, lambda *_: self.stop()) for name in map(signal.Signals.__getitem__, self.options.signals)}
        try:
            self._run()
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def stop(self, timeout=None):
        """Claim no more jobs; run() returns when those in work have ended. More calls change nothing.

        After the timeout (by default the option stop_timeout) the handlers that still run are aborted, and released if
        they then raise an error. May be called from any thread and from a handler of a signal.
        """
        if not self.stopping:
            self.stop_at = time.monotonic() + (self.options.stop_timeout if timeout is None else timeout)
            self.stopping = True

    # ---- claims and heartbeats ----

    def _run(self):
        tries = 0
        while not self.stopping or self.running:
            try:
                self.control = self.control or psycopg.connect(**self.options.for_connection())
                self._round()
                tries = 0
            except (psycopg.Error, PgqError) as error:
                self._report(error)
                self._drop()
                self._pause(self.options.pause(tries))
                tries += 1
        self._drop()
        self.pool.close()

    def _round(self):
        """Extend the leases if it is time; then claim jobs for free hands, or wait for a hand."""
        left = max(0, self.beat - time.monotonic()) if self.running else float("inf")
        if left == 0:
            self._extend()
            left = self.interval
        free = self.options.concurrency - len(self.running)
        if self.stopping or free <= 0:
            self._pause(min(left, 1), lambda: len(self.running) < self.options.concurrency - free)
        else:
            self._take(self._claim(free, min(self.options.wait, left)))

    def _claim(self, most, wait):
        return calls.claim(self.control, self.queues, most, wait, self.options.lease_time, self.options.worker)

    def _take(self, rows):
        for row in rows:
            job = calls.Job(row, self.pool, threading.Event())
            self.interval = min(self.options.heartbeat, row["seconds"] / 3)
            if not self.running:
                self.beat = time.monotonic() + self.interval
            with self.changed:
                self.running[job.id] = job
            threading.Thread(target=self._attempt, args=(job,), daemon=True).start()

    def _extend(self):
        jobs = [job for job in list(self.running.values()) if not job.ended]
        held = calls.extend(self.control, jobs)
        self.beat = time.monotonic() + self.interval
        for job in jobs:
            if job.id not in held and not job.ended:
                job.abort_reason = StaleLeaseError("the lease is lost, or the job is cancelled")
                job.aborted.set()

    def _pause(self, seconds, until=lambda: False):
        """Wait that long, or until the condition holds. Looks twice a second for a stop, which a signal may bring."""
        end = time.monotonic() + seconds
        stopping = self.stopping
        with self.changed:
            while (left := end - time.monotonic()) > 0 and not until() and stopping == self.stopping:
                self.changed.wait(min(left, 0.5))
                if time.monotonic() >= self.stop_at and not self.aborting:
                    self._abort_all()
                if self.stopping and not self.running:
                    return
        if time.monotonic() >= self.stop_at and not self.aborting:
            self._abort_all()

    def _abort_all(self):
        self.aborting = True
        for job in list(self.running.values()):
            job.abort_reason = TimeoutError("the worker stops")
            job.aborted.set()

    def _drop(self):
        if self.control is not None:
            self.control.close()
        self.control = None

    def _report(self, error):
        self.options.log("error", str(error), sqlstate=getattr(error, "sqlstate", None))
        self._hook(self.options.error, error)

    def _hook(self, hook, *args):
        try:
            if hook:
                hook(*args)
        except Exception as error:  # a hook must not stop the worker
            self.options.log("error", f"hook: {error}")

    # ---- one job ----

    def _attempt(self, job):
        """Run the handler, and give its answer to the server. Raises nothing."""
        try:
            if self.stopping:
                self._answer(job, ReleaseError())
                return
            self._hook(self.options.before, job)
            problem, outcome = None, "acked"
            try:
                self._in_transaction(job) if self.options.tx else self._acknowledge(job, self.handler(job))
            except Exception as error:
                job.ended = True
                problem, outcome = error, self._answer(job, error)
            self._hook(self.options.after, job, outcome, problem)
        finally:
            with self.changed:
                del self.running[job.id]
                self.changed.notify_all()

    def _in_transaction(self, job):
        def body(db):
            job.db = db
            with db.transaction():
                value = self.handler(job, db)
                calls.ack(db, job, value)
                job.ended = True  # a heartbeat after the commit would find no lease

        try:
            self.pool.use(body)
        except BaseException:
            job.ended = False
            raise

    def _acknowledge(self, job, value):
        """Acknowledge together what ends together; a result needs a call of its own."""
        job.ended = True
        if value is not None:
            self._persist(lambda db: calls.ack(db, job, value))
            return
        entry = [job, None]
        self.acks.append(entry)
        with self.ack_lock:
            batch, self.acks = (self.acks, []) if entry[1] is None else ([], self.acks)
            if batch:
                acked = self._persist(lambda db: calls.ack_many(db, [job for job, _ in batch]))
                for other in batch:
                    other[1] = other[0].id in acked
        if not entry[1]:
            raise StaleLeaseError("the lease is stale")

    def _answer(self, job, error):
        """Report the error of a job. Return what became of the job: retry, dead, released, stale or unknown."""
        how = verdict(error, self.aborting)
        self.options.log("info", f"job failed: {error}", job=job.id, queue=job.queue)
        if isinstance(error, StaleLeaseError):
            return "stale"
        try:
            return self._persist(lambda db: calls.settle(db, job, text_of(error), **how))
        except Exception as problem:
            self._report(problem)
            return "unknown"

    def _persist(self, call):
        """Repeat the call while there is no server, as long as the job may still be this worker's."""
        for tries in range(12):
            try:
                return self.pool.use(call)
            except (psycopg.Error, PgqError) as error:
                if isinstance(error, PgqError) or is_of_server(error) or tries == 11 or (self.stopping and tries > 0):
                    raise
            time.sleep(self.options.pause(tries - 1))


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
            outcome = "stale" if isinstance(error, StaleLeaseError) else calls.settle(db, job, text_of(error), **verdict(error, False))
        ended.append((job, outcome, problem))
    return ended
