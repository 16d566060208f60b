from . import aio as aio, errors as errors
from .calls import (
    Job as Job,
    cancel as cancel,
    close_batch as close_batch,
    create_batch as create_batch,
    enqueue as enqueue,
    enqueue_many as enqueue_many,
    publish as publish,
    publish_many as publish_many,
    result as result,
)
from .errors import (
    DiscardError as DiscardError,
    DuplicateError as DuplicateError,
    NotFoundError as NotFoundError,
    PgqError as PgqError,
    QueueFullError as QueueFullError,
    ReleaseError as ReleaseError,
    RetryError as RetryError,
    StaleLeaseError as StaleLeaseError,
    UnroutableError as UnroutableError,
)
from .options import Options as Options
from .worker import Worker as Worker, connect as connect, drain as drain, work as work

__version__: str
