"""Enqueue and run jobs of pgq_ext, the job queue inside PostgreSQL."""

from . import aio, errors
from .calls import Job, cancel, close_batch, create_batch, enqueue, enqueue_many, publish, publish_many, result
from .errors import *  # noqa: F401,F403
from .options import Options
from .worker import Worker, connect, drain, work

__version__ = "0.2.0"
__all__ = [
    "aio", "Job", "Options", "Worker", "cancel", "close_batch", "connect", "create_batch", "drain", "enqueue", "enqueue_many",
    "publish", "publish_many", "result", "work", *errors.__all__,
]
