"""The options of workers, and connections to the primary among several hosts."""

import asyncio
import json
import os
import random
import sys
import threading
from dataclasses import dataclass, field
from typing import Callable, Optional

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .errors import is_of_server


def _to_stderr(level, message, **fields):
    if level == "error":
        print(json.dumps({"level": level, "message": message, **fields}, default=str), file=sys.stderr, flush=True)


_LISTS = ("host", "hostaddr", "port")
# With these settings of TCP, a machine that is down is noticed within seconds.
_DEFAULTS = {
    "autocommit": True, "connect_timeout": 5, "target_session_attrs": "read-write", "prepare_threshold": None,
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10000,
}


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
        if threading.current_thread() is not threading.main_thread():
            self.signals = ()  # Python allows handlers of signals in the main thread only

    def addresses(self):
        """Return the arguments of connect for each host.

        psycopg's connect_timeout is for all hosts together: in one call, a host that does not answer would hide the others.
        """
        given = {**_DEFAULTS, **conninfo_to_dict(self.conninfo), **self.connection}
        lists = {name: str(given.get(name) or os.environ.get("PG" + name.upper(), "")).split(",") for name in _LISTS}
        return [
            {**given, **{name: values[i % len(values)] for name, values in lists.items() if values != [""]}}
            for i in range(max(len(lists["host"]), len(lists["hostaddr"])))
        ]

    def pause(self, tries):
        """How long to wait after that many failed tries: at random, so that not all workers come at once."""
        return min(10, 0.5 * 2 ** min(tries, 10)) * random.uniform(0.5, 1.5)


def is_lost(error):
    """Return whether a connection cannot be used again after the error. After a cancel, nobody knows what it is doing."""
    return isinstance(error, (psycopg.Error, asyncio.CancelledError)) and not is_of_server(error)
