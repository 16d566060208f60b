"""Errors of pgq_ext, and errors by which a handler decides what becomes of its job."""

import traceback

import psycopg


class PgqError(Exception):
    """An error of pgq_ext. `sqlstate` names it; `__cause__` is the error of the driver."""

    def __init__(self, error):
        super().__init__(str(error))
        self.sqlstate = getattr(error, "sqlstate", None)


class StaleLeaseError(PgqError):
    """PQ001: the lease of the job has ended, and another worker may have the job."""


class QueueFullError(PgqError):
    """PQ002: the queue has as many jobs as its option max_depth allows."""


class UnroutableError(PgqError):
    """PQ003: no queue is bound to the topic, and `must_route` was set."""


class NotFoundError(PgqError):
    """42704: there is no such queue, job or batch."""


class DuplicateError(PgqError):
    """23505: a job has the unique key, and `on_conflict` is 'error'."""


class DiscardError(Exception):
    """For handlers: the job becomes a dead letter at once."""


class RetryError(Exception):
    """For handlers: the attempt fails, and the next one begins after that many seconds."""

    def __init__(self, message, seconds):
        super().__init__(message)
        self.seconds = seconds


class ReleaseError(Exception):
    """For handlers: the job is given back for that many seconds. No attempt is counted."""

    def __init__(self, seconds=0):
        super().__init__(f"released for {seconds} s")
        self.seconds = seconds


_CLASSES = {
    "PQ001": StaleLeaseError, "PQ002": QueueFullError, "PQ003": UnroutableError, "42704": NotFoundError, "23505": DuplicateError,
}


def typed(error):
    """Return the error as one of these classes, or as it is if its SQLSTATE has no class."""
    found = _CLASSES.get(getattr(error, "sqlstate", None))
    if found is None or isinstance(error, PgqError):
        return error
    result = found(error)
    result.__cause__ = error
    return result


def is_of_server(error):
    """Return whether the server has raised the error, so that the connection can be used again.

    After 25006 it is one to a standby, and 25P03 and 25P04 end the session.
    """
    state = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(("57P0", "08", "25006", "25P03", "25P04"))


def is_transient(error):
    """Return whether the same call may succeed later: there was no connection, a conflict, a timeout, or a shortage."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return not is_of_server(error) or state.startswith(("40", "53", "55P03", "57", "58"))


def is_final(error):
    """Return whether each further claim would fail, too: no right, no queue, or no extension."""
    return (getattr(error, "sqlstate", None) or "").startswith(("42", "3F"))


def text_of(error):
    """Return the text of an error as PostgreSQL can store it: valid UTF-8 without NUL."""
    text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else str(error)
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "?")


def line_of(error):
    """Return the text of an error for a log. The method __str__ of an error may fail, too."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


__all__ = [
    "PgqError", "StaleLeaseError", "QueueFullError", "UnroutableError", "NotFoundError", "DuplicateError",
    "DiscardError", "RetryError", "ReleaseError",
]
