"""The channel: queues, bindings, messages and their leases."""

import socket
import warnings
from datetime import datetime, timezone
from queue import Empty

from kombu.log import get_logger
from kombu.transport import base, virtual
from kombu.transport.virtual.base import UNDELIVERABLE_FMT, UndeliverableWarning

from . import names
from .errors import AccessRefused, QueueMissing

logger = get_logger(__name__)


def _number(value):
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None


def when(message):
    """Return the option of pgq_enqueue that keeps the message back: `x-delay` in milliseconds, or the `eta` of Celery."""
    headers, properties = message.get("headers") or {}, message.get("properties") or {}
    delay = _number(headers.get("x-delay", properties.get("x-delay")))
    if delay:
        return {"delay": f"{delay:.3f} ms"}
    try:
        eta = datetime.fromisoformat(headers["eta"])
    except (KeyError, TypeError, ValueError):
        return {}
    return {"run_at": eta} if eta.tzinfo and eta > datetime.now(timezone.utc) else {}


class QoS(virtual.QoS):
    """The messages of a channel that are neither acknowledged nor rejected. A delivery tag is JOB_ID/LEASE."""

    def append(self, message, delivery_tag):
        super().append(message, delivery_tag)
        self.channel.hold(delivery_tag)

    def ack(self, delivery_tag):
        self.channel.settle(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag, requeue=False):
        self.channel.refuse(delivery_tag, requeue)
        self._quick_ack(delivery_tag)

    def restore_unacked(self):
        self._flush()
        tags = list(self._delivered)
        self._delivered.clear()
        self.channel.release(tags)
        return []


class Channel(virtual.Channel):
    """A channel of a connection. The connection is the transport; it has the connections to the database."""

    QoS = QoS
    supports_fanout = True
    body_encoding = "auto"
    from_transport_options = virtual.Channel.from_transport_options + ("queue_options", "prefix", "eta_in_queue")

    queue_options = {}  # options of pgq_create_queue for each queue that is declared
    prefix = ""  # what the names of all queues and topics begin with
    eta_in_queue = True  # a task with an ETA stays in the queue until then, instead of in the memory of a worker

    def __init__(self, connection, **kwargs):
        super().__init__(connection, **kwargs)
        self.transport = connection
        self.no_ack_queues = set()
        self._declared, self._transient, self._ttl = set(), {}, {}

    def _run(self, sql, values=(), again=False):
        return self.transport.calls.run(sql, values, again)

    def _name(self, queue):
        return names.queue_name(self.prefix, queue)

    # ---- queues ----

    def prepare_queue_arguments(self, arguments, **kwargs):
        return base.to_rabbitmq_queue_arguments(arguments or {}, **kwargs)

    def _new_queue(self, queue, auto_delete=False, exclusive=False, arguments=None, passive=False, **kwargs):
        if passive:
            return
        arguments, options = arguments or {}, dict(self.queue_options)
        if arguments.get("x-max-length"):
            options["max_depth"] = arguments["x-max-length"]
        if arguments.get("x-message-ttl"):
            self._ttl[queue] = arguments["x-message-ttl"] / 1000
        if auto_delete or exclusive:
            self._new_transient(queue, options)
        else:
            self._create(queue, options)
        self._declared.add(queue)

    def _create(self, queue, options):
        """Create the queue. A role that may not create queues uses those that an administrator has created."""
        named = "".join(f", {name} => %s" for name in options)
        try:
            self._run(f"SELECT pgq_create_queue(%s{named}, if_not_exists => true)", [self._name(queue), *options.values()], True)
        except AccessRefused as error:
            logger.debug("queue %s: %s", queue, error)

    def _new_transient(self, queue, options):
        """Create a queue that ends with the last channel of this process that has declared it. Its lock says to other
        processes that it is in use."""
        name = self._name(queue)
        if queue in self._transient:
            return
        if queue in self._ttl:
            options.setdefault("max_depth", 10000)  # events for a consumer that is stuck
        try:
            is_mine = self.transport.lock(name, self)
        except AccessRefused:
            return self._create(queue, options)
        self._create(queue, options)
        self._bind(names.marker_of(self.prefix), name)
        self._transient[queue] = is_mine
        self.transport.drop_abandoned(names.marker_of(self.prefix))

    def _has_queue(self, queue, **kwargs):
        return self._ready(queue) is not None

    def _size(self, queue):
        return self._ready(queue) or 0

    def _ready(self, queue):
        """Return the number of ready messages, None if there is no queue, and 0 for a role that may not know."""
        try:
            rows = self._run("SELECT ready FROM pgq_ext.queue_status WHERE queue = %s", [self._name(queue)], True)
        except AccessRefused:
            return 0
        return rows[0][0] or 0 if rows else None

    def _purge(self, queue):
        return self._run("SELECT pgq_purge_queue(%s)", [self._name(queue)], True)[0][0]

    def _delete(self, queue, *args, **kwargs):
        name = self._name(queue)
        self._run("SELECT pgq_drop_queue(%s, if_exists => true, force => true)", [name], True)
        self._declared.discard(queue)
        if self._transient.pop(queue, False):
            self.transport.unlock(name)

    def queue_delete(self, queue, if_unused=False, if_empty=False, **kwargs):
        if if_empty and self._size(queue):
            return
        self._delete(queue)
        self.state.queue_bindings_delete(queue)

    def after_reply_message_received(self, queue):
        """Keep the queue: the next call of this process uses it, too."""

    # ---- exchanges: topics of pgq_ext, so that bindings are the same for all processes ----

    def _kind(self, exchange):
        return self.typeof(exchange).type

    def _bind(self, pattern, name, when_full="error"):
        """Bind the queue, unless it is bound already: a new binding makes all sessions read the bindings again."""
        try:
            if not self._run("SELECT FROM pgq_route(%s) WHERE queue = %s AND pattern = %s", [pattern, name, pattern], True):
                sql = "SELECT pgq_bind(%s, %s, jsonb_build_object('when_full', %s::text))"
                self._run(sql, [pattern, name, when_full], True)
        except AccessRefused as error:
            logger.debug("binding of queue %s: %s", name, error)

    def _queue_bind(self, exchange, routing_key, pattern, queue):
        full = "skip" if queue in self._transient else "error"
        self._bind(names.pattern_of(self.prefix, exchange, self._kind(exchange), routing_key), self._name(queue), full)

    def queue_unbind(self, queue, exchange=None, routing_key="", arguments=None, **kwargs):
        pattern = names.pattern_of(self.prefix, exchange, self._kind(exchange), routing_key)
        try:
            self._run("SELECT pgq_unbind(%s, %s)", [pattern, self._name(queue)], True)
        except QueueMissing:  # its bindings have gone with it
            pass
        super().queue_unbind(queue, exchange, routing_key, arguments, **kwargs)

    def exchange_delete(self, exchange, if_unused=False, nowait=False):
        for routing_key, _, queue in list(self.state.exchanges.get(exchange, {}).get("table", ())):
            self.queue_unbind(queue, exchange, routing_key)
        self.state.exchanges.pop(exchange, None)

    # ---- publishing ----

    def encode_body(self, body, encoding=None):
        """Keep text as it is, so that SQL can read it. Bytes become base64."""
        if encoding == "auto":
            encoding = "utf-8" if isinstance(body, str) else "base64"
        if encoding == "utf-8":
            return (body.decode() if isinstance(body, bytes) else body), encoding
        return super().encode_body(body, encoding)

    def decode_body(self, body, encoding=None):
        return body if encoding in (None, "utf-8") else super().decode_body(body, encoding)

    def basic_publish(self, message, exchange, routing_key, **kwargs):
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            return self._put(routing_key, message, **kwargs)
        topic = names.topic_of(self.prefix, exchange, self._kind(exchange), routing_key)
        if not self._send("SELECT queue FROM pgq_publish", topic, message):
            self._unrouted(message, exchange, routing_key)

    def _unrouted(self, message, exchange, routing_key):
        """No queue has got the message. With AMQP it is dropped; an error says if a queue of this connection has gone."""
        table = self.state.exchanges.get(exchange, {}).get("table", ())
        missing = self._declared.intersection(self.typeof(exchange).lookup(table, exchange, routing_key, None)) - set(self._transient)
        if missing:
            raise QueueMissing(f'queue "{self._name(missing.pop())}" does not exist, or is not bound', (0, 0), "pgq_ext", 404)
        if self.deadletter_queue:
            self._new_queue(self.deadletter_queue)
            self._put(self.deadletter_queue, message)

    def _put(self, queue, message, **kwargs):
        try:
            self._send("SELECT pgq_enqueue", self._name(queue), message)
        except QueueMissing:
            if queue in self._declared:
                raise
            # As with AMQP: for example the answer to a client that has gone.
            warnings.warn(UndeliverableWarning(UNDELIVERABLE_FMT.format(exchange="", routing_key=queue)))

    def _send(self, function, target, message):
        properties = message["properties"]
        options = when(message) if self.eta_in_queue else {}
        priority = _number(properties.get("priority"))
        if priority:
            options["priority"] = int(priority)
        expiration = _number(properties.get("expiration"))
        if expiration is not None:
            options["expires_in"] = f"{max(expiration, 1):.3f} ms"
        named = "".join(f", {name} => %s" for name in options)
        return self._run(f"{function}(%s, %s{named})", [target, names.to_json(message), *options.values()])

    # ---- receiving ----

    def _get(self, queue, timeout=None):
        sql = f"SELECT {self.transport.COLUMNS} FROM pgq_claim(%s, 1, lease_time => %s)"
        while rows := self._run(sql, [self._name(queue), f"{self.transport.lease_time} s"]):
            raw = self.message_of(rows[0], queue)
            if raw is not None:
                return raw
        raise Empty()

    def basic_get(self, queue, no_ack=False, **kwargs):
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.settle(message.delivery_tag)
        return message

    def message_of(self, row, queue):
        """Return the message of a claimed job; None if it is too old, or no message of kombu (then it is a dead letter)."""
        job_id, lease, _, payload, attempt, age = row
        tag = f"{job_id}/{lease}"
        if age > self._ttl.get(queue, float("inf")):
            self.settle(tag)
            return None
        try:
            raw = names.from_json(payload)
        except ValueError as error:
            logger.error("job %s of queue %s: %s", job_id, queue, error)
            self.refuse(tag, False, str(error))
            return None
        raw["headers"] = raw.get("headers") or {}
        if attempt > 1:
            raw["headers"]["x-attempt"] = attempt
        raw["properties"].setdefault("delivery_info", {})["redelivered"] = attempt > 1
        raw["properties"]["delivery_tag"] = tag
        return raw

    def basic_consume(self, queue, no_ack, callback, consumer_tag, **kwargs):
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        if no_ack:
            self.no_ack_queues.add(queue)
        self.transport.consumers_changed()

    def basic_cancel(self, consumer_tag):
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        self.no_ack_queues.discard(queue)
        self.transport.consumers_changed()

    def drain_events(self, timeout=None, callback=None):
        """Deliver messages that are there, of this channel and the others of its connection; raise Empty if there are none."""
        if not (self._consumers and self.qos.can_consume()):
            raise Empty()
        try:
            return self.transport.drain_events(self.transport, timeout or 0)
        except socket.timeout:
            raise Empty() from None

    # ---- leases ----

    def hold(self, tag):
        self.transport.hold(tag)

    def settle(self, tag):
        """Acknowledge a message. Its channel may be closed: then the next connection of this process does it."""
        self.transport.held.pop(tag, None)
        self.transport.pending.append(tag)
        if self.connection is not None and self.transport.hub is None:
            self.transport.flush()

    def refuse(self, tag, requeue, text="rejected by the consumer"):
        """Put the message back, which counts as a failed attempt, or make it a dead letter."""
        self.transport.held.pop(tag, None)
        job_id, lease = tag.split("/")
        sql = "SELECT pgq_fail(%s, %s, error => %s, retry => %s, retry_in => %s)"
        state = self._run(sql, [job_id, lease, text, requeue, "0" if requeue else None], True)[0][0]
        if state == "stale":
            logger.warning("job %s: its lease had ended before it was rejected", job_id)

    def release(self, tags):
        """Give messages back, without a failed attempt, unless the connection was lost: then their leases run out."""
        for tag in tags:
            self.transport.held.pop(tag, None)
        if tags and not self.transport.is_lost:
            sql = "SELECT pgq_release(job_id, lease) FROM unnest(%s::bigint[], %s::bigint[]) AS held(job_id, lease)"
            self._run(sql, _columns(tags), True)

    def close(self):
        """Release what is not acknowledged, and drop the queues that end with this channel."""
        if not self.closed and not self.transport.is_lost:
            self.transport.flush()
            for queue, is_mine in list(self._transient.items()):
                if is_mine and self.transport.is_last(self._name(queue), self):
                    self._delete(queue)
        super().close()


def _columns(tags):
    pairs = [tag.split("/") for tag in tags]
    return [[int(pair[0]) for pair in pairs], [int(pair[1]) for pair in pairs]]
