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
import pgq_ext as pgq  # noqa: E402
from pgq_ext import aio  # noqa: E402

lock = threading.Lock()


def say(**event):
    with lock:
        print(json.dumps(event), flush=True)


class Odd(Exception):
    def __str__(self):
        return ""


def odd(kind):
    if kind == "nul":
        raise ValueError("odd \0 text")
    if kind == "surrogate":
        raise ValueError("odd \udce9 text")
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
    elif name == "fail" or name == "fail_at_first" and job.attempt == 1:
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


def handle(job, tx=None):
    result = None
    for name, value in job.payload["steps"]:
        if name == "result":
            result = value
        else:
            step(job, tx, name, value)
    return result


def produce(calls):
    db = pgq.connect()
    for name, *args in calls:
        try:
            if name == "sql":
                db.execute(args[0])
                continue
            options = args.pop() if len(args) == 3 and isinstance(args[2], dict) else {}
            if name == "drain":
                options = args.pop() if len(args) == 2 else {}
                answer = [outcome for _, outcome, _ in pgq.drain(db, args[0], handle, **options)]
            else:
                answer = getattr(pgq, name)(db, *args, **options)
            say(answer=answer)
        except Exception as error:
            say(error=type(error).__name__, code=getattr(error, "sqlstate", None))
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
        if name == "result":
            result = value
        else:
            await step_async(job, tx, name, value)
    return result


async def produce_async(calls):
    db = await aio.connect()
    for name, *args in calls:
        try:
            if name == "sql":
                await db.execute(args[0])
                continue
            options = args.pop() if len(args) == 3 and isinstance(args[2], dict) else {}
            say(answer=await getattr(pgq, name)(db, *args, **options))
        except Exception as error:
            say(error=type(error).__name__, code=getattr(error, "sqlstate", None))
    await db.close()


def main():
    in_loop = sys.argv[1] == "async"
    options = json.loads(sys.argv[-1])
    if "produce" in options:
        calls = options["produce"]
        return asyncio.run(produce_async(calls)) if in_loop and calls[0][0] != "drain" else produce(calls)
    hooks_fail = options.pop("hooks_fail", False)

    def before(job):
        say(event="before", job=job.id)
        if hooks_fail:
            raise RuntimeError("the hook fails")

    say(event="started")
    options.update(
        before=before,
        after=lambda job, outcome, error: say(event="after", job=job.id, outcome=outcome),
        error=lambda error: say(event="error", message=str(error)),
        log=lambda level, message, **fields: say(event="log", level=level, message=message))
    queues = options.pop("queues")
    if in_loop:
        asyncio.run(aio.work(queues, handle_async, **options))
    else:
        pgq.work(queues, handle, **options)
    say(event="ended")


main()
