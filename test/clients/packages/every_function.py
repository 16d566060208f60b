"""Uses everything that the package pgq_ext exports; test/clients/packages.pl checks the types, and does not run it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Optional

import psycopg

import pgq_ext
from pgq_ext import aio


def produce(db: psycopg.Connection[Any]) -> list[int]:
    job_id: int = pgq_ext.enqueue(
        db, "mail", {"to": "ann@example.org"}, priority=1, delay=2, run_at=datetime.now(), group_key="a", unique_key="b",
        unique_until="claimed", unique_for=timedelta(hours=1), on_conflict="replace", headers={"traceparent": "00-1-2-01"},
        max_attempts=3, expires_in="1 day", on_parent_failure="hold")
    ids = pgq_ext.enqueue_many(db, "mail", [{"payload": 1, "ref": "first"}, {"payload": 2, "after": ["first", job_id]}])
    published = pgq_ext.publish(db, "orders.new", {}, must_route=True)
    pgq_ext.publish_many(db, [{"topic": "orders.new", "payload": {}}])
    batch = pgq_ext.create_batch(db, on_success={"queue": "mail", "payload": {}}, metadata=1)
    pgq_ext.enqueue(db, "mail", {}, batch=batch)
    pgq_ext.close_batch(db, batch)
    answer: str = pgq_ext.cancel(db, job_id)
    ended = pgq_ext.result(db, job_id, 1)
    print(answer, ended["state"] if ended else "unknown")
    return [*ids, *(job["job_id"] for job in published)]


def handle(job: pgq_ext.Job, tx: psycopg.Connection[Any]) -> dict[str, Any]:
    tx.execute("INSERT INTO sent VALUES (%s, %s)", [job.id, job.payload["to"]])
    job.progress({"done": job.last_progress})
    states: list[str] = [parent["state"] for parent in job.parents()]
    job.assert_lease()
    if job.aborted.is_set():
        raise RuntimeError(str(job.abort_reason))
    if job.attempt == job.max_attempts:
        raise pgq_ext.DiscardError(f"{job.queue} {job.last_error}")
    if job.group_key is None:
        raise pgq_ext.RetryError("later", 60)
    if job.priority > 1:
        raise pgq_ext.ReleaseError(1)
    at = [job.enqueued_at, job.run_at]
    return {"step": job.checkpoint("step", 1), "states": states, "headers": job.headers, "at": at, "lease": job.lease}


def name_of(error: Optional[BaseException]) -> str:
    names = {
        pgq_ext.StaleLeaseError: "stale", pgq_ext.QueueFullError: "full", pgq_ext.UnroutableError: "unroutable",
        pgq_ext.NotFoundError: "not found", pgq_ext.DuplicateError: "duplicate",
    }
    if isinstance(error, pgq_ext.PgqError):
        return f"{error.sqlstate} {names.get(type(error))}"
    return "another one"


def work() -> None:
    with pgq_ext.connect("host=one,two", application_name="a") as db:
        produce(db)
        for job, outcome, error in pgq_ext.drain(db, ["mail"], handle, tx=True, limit=10):
            print(job.id, outcome, name_of(error))
    pgq_ext.work(
        "mail", handle, concurrency=10, tx=True, wait=1, heartbeat=2, lease_time="1 min", stop_timeout=10, signals=["SIGTERM"], pool=10,
        worker="a", connection={"host": "one"}, before=lambda job: print(job.id), after=lambda job, outcome, error: print(outcome),
        error=lambda error: print(error), log=lambda level, message, **fields: print(message))
    worker = pgq_ext.Worker(["mail", "other"], handle)
    worker.run()
    worker.stop(1)
    print(pgq_ext.Options().concurrency, pgq_ext.__version__)
    pgq_ext.work("mail", handle, concurency=1)  # type: ignore[call-arg]


async def handle_in_loop(job: aio.Job) -> int:
    await job.progress(1)
    return len(await job.parents())


async def work_in_loop() -> None:
    db = await aio.connect()
    job_id: int = await pgq_ext.enqueue(db, "mail", {})
    ended = await pgq_ext.result(db, job_id)
    print(ended["result"] if ended else None)
    print(len(await aio.drain(db, "mail", handle_in_loop)))
    await aio.work("mail", handle_in_loop, concurrency=10)
    worker = aio.Worker("mail", handle_in_loop)
    await worker.run()
