"""A plugin of pytest: unit tests of kombu that use the transport `memory`, or the base class, use this transport."""

import signal

import kombu
import psycopg
import pytest
from kombu.transport import TRANSPORT_ALIASES

import pgq_kombu.transport

TRANSPORT_ALIASES["memory"] = "pgq_kombu:Transport"
pgq_kombu.transport.conninfo_of = lambda client: "postgresql:///"  # these tests name no host
SECONDS = 60

# Left out: tests of parts that only the transport `memory`, or a loop that polls, has.
LEFT_OUT = {
    "test_restore_unacked_raises_BaseException", "test_drain_events_has_get_many", "test_drain_events_unregistered_queue",
    "test_queue_for", "test_producer_on_return",
    # Left out: as with AMQP, the queue for replies stays.
    "test_after_reply_message_received",
    # Left out: these tests rely on a queue of an earlier test, which gets a broadcast that was sent before their queue was declared.
    "test_cast", "test_abcast", "test_call", "test_multi_call",
}


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.module.__name__.endswith("virtual.test_base"):
            item.module.client = lambda **options: kombu.Connection(transport="pgq_kombu:Transport", **options)
    config.hook.pytest_deselected(items=[item for item in items if item.name in LEFT_OUT])
    items[:] = [item for item in items if item.name not in LEFT_OUT]


def too_long(*_):
    raise AssertionError(f"the test takes more than {SECONDS} s")


@pytest.fixture(autouse=True)
def own_queues():
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    with psycopg.connect(autocommit=True) as db:
        db.execute("SELECT pgq_drop_queue(queue, force => true) FROM pgq_ext.queue_status")
