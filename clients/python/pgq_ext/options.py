"""The options of workers, and connections to the primary among several hosts."""

import asyncio
import json
import random
import sys
from dataclasses import dataclass, field
from typing import Callable, Optional

import psycopg

from .errors import is_of_server


def _to_stderr(level, message, **fields):
    if level == "error":
        print(json.dumps({"level": level, "message": message, **fields}, default=str), file=sys.stderr, flush=True)


@dataclass
class Options:
    """How a worker works. All times are seconds."""

    concurrency: int = 1  # how many jobs run at a time
    tx: bool = False  # the handler and the ack are one transaction
    wait: float = 5  # how long a claim waits for a job, and so the longest time that a stop waits for a claim
    heartbeat: float = 5  # time between two extensions of the leases; at most a third of a lease
    lease_time: Optional[float] = None  # length of the leases; None: the lease_time of the queue
    stop_timeout: float = 30  # time after which a stop aborts the handlers that still run
    signals: tuple = ("SIGTERM", "SIGINT")  # signals that stop the worker
    pool: Optional[int] = None  # connections that acknowledge jobs and run transactions; None: concurrency in tx mode, else 1
    worker: Optional[str] = None  # the label of the worker in views; None: application_name
    conninfo: str = ""  # host and port may be lists with commas
    connection: dict = field(default_factory=dict)  # more arguments of psycopg.connect
    before: Optional[Callable] = None  # hook: before(job)
    after: Optional[Callable] = None  # hook: after(job, outcome, error)
    error: Optional[Callable] = None  # hook: error(exception), for an error that is not of a job
    log: Callable = _to_stderr  # log(level, message, **fields)

    def __post_init__(self):
        self.pool = self.pool or (self.concurrency if self.tx else 1)

    def for_connection(self):
        defaults = {"connect_timeout": 5, "target_session_attrs": "read-write", "prepare_threshold": None}
        return {"conninfo": self.conninfo, "autocommit": True, **defaults, **self.connection}

    def pause(self, tries):
        """How long to wait after that many failed tries: at random, so that not all workers come at once."""
        return min(10, 0.5 * 2**tries) * random.uniform(0.5, 1.5)


def is_lost(error):
    """Return whether a connection cannot be used again after the error. After a cancel, nobody knows what it is doing."""
    return isinstance(error, (psycopg.Error, asyncio.CancelledError)) and not is_of_server(error)
