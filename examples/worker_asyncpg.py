#!/usr/bin/env python3
# Works off the queue "mail", ten jobs at a time; DATABASE_URL says where. SIGTERM: the jobs in hand are finished, and no more
# are begun. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work.
import asyncio
import json
import os
import signal
import asyncpg

stopping = asyncio.Event()
held = set()                                            # the jobs in hand: (job_id, lease)


async def handle(db, job):                              # the work: committed with the ack, or not at all
    mail = json.loads(job["payload"])
    await db.execute("INSERT INTO sent (job_id, address) VALUES ($1, $2)", job["job_id"], mail["to"])


async def connect():                                    # 0: for poolers
    return await asyncpg.connect(os.environ["DATABASE_URL"], statement_cache_size=0)


async def call(db, sql, *values):                       # in a transaction: for poolers
    async with db.transaction():
        return await db.fetch(sql, *values)


async def heartbeat():                                  # well within the queue's lease_time
    db = await connect()
    while True:
        await asyncio.sleep(3)
        for ticket in list(held):
            await call(db, "SELECT pgq_extend($1, $2)", *ticket)


async def worker():
    db = await connect()
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
                await call(db, "SELECT pgq_fail($1, $2, error => $3)", *ticket, str(error))
            held.remove(ticket)
    await db.close()


async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    beat = asyncio.create_task(heartbeat())
    await asyncio.gather(*[worker() for _ in range(10)])
    beat.cancel()

asyncio.run(main())
