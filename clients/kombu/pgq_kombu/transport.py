"""The transport: a connection of kombu. It claims jobs for all of its channels, and extends their leases."""

import atexit
import os
import socket
import threading
import weakref
from collections import defaultdict, deque
from time import monotonic

import psycopg
from kombu.log import get_logger
from kombu.transport import base, virtual
from kombu.utils.url import maybe_sanitize_url

from .channel import Channel, _columns
from .database import COLUMNS, Calls, Claims, conninfo_of
from .errors import AccessRefused, QueueMissing
from .names import queue_name as lock_name

logger = get_logger(__name__)

MOST = 100  # messages of one claim if the prefetch count is unlimited

# Acknowledgements that are not sent yet, for each database: they outlive a connection that was lost.
_pending = defaultdict(deque)

# The locks of queues that end with this process, for each database: {name: (token, ids of the channels that use it)}.
_locks = defaultdict(dict)


@atexit.register
def _drop_transient():
    """Drop the queues that end with this process, if its connections were not closed."""
    for (pid, conninfo), locks in list(_locks.items()):
        if locks and pid == os.getpid():
            calls = Calls(conninfo)
            try:
                for name in locks:
                    calls.run("SELECT pgq_drop_queue(%s, if_exists => true, force => true)", [name])
            except Exception as error:  # another process drops them later
                logger.debug("queues of this process: %s", error)
            calls.close()


def _tag(row):
    return f"{row[0]}/{row[1]}"


def _beat(reference, stop, pause):
    """Extend leases and locks until the connection is closed. The main thread may be busy with a task."""
    while not stop.wait(pause):
        transport = reference()
        if transport is None:
            return
        try:
            if not transport.is_lost:
                transport.extend()
        except Exception as error:  # the main thread finds a lost connection by itself
            logger.warning("cannot extend the leases of messages: %s", error)
        del transport


class Transport(virtual.Transport):
    """pgq://user:password@host:port/database, with the parameters of a URL of PostgreSQL."""

    Channel = Channel
    COLUMNS = COLUMNS
    can_parse_url = True
    driver_type = "pgq"
    driver_name = "psycopg"
    connection_errors = base.Transport.connection_errors + (psycopg.OperationalError, psycopg.InterfaceError, QueueMissing)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = base.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False,
    )

    def __init__(self, client, **kwargs):
        super().__init__(client, **kwargs)
        options = client.transport_options
        self.lease_time = float(options.get("lease_time", 30))  # a message of a killed worker is delivered again after that time
        self.wait = float(options.get("wait", 5))  # how long a claim waits
        self.polling_interval = float(options.get("polling_interval", 0.5))  # for control messages while a worker is full
        conninfo = conninfo_of(client)
        self.calls, self.claims = Calls(conninfo), Claims(conninfo)
        self.pending = _pending[os.getpid(), conninfo]
        self.held, self.hub, self.is_lost = {}, None, False
        self._locks, self._swept = _locks[os.getpid(), conninfo], False
        self._claimed, self._rows, self._turn, self._next_poll = {}, deque(), 0, 0
        self._heart, self._stop = None, threading.Event()

    def driver_version(self):
        return psycopg.__version__

    def as_uri(self, uri, include_password=False, mask="**"):
        return uri if include_password else maybe_sanitize_url(uri, mask)

    def establish_connection(self):
        self.calls.run("SELECT")
        return super().establish_connection()

    def close_connection(self, connection):
        """Close channels first: they release their messages."""
        if self.hub is not None:
            self.hub.on_tick.discard(self._tick)
            self._unwatch()
        try:
            self._release_rows(self.claims.interrupt())
        except self.connection_errors:
            self.is_lost = True
        try:
            super().close_connection(connection)
        finally:
            self._stop.set()
            self.hub = None
            self.claims.close()
            self.calls.close()

    # ---- claims ----

    def _consuming(self):
        """Return (channel, names of its queues, how many messages it may get) of the channels with consumers."""
        found = []
        for channel in self.channels:
            if channel._active_queues:
                free = channel.qos.can_consume_max_estimate()
                found.append((channel, list(channel._active_queues), MOST if free is None else min(free, MOST)))
        return found

    def _send_claim(self, wait):
        """Send a claim for all channels that may get messages. It only waits if all of them may. Return whether it was sent.

        While a channel is full, the others are asked at intervals: a claim that waits would not see when the first
        one gets room."""
        consuming = self._consuming()
        open_ones = [each for each in consuming if each[2] > 0]
        if not open_ones:
            return False
        if len(open_ones) < len(consuming):
            if wait and monotonic() < self._next_poll:
                return False
            wait, self._next_poll = 0, monotonic() + self.polling_interval
        # Control messages go first; the other queues take turns.
        self._turn += 1
        first, others = {}, {}
        for channel, queues, _ in open_ones:
            for queue in queues:
                (first if queue in channel.no_ack_queues else others)[channel._name(queue)] = (channel, queue)
        turn = self._turn % len(others) if others else 0
        order = [*first, *list(others)[turn:], *list(others)[:turn]]
        self._claimed = {**first, **others}
        self.claims.send(order, min(each[2] for each in open_ones), wait, self.lease_time)
        return True

    def _deliver_rows(self, rows):
        """Hand the messages to their consumers. If a consumer raises an error, the others stay for the next time."""
        self._keep(rows)
        while self._rows:
            row, channel, queue = self._rows.popleft()
            self.held.pop(_tag(row), None)  # the channel holds what it takes
            if channel.closed or queue not in channel._active_queues:
                self._release_rows([row])
                continue
            raw = channel.message_of(row, queue)
            if raw is None:
                continue
            if queue in channel.no_ack_queues:
                channel.settle(raw["properties"]["delivery_tag"])
            self._deliver(raw, queue)

    def _keep(self, rows):
        """Keep messages until they are handed to their consumers, which may take long: so their leases are extended."""
        self._rows.extend((row, *self._claimed[row[2]]) for row in rows)
        for row in rows:
            self.hold(_tag(row))

    def _release_rows(self, rows):
        rows = [*rows, *(row for row, _, _ in self._rows)]
        self._rows.clear()
        if rows and self.channels:
            self.channels[0].release([_tag(row) for row in rows])

    def consumers_changed(self):
        """End the claim that waits: it does not know the new set of queues."""
        try:
            rows = self.claims.interrupt()
        except self.connection_errors:
            self.is_lost = True
            raise
        self._keep(rows)

    def drain_events(self, connection, timeout=None, **kwargs):
        """Deliver messages; raise socket.timeout if there are none within that many seconds."""
        end = None if timeout is None else monotonic() + timeout
        try:
            while True:
                self.flush()
                left = self.wait if end is None else max(0.0, min(self.wait, end - monotonic()))
                if self._rows:
                    return self._deliver_rows([])
                if self._send_claim(left):
                    rows = self.claims.receive(None)
                    if rows:
                        return self._deliver_rows(rows)
                elif left:
                    self._stop.wait(min(left, self.polling_interval))
                if end is not None and monotonic() >= end:
                    raise socket.timeout()
        except self.connection_errors:
            self.is_lost = True
            raise

    # ---- the event loop of a worker ----

    def register_with_event_loop(self, connection, loop):
        self.hub, self._watched = loop, None
        loop.on_tick.add(self._tick)

    def _unwatch(self):
        if self._watched is not None:
            self.hub.remove_reader(self._watched)
            self._watched = None

    def _tick(self):
        """Before each wait of the event loop: send acknowledgements, and a claim if none waits."""
        try:
            self.flush()
            if self._rows:
                self._deliver_rows([])
            if not self.claims.is_waiting and self._send_claim(self.wait):
                fd = self.claims.fileno()
                if self._watched != fd or fd not in self.hub.readers:
                    self._unwatch()
                    self._watched = fd
                    self.hub.add_reader(fd, self._on_readable)
        except self.connection_errors:
            self.is_lost = True
            raise

    def _on_readable(self):
        try:
            if self.claims.is_waiting:
                rows = self.claims.receive(0)
                if rows:
                    self._deliver_rows(rows)
            else:
                self._unwatch()
        except self.connection_errors:
            self.is_lost = True
            raise

    # ---- leases and locks ----

    def flush(self):
        """Send the acknowledgements. They may be sent twice, so a lost connection loses none of them."""
        if not self.pending:
            return
        tags = []
        while self.pending and len(tags) < 10000:
            tags.append(self.pending.popleft())
        ids, leases = _columns(tags)
        try:
            acked = {row[0] for row in self.calls.run("SELECT pgq_ack_many(%s::bigint[], %s::bigint[])", [ids, leases], True)}
        except BaseException:
            self.pending.extendleft(reversed(tags))
            raise
        for job_id in ids:
            if job_id not in acked:
                logger.warning("job %s: its lease had ended before it was acknowledged; it may run once more", job_id)

    def lock(self, name, channel=None):
        """Take the lock of a queue that ends with its process. Return whether this process has the lock."""
        self._start_heart()
        if name not in self._locks:
            token = self.calls.run("SELECT pgq_lock(%s, ttl => %s)", [lock_name("kombu:", name), self._ttl()])[0][0]
            if token is None:
                return False
            self._locks[name] = (token, set())
        if channel is not None:
            self._locks[name][1].add(id(channel))
        return True

    def is_last(self, name, channel):
        """Note that the channel needs the queue no longer. Return whether no other channel of this process does."""
        users = self._locks.get(name, (None, set()))[1]
        users.discard(id(channel))
        return not users

    def unlock(self, name):
        token, _ = self._locks.pop(name, (None, None))
        if token is not None:
            self.calls.run("SELECT pgq_unlock(%s, %s)", [lock_name("kombu:", name), token], True)

    def _ttl(self):
        return f"{max(60, 3 * self.lease_time)} s"

    def drop_abandoned(self, marker):
        """Drop the queues that killed processes have left. Called once for each connection."""
        if self._swept:
            return
        self._swept = True
        try:
            for name, in self.calls.run("SELECT queue FROM pgq_route(%s) WHERE pattern = %s", [marker, marker], True):
                if name not in self._locks and self.lock(name):
                    self.calls.run("SELECT pgq_drop_queue(%s, if_exists => true, force => true)", [name], True)
                    self.unlock(name)
        except AccessRefused as error:
            logger.debug("queues of connections that have ended: %s", error)

    def _start_heart(self):
        if self._heart is None:
            arguments = (weakref.ref(self), self._stop, self.lease_time / 3)
            self._heart = threading.Thread(target=_beat, args=arguments, name="pgq_kombu", daemon=True)
            self._heart.start()

    def hold(self, tag):
        self.held[tag] = True
        self._start_heart()

    def extend(self):
        tags = list(self.held)
        ids, leases = _columns(tags)
        if tags:
            sql = """SELECT job_id || '/' || lease FROM unnest(%s::bigint[], %s::bigint[]) AS held(job_id, lease)
                     WHERE pgq_extend(job_id, lease) IS NULL"""
            for tag, in self.calls.run(sql, [ids, leases], True):
                if self.held.pop(tag, None):
                    logger.warning("job %s: its lease has ended; another worker may get it", tag.split("/")[0])
        for name, (token, _) in list(self._locks.items()):
            self.calls.run("SELECT pgq_extend_lock(%s, %s)", [lock_name("kombu:", name), token], True)
