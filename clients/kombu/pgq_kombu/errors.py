"""Errors as kombu and Celery expect them."""

from amqp.exceptions import AccessRefused, RecoverableConnectionError
from kombu.exceptions import KombuError


class QueueFull(KombuError):
    """PQ002: the queue has as many jobs as its option max_depth allows."""


class QueueMissing(RecoverableConnectionError):
    """42704: a queue that this connection has declared was dropped. A new connection declares it again."""


def typed(error):
    """Return the error as one of these classes, or as it is if its SQLSTATE has no class."""
    state = getattr(error, "sqlstate", None)
    if state == "42501":
        hint = error.diag.message_hint
        found = AccessRefused(f"{error.diag.message_primary}{f' ({hint})' if hint else ''}", (0, 0), "pgq_ext", 403)
    elif state == "42704":
        found = QueueMissing(error.diag.message_primary, (0, 0), "pgq_ext", 404)
    elif state == "PQ002":
        found = QueueFull(str(error))
    else:
        return error
    found.__cause__ = error
    return found
