"""A transport of kombu, and so of Celery, over pgq_ext, the job queue inside PostgreSQL.

Importing this package makes kombu know URLs that begin with pgq://."""

from kombu.transport import TRANSPORT_ALIASES

from .channel import Channel
from .errors import QueueFull, QueueMissing
from .transport import Transport

TRANSPORT_ALIASES.setdefault("pgq", "pgq_kombu.transport:Transport")

__version__ = "0.2.0"
__all__ = ["Channel", "QueueFull", "QueueMissing", "Transport"]
