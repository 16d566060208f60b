"""A transport of kombu, and so of Celery, over pgq_ext, the job queue inside PostgreSQL.

Importing this package makes kombu know URLs that begin with pgq://."""

from kombu.transport import TRANSPORT_ALIASES

from .channel import Channel
from .errors import QueueFull, QueueMissing
from .transport import Transport
from .version import __version__

TRANSPORT_ALIASES.setdefault("pgq", "pgq_kombu.transport:Transport")

__all__ = ["__version__", "Channel", "QueueFull", "QueueMissing", "Transport"]
