#!/usr/bin/env python3
# Works off the queue "mail", ten jobs at a time. SIGTERM: those in hand are finished. Arguments: where the database is, a name.
import asyncio
import json
import signal
import sys
import asyncpg

CLAIM = "SELECT job_id, lease, payload FROM pgq_claim('mail', $1, wait => '1 s', worker => $2)"


async def handle(db, job):                              # the work: committed with the ack, or not at all
    mail = json.loads(job["payload"])
    await db.execute("INSERT INTO sent (job_id, address) VALUES ($1, $2)", job["job_id"], mail["to"])


async def heartbeat(pool, job):                         # well within the queue's lease_time
    while True:
        await asyncio.sleep(3)
        await call(pool, "SELECT pgq_extend($1, $2)", job["job_id"], job["lease"])


async def call(pool, sql, *arguments):                  # in a transaction: for poolers
    async with pool.acquire() as db, db.transaction():
        return await db.fetch(sql, *arguments)


async def work(pool, job):
    beat = asyncio.create_task(heartbeat(pool, job))
    try:
        async with pool.acquire() as db, db.transaction():
            await handle(db, job)
            await db.execute("SELECT pgq_ack($1, $2)", job["job_id"], job["lease"])
    except Exception as error:
        await call(pool, "SELECT pgq_fail($1, $2, error => $3)", job["job_id"], job["lease"], str(error))
    finally:
        beat.cancel()


async def main(url, name):
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    running = set()
    # Ten for the jobs, one for the claim, one for heartbeats; no cache of statements: for poolers
    async with asyncpg.create_pool(url, min_size=1, max_size=12, statement_cache_size=0) as pool:
        while not stopping.is_set():
            if len(running) == 10:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            else:
                for job in await call(pool, CLAIM, 10 - len(running), name):
                    running.add(asyncio.create_task(work(pool, job)))
            for task in [task for task in running if task.done()]:
                running.remove(task)
                task.result()
        await asyncio.gather(*running)

asyncio.run(main(*sys.argv[1:]))
