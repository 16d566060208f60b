"""What the suite test/clients/library_*.pl runs: a worker whose handler does what the payload of the job says, or calls
of a producer. The last argument is JSON. After the argument "async", all runs in an event loop. The program prints a line
of JSON for each event."""

import asyncio
import inspect
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import psycopg  # noqa: E402
import pgq_ext as pgq  # noqa: E402
from pgq_ext import aio  # noqa: E402

lock = threading.Lock()


def say(**event):
    with lock:
        print(json.dumps(event), flush=True)


class Odd(Exception):
    def __str__(self):
        return ""


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def odd_result(kind):
    if kind == "nul":
        return "odd \0 result"
    result = []
    result.append(result)
    return result


def odd(kind):
    if kind == "nul":
        raise ValueError("odd \0 text")
    if kind == "surrogate":
        raise ValueError("odd \udce9 text")
    if kind == "unicode":
        raise ValueError("odd ä😀 text")
    if kind == "unprintable":
        raise Unprintable()
    if kind == "long":
        raise ValueError("odd text " + "x" * (1 << 20))
    raise Odd()


def rest(job, seconds):
    if job.aborted.wait(seconds):
        say(event="aborted", job=job.id, why=type(job.abort_reason).__name__)
        raise RuntimeError("the job was aborted")


def fail(text):
    raise RuntimeError(text)


def step(job, tx, name, value):
    if name == "insert":
        return tx.execute("INSERT INTO effect (job_id, text) VALUES (%s, %s)", (job.id, value))
    elif name == "sleep":
        rest(job, value)
    elif name == "busy":
        time.sleep(value)
    elif name == "gate":
        return tx.execute("SELECT FROM gate")
    elif name == "headers":
        say(event="headers", value=job.headers)
    elif name == "release":
        raise pgq.ReleaseError(value)
    elif name == "fail":
        fail(value)
    elif name == "discard":
        raise pgq.DiscardError(value)
    elif name == "retry":
        raise pgq.RetryError("later", value)
    elif name == "odd":
        odd(value)
    elif name == "progress":
        return job.progress(value)
    elif name == "show_progress":
        say(event="progress", job=job.id, value=job.last_progress)
    elif name == "checkpoint":
        say(event="checkpoint", value=job.checkpoint(*value))
    elif name == "parents":
        say(event="parents", states=[[parent["state"], parent["result"]] for parent in job.parents()])
    elif name == "enqueue":
        return pgq.enqueue(tx, *value)
    elif name == "publish":
        return pgq.publish(tx, *value)


def name_of(job, name):
    """Steps for the first attempt only, or for the next ones only."""
    if name.endswith("_next"):
        return name.removesuffix("_next") if job.attempt > 1 else "nothing"
    return name.removesuffix("_at_first") if job.attempt == 1 or not name.endswith("_at_first") else "nothing"


def handle(job, tx=None):
    result = None
    for name, value in job.payload["steps"]:
        name = name_of(job, name)
        if name == "result":
            result = value
        elif name == "odd_result":
            result = odd_result(value)
        elif name == "swallow":
            try:
                tx.execute(value)
            except psycopg.Error:
                pass
        else:
            step(job, tx, name, value)
    return result


def answer_of(name, answer):
    """What all languages say of an answer."""
    if name == "drain":
        return [outcome for _, outcome, _ in answer]
    if name == "result":
        return answer and [answer["state"], answer["result"]]
    return [[row["queue"], row["job_id"]] for row in answer] if name.startswith("publish") else answer


def with_numbers(value):
    """The same, with the ids of batches as numbers."""
    if isinstance(value, list):
        return [with_numbers(element) for element in value]
    if isinstance(value, dict):
        return {key: int(element) if key == "batch" else element for key, element in value.items()}
    return value


def options_of(name, args):
    """The last argument, if it is one of options."""
    return args.pop() if isinstance(args[-1], dict) and (name in ("drain", "create_batch") or len(args) == 3) else {}


def produce(calls):
    db = pgq.connect()
    for name, *args in calls:
        args = with_numbers(args)
        try:
            if name == "sql":
                db.execute(args[0])
                continue
            options = options_of(name, args)
            args += [handle] if name == "drain" else []
            say(answer=answer_of(name, getattr(pgq, name)(db, *args, **options)))
        except Exception as error:
            say(error=type(error).__name__ if isinstance(error, pgq.PgqError) else "Error", code=getattr(error, "sqlstate", None))
    db.close()


# ---- the same in an event loop ----


async def step_async(job, tx, name, value):
    if name == "sleep":
        try:
            await asyncio.sleep(value)
        except asyncio.CancelledError:
            say(event="aborted", job=job.id, why=type(job.abort_reason).__name__)
            raise
    elif name == "busy":
        await asyncio.sleep(value)
    elif name == "checkpoint":
        say(event="checkpoint", value=await job.checkpoint(*value))
    elif name == "parents":
        say(event="parents", states=[[parent["state"], parent["result"]] for parent in await job.parents()])
    else:
        answer = step(job, tx, name, value)
        if inspect.isawaitable(answer):
            await answer


async def handle_async(job, tx=None):
    result = None
    for name, value in job.payload["steps"]:
        name = name_of(job, name)
        if name == "result":
            result = value
        elif name == "odd_result":
            result = odd_result(value)
        elif name == "swallow":
            try:
                await tx.execute(value)
            except psycopg.Error:
                pass
        else:
            await step_async(job, tx, name, value)
    return result


async def produce_async(calls):
    db = await aio.connect()
    for name, *args in calls:
        args = with_numbers(args)
        try:
            if name == "sql":
                await db.execute(args[0])
                continue
            options = options_of(name, args)
            if name == "drain":
                answer = await aio.drain(db, *args, handle_async, **options)
            else:
                answer = await getattr(pgq, name)(db, *args, **options)
            say(answer=answer_of(name, answer))
        except Exception as error:
            say(error=type(error).__name__ if isinstance(error, pgq.PgqError) else "Error", code=getattr(error, "sqlstate", None))
    await db.close()


async def work_async(queues, options, stopped):
    if not stopped:
        return await aio.work(queues, handle_async, **options)
    worker = aio.Worker(queues, handle_async, **options)
    worker.stop()
    await worker.run()


def main():
    in_loop = sys.argv[1] == "async"
    options = json.loads(sys.argv[-1])
    if "produce" in options:
        calls = options["produce"]
        return asyncio.run(produce_async(calls)) if in_loop else produce(calls)
    hooks_fail = options.pop("hooks_fail", False)

    def hook(event, **fields):
        say(event=event, **fields)
        if hooks_fail:
            raise RuntimeError("the hook fails")

    say(event="started")
    options.update(
        before=lambda job: hook("before", job=job.id, headers=job.headers),
        after=lambda job, outcome, error: hook("after", job=job.id, outcome=outcome, error=repr(error)[:1000]),
        error=lambda error: hook("error", message=str(error)),
        log=lambda level, message, **fields: hook("log", level=level, message=message[:1000]))
    queues, stopped = options.pop("queues"), options.pop("stopped", False)
    if in_loop:
        asyncio.run(work_async(queues, options, stopped))
    elif stopped:
        worker = pgq.Worker(queues, handle, **options)
        worker.stop()
        worker.run()
    else:
        pgq.work(queues, handle, **options)
    say(event="ended")


main()
