"""A worker with clients/python.  python3 library.py threads|asyncio noop|update CONCURRENCY"""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python"))
import pgq_ext  # noqa: E402
from pgq_ext import aio  # noqa: E402

UPDATE = "UPDATE account SET n = n + 1 WHERE id = %s"


def update(job, tx):
    tx.execute(UPDATE, [job.payload["template"]])


async def noop_in_loop(job):
    pass


async def update_in_loop(job, tx):
    await tx.execute(UPDATE, [job.payload["template"]])


way, kind, concurrency = sys.argv[1:]
options = {"tx": kind == "update", "concurrency": int(concurrency), "wait": 1}
if way == "threads":
    pgq_ext.work("mail", {"noop": lambda job: None, "update": update}[kind], **options)
else:
    asyncio.run(aio.work("mail", {"noop": noop_in_loop, "update": update_in_loop}[kind], **options))
