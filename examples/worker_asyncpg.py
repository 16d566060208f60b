#!/usr/bin/env python3
# A worker for the queue "mail" that works on ten jobs at a time. DATABASE_URL names the database. With a standby, DATABASE_URL
# is two URLs with a space between them: then the worker goes on after a failover. On SIGTERM the worker finishes the jobs that
# it is working on, and begins no more. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which
# rolls the work back. Create the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The
# heartbeat extends the lease until max_runtime is over; then a job that hangs goes to another worker.
import asyncio
import json
import os
import signal
import sys
import asyncpg

stopping = asyncio.Event()
finished = asyncio.Event()                              # set when no job is in hand any more
held = set()                                            # the jobs in hand: (job_id, lease)


async def handle(db, job):                              # the work: committed with the ack, or not at all
    mail = json.loads(job["payload"])
    await db.execute("INSERT INTO sent (job_id, address) VALUES ($1, $2)", job["job_id"], mail["to"])


def storable(error):                                    # PostgreSQL stores valid UTF-8 without NUL
    return str(error).encode("utf-8", "backslashreplace").decode().replace("\0", "?")


async def call(db, sql, *values):                       # in a transaction: for poolers
    async with db.transaction():
        return await db.fetch(sql, *values)


async def connect():
    error = None
    for url in os.environ["DATABASE_URL"].split():
        try:
            db = await asyncpg.connect(url, statement_cache_size=0, timeout=5)      # 0: for poolers
            if not (await call(db, "SELECT pg_is_in_recovery()"))[0][0]:
                return db
            await db.close()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as e:
            error = e
    raise error or ConnectionError("no primary")


async def connected(use):                               # connects again to the primary; the jobs in hand come again
    while not stopping.is_set():
        try:
            db = await connect()
            try:
                await use(db)
            finally:
                await db.close(timeout=5)
        except Exception as error:                      # any: without its heartbeat, the worker would lose each long job
            print(error, file=sys.stderr)
            await asyncio.sleep(1)


async def heartbeat(db):                                # well within the queue's lease_time
    while not finished.is_set():
        try:
            await asyncio.wait_for(finished.wait(), 3)
        except asyncio.TimeoutError:
            limit = asyncio.get_running_loop().call_later(10, db.terminate)     # no answer: another connection
            for ticket in list(held):
                await call(db, "SELECT pgq_extend($1, $2)", *ticket)
            limit.cancel()


async def work(db):
    while not stopping.is_set():
        for job in await call(db, "SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')"):
            ticket = job["job_id"], job["lease"]
            if stopping.is_set():
                await call(db, "SELECT pgq_release($1, $2)", *ticket)
                break
            held.add(ticket)
            try:
                async with db.transaction():
                    await handle(db, job)
                    await db.execute("SELECT pgq_ack($1, $2)", *ticket)
            except Exception as error:                  # tried again after the queue's backoff
                await call(db, "SELECT pgq_fail($1, $2, error => $3)", *ticket, storable(error))
            finally:
                held.remove(ticket)


async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await (await connect()).close()                     # what is wrong from the start is an error
    beat = asyncio.create_task(connected(heartbeat))
    await asyncio.gather(*[connected(work) for _ in range(10)])
    finished.set()                                      # a task that is cancelled in a query may wait for ever
    await beat

asyncio.run(main())
