"""The calls of SQL functions. Each works with a connection of either kind: with a psycopg.Connection it returns its
answer, with a psycopg.AsyncConnection something to await."""

import time

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from .errors import DiscardError, ReleaseError, RetryError, text_of, typed


def seconds(value):
    """A number means seconds; a timedelta, or an interval of PostgreSQL as a string, stays as it is."""
    return f"{value:.6f} s" if isinstance(value, (int, float)) else value  # an interval has no exponent, as 5e-05 has


def _same(value):
    return value


# The options of a job, and how a value is passed.
OPTIONS = {
    "priority": _same, "delay": seconds, "run_at": _same, "group_key": _same, "unique_key": _same,
    "unique_until": _same, "unique_for": seconds, "on_conflict": _same, "headers": Jsonb, "max_attempts": _same,
    "expires_in": seconds, "batch": _same, "after": _same, "on_parent_failure": _same,
}


async def _later(db, sql, values, shape):
    try:
        async with db.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(sql, values)
            return shape(await cursor.fetchall())
    except psycopg.Error as error:
        raise typed(error) from error


def run(db, sql, values, shape=_same):
    """Run a statement, and return what shape makes of its rows."""
    if not isinstance(db, psycopg.Connection):
        return db.run(sql, values, shape) if hasattr(db, "run") else _later(db, sql, values, shape)
    try:
        with db.cursor(row_factory=dict_row) as cursor:
            cursor.execute(sql, values)
            return shape(cursor.fetchall())
    except psycopg.Error as error:
        raise typed(error) from error


def _first(rows):
    return rows[0]["r"] if rows else None


def _column(rows):
    return [row["r"] for row in rows]


def _none(rows):
    return None


def _check(options, *others):
    for name in options:
        if name not in OPTIONS and name not in others:
            raise TypeError(f"unknown option of a job: {name}")


def _call(db, function, values, options, shape, columns="r"):
    _check(options, "must_route")
    named = {name: value for name, value in options.items() if value is not None}
    places = ["%s"] * len(values) + [f"{name} => %s" for name in named]
    passed = [OPTIONS.get(name, _same)(value) for name, value in named.items()]
    return run(db, f"SELECT {columns} FROM {function}({', '.join(places)}) AS r", [*values, *passed], shape)


def _element(job):
    _check(job, "payload", "ref", "topic", "queue", "must_route")
    element = {"payload": None}
    for name, value in job.items():
        if value is not None:
            value = str(seconds(value)) if OPTIONS.get(name) is seconds else value
            element[name] = value.isoformat() if hasattr(value, "isoformat") else value
    return element


def enqueue(db, queue, payload, **options):
    """Add a job, and return its id. The options are the arguments of pgq_enqueue; numbers for intervals are seconds."""
    return _call(db, "pgq_enqueue", [queue, Jsonb(payload)], options, _first)


def enqueue_many(db, queue, jobs):
    """Add jobs, all or none, and return their ids. Each job is a dict: {"payload": ..., "ref": ..., **options}."""
    return _call(db, "pgq_enqueue_many", [queue, Jsonb([_element(job) for job in jobs])], {}, _column)


def publish(db, topic, payload, **options):
    """Publish a job to a topic. Return [{"queue": ..., "job_id": ...}], one for each queue that has got a job."""
    return _call(db, "pgq_publish", [topic, Jsonb(payload)], options, _same, "r.*")


def publish_many(db, jobs):
    """Publish jobs, all or none. Each job is a dict: {"topic": ..., "payload": ..., **options}."""
    return _call(db, "pgq_publish_many", [Jsonb([_element(job) for job in jobs])], {}, _same, "r.*")


def create_batch(db, *, on_success=None, on_failure=None, on_finish=None, metadata=None):
    """Open a batch, and return its id. A callback is a dict: {"queue": ..., "payload": ..., **options}."""
    callbacks = [None if job is None else Jsonb(_element(job)) for job in (on_success, on_failure, on_finish)]
    values = [*callbacks, None if metadata is None else Jsonb(metadata)]
    sql = "SELECT pgq_create_batch(on_success => %s, on_failure => %s, on_finish => %s, metadata => %s) AS r"
    return run(db, sql, values, _first)


def close_batch(db, batch):
    """Close the batch: its callbacks can follow as soon as its members have ended."""
    return run(db, "SELECT pgq_close_batch(%s) AS r", [batch], _none)


def cancel(db, job_id):
    """Cancel a job; the answer is that of pgq_cancel."""
    return run(db, "SELECT pgq_cancel(%s) AS r", [job_id], _first)


def result(db, job_id, wait=0):
    """Wait up to that many seconds for the end of a job. None: the server does not know the job (any more)."""
    sql = "SELECT * FROM pgq_result(%s, wait => %s)"
    return run(db, sql, [job_id, seconds(wait)], lambda rows: rows[0] if rows else None)


class Job:
    """A job that a worker has claimed. In tx mode its methods are part of the transaction of the handler."""

    def __init__(self, row, db, aborted=None):
        self.id, self.lease, self.queue = row["job_id"], row["lease"], row["queue"]
        self.payload, self.headers = row["payload"], row["headers"] or {}
        self.group_key, self.priority = row["group_key"], row["priority"]
        self.attempt, self.max_attempts = row["attempt"], row["max_attempts"]
        self.enqueued_at, self.run_at = row["enqueued_at"], row["run_at"]
        self.last_error, self.last_progress = row["last_error"], row["progress"]
        # How long a lease is, and the time between two extensions, in seconds.
        self.length, self.interval = row["seconds"], max(0.05, row["seconds"] / 3)
        self.expires = time.monotonic() + self.length
        # `aborted` is an Event: set when the lease is lost, the job is cancelled, or the worker must end at once.
        self.db, self.aborted = db, aborted
        self.abort_reason = self.task = None
        self.begun = False  # the handler has been called in its transaction
        self.ended = False  # the handler has returned, and in tx mode the job is acknowledged

    def progress(self, value):
        """Store how far the work has come; the next attempt finds it in last_progress."""
        return run(self.db, "SELECT pgq_progress(%s, %s, %s) AS r", [self.id, self.lease, Jsonb(value)], _none)

    def checkpoint(self, step, value=None):
        """Keep the value of a step, once for all attempts; return the value that is kept. Without a value: read it."""
        values = [self.id, self.lease, step, None if value is None else Jsonb(value)]
        return run(self.db, "SELECT pgq_checkpoint(%s, %s, %s, %s) AS r", values, _first)

    def parents(self):
        """Return the jobs after which this one was enqueued, as dicts: job_id, ref, state, result, error."""
        return run(self.db, "SELECT * FROM pgq_parents(%s, %s)", [self.id, self.lease])

    def assert_lease(self):
        """Raise StaleLeaseError if the lease has ended. In a transaction, keep the lease until its end."""
        return run(self.db, "SELECT pgq_assert_lease(%s, %s) AS r", [self.id, self.lease], _none)


# ---- what a worker calls ----


def claim(db, queues, most, wait, lease_time, worker):
    """Return rows of jobs, with the length of the lease as `seconds`."""
    function, source = ("pgq_claim", queues[0]) if len(queues) == 1 else ("pgq_claim_any", queues)
    sql = f"""SELECT *, extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS seconds
              FROM {function}(%s, %s, wait => %s, lease_time => %s, worker => %s)"""
    return run(db, sql, [source, most, seconds(wait), seconds(lease_time), worker])


def ack(db, job, value=None):
    values = [job.id, job.lease, None if value is None else Jsonb(value)]
    return run(db, "SELECT pgq_ack(%s, %s, result => %s) AS r", values, lambda rows: "acked")


def ack_many(db, jobs):
    """Acknowledge jobs without results; return the ids of those whose lease was still good."""
    values = [[job.id for job in jobs], [job.lease for job in jobs]]
    return run(db, "SELECT pgq_ack_many(%s::bigint[], %s::bigint[]) AS r", values, lambda rows: set(_column(rows)))


def extend(db, jobs):
    """Extend leases; return the jobs that still have theirs. Jobs may have leases of the same number, and a job two leases."""
    sql = """SELECT n AS r FROM unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS held(job_id, lease, n)
             WHERE pgq_extend(job_id, lease) IS NOT NULL"""
    values = [[job.id for job in jobs], [job.lease for job in jobs]]
    return run(db, sql, values, lambda rows: {jobs[n - 1] for n in _column(rows)})


def settle(db, job, error, stopping=False):
    """End the attempt of a job by the error of its handler. Return what became of the job."""
    later = error.seconds if isinstance(error, (ReleaseError, RetryError)) else None
    if isinstance(error, ReleaseError) or stopping:
        values = [job.id, job.lease, seconds(later or 0)]
        return run(db, "SELECT pgq_release(%s, %s, %s) AS r", values, lambda rows: "released" if _first(rows) else "stale")
    values = [job.id, job.lease, text_of(error), not isinstance(error, DiscardError), seconds(later)]
    return run(db, "SELECT pgq_fail(%s, %s, error => %s, retry => %s, retry_in => %s) AS r", values, _first)
