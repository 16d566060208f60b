"""Two connections to the database: one for calls that answer at once, and one for claims that wait for jobs."""

import os
import select
import threading
from urllib.parse import quote

import psycopg
from psycopg.errors import error_from_result

from .errors import typed

# With these settings of TCP, a machine that is down is noticed within seconds.
DEFAULTS = {
    "connect_timeout": 5, "target_session_attrs": "read-write", "application_name": "kombu", "client_encoding": "UTF8",
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10000,
}


def conninfo_of(client):
    """Return what psycopg connects with: the URL, with the scheme of PostgreSQL."""
    host = client.hostname or ""
    if "://" in host:
        return "postgresql://" + host.split("://", 1)[1]
    user = quote(client.userid or "", safe="")
    if client.password:
        user += ":" + quote(client.password, safe="")
    port = f":{client.port}" if client.port else ""
    database = quote((client.virtual_host or "").lstrip("/"), safe="")
    return f"postgresql://{f'{user}@' if user else ''}{quote(host, safe=',')}{port}/{database}"


def connect(conninfo):
    known = psycopg.conninfo.conninfo_to_dict(conninfo)
    missing = {name: value for name, value in DEFAULTS.items() if name not in known}
    if "PGAPPNAME" in os.environ:
        missing.pop("application_name", None)
    return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, **missing)


class Calls:
    """A connection for short calls. Threads may share it. After a failure the next call connects again."""

    def __init__(self, conninfo):
        self.conninfo, self._lock, self._connection, self._pid = conninfo, threading.RLock(), None, None

    def run(self, sql, values=(), again=False):
        """Return the rows of a statement. `again`: the call may run twice, so a lost connection is replaced."""
        with self._lock:
            try:
                return self._open().execute(sql, values).fetchall()
            except psycopg.Error as error:
                if not self._lost():
                    raise typed(error) from error
                self.close()
                if not again:
                    raise _as_lost(error) from error
            return self.run(sql, values)

    def _open(self):
        # A child process must not use the connection of its parent.
        if self._connection is None or self._connection.closed or self._pid != os.getpid():
            self._connection, self._pid = connect(self.conninfo), os.getpid()
        return self._connection

    def _lost(self):
        return self._connection is not None and self._connection.closed

    def close(self):
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None


COLUMNS = "job_id, lease, queue, payload::text, attempt, extract(epoch FROM clock_timestamp() - enqueued_at)"


class Claims:
    """A connection for claims. A claim is sent, and its answer is read when the socket of the connection is readable."""

    def __init__(self, conninfo):
        self.conninfo, self._connection, self.is_waiting = conninfo, None, False

    def fileno(self):
        if self._connection is None:
            self._connection = connect(self.conninfo)
        return self._connection.fileno()

    def send(self, queues, most, wait, lease_time):
        """Send a claim. With one queue, the right to call pgq_claim is enough."""
        self.fileno()
        function, source = ("pgq_claim", queues[0]) if len(queues) == 1 else ("pgq_claim_any", _array(queues))
        sql = f"SELECT {COLUMNS} FROM {function}($1, $2, wait => $3, lease_time => $4)"
        values = [source.encode(), str(most).encode(), f"{wait:.6f} s".encode(), f"{lease_time:.6f} s".encode()]
        self._connection.pgconn.send_query_params(sql.encode(), values)
        while self._connection.pgconn.flush():
            select.select([], [self], [])
        self.is_waiting = True

    def receive(self, timeout):
        """Return the rows of the claim, or None if it still waits after that many seconds (None: without a limit)."""
        pgconn = self._connection.pgconn
        while pgconn.is_busy():
            if not select.select([self], [], [], timeout)[0]:
                return None
            pgconn.consume_input()
        self.is_waiting = False
        rows, error = [], None
        while (result := pgconn.get_result()) is not None:
            if result.status == psycopg.pq.ExecStatus.TUPLES_OK:
                rows += [[result.get_value(row, column) for column in range(6)] for row in range(result.ntuples)]
            else:
                error = error_from_result(result)
        if error is not None:
            is_open = pgconn.status == psycopg.pq.ConnStatus.OK and error.sqlstate is not None
            raise typed(error) if is_open else _as_lost(error)
        return [(int(r[0]), int(r[1]), r[2].decode(), r[3].decode(), int(r[4]), float(r[5])) for r in rows]

    def interrupt(self):
        """Cancel the claim that waits. Return the rows that it has handed out all the same."""
        if not self.is_waiting:
            return []
        try:
            self._connection.cancel()
            return self.receive(None)
        except psycopg.errors.QueryCanceled:
            return []

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection, self.is_waiting = None, False


def _as_lost(error):
    """Return an error of the class that kombu takes for a lost connection."""
    return error if isinstance(error, psycopg.OperationalError) else psycopg.OperationalError(str(error))


def _array(names):
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join(f'"{name}"' for name in quoted) + "}"
