"""Runs workers of Celery, and prints lines of TAP. The line "restart" asks the caller to restart the server."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import warnings

import kombu
import psycopg

os.environ.setdefault("BACKEND", "rpc://")
os.environ.setdefault("QUEUE", "celery")
from celery import group  # noqa: E402
from celery.exceptions import TaskRevokedError  # noqa: E402

import pgq_kombu  # noqa: E402
import tasks  # noqa: E402

LIMIT = float(os.environ.get("PG_TEST_TIMEOUT_DEFAULT", 180))
db = psycopg.connect(autocommit=True)


def value(sql, *values):
    """Return the first value of a statement, on a connection that survives a restart of the server."""
    global db
    for _ in range(100):
        try:
            return db.execute(sql, values).fetchone()[0]
        except psycopg.OperationalError:
            time.sleep(0.2)
            with contextlib.suppress(psycopg.OperationalError):
                db = psycopg.connect(autocommit=True)
    raise RuntimeError(sql)


def wait_for(sql, expected, *values):
    """Return the value of the statement once it is the expected one, or at the end of the time."""
    end = time.monotonic() + LIMIT
    while (found := value(sql, *values)) != expected and time.monotonic() < end:
        time.sleep(0.1)
    return found


def check(name, found, expected=True):
    print(f"{'ok' if found == expected else 'not ok'} {name}", flush=True)
    if found != expected:
        print(f"# found {found!r}, expected {expected!r}", flush=True)


def worker(name, queue="celery", backend="rpc://"):
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-n", f"{name}@%h", "-Q", queue, "-l", "warning"]
    with open(f"{name}.log", "a") as log:
        started = subprocess.Popen(command, env={**os.environ, "BACKEND": backend, "QUEUE": queue}, stdout=log, stderr=log, start_new_session=True)
    return started


def stop(process, number=signal.SIGTERM):
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    return process.wait(LIMIT)


COUNT = "SELECT count(*) FROM noted WHERE name = %s"
LEASED = "SELECT coalesce(sum(leased), 0)::int FROM pgq_ext.queue_status WHERE queue = %s"


def messages():
    """What kombu does without Celery: order, delay, rejection, odd names and bodies."""
    with kombu.Connection("pgq://", transport_options={"lease_time": 4}) as connection:
        odd = "a queue\twith a long name " + "é" * 60
        with contextlib.closing(connection.SimpleQueue(odd)) as queue:
            for number, priority in enumerate([1, 9, 1]):
                queue.put({"number": number}, priority=priority)
            found = [queue.get(timeout=LIMIT) for _ in range(3)]
            check("messages of a higher priority come first", [m.payload["number"] for m in found], [1, 0, 2])
            found[0].requeue()
            again = queue.get(timeout=LIMIT)
            check("a message that was requeued is marked", (again.delivery_info["redelivered"], again.headers["x-attempt"]), (True, 2))
            found[1].reject()
            check("a rejected message is a dead letter", value("SELECT count(*)::int FROM pgq_ext.dead_letter"), 1)
            again.ack(), found[2].ack()
            queue.put("\0 text", headers={"odd": "\0"})
            message = queue.get(timeout=LIMIT)
            check("NUL in body and headers", (message.payload, message.headers["odd"]), ("\0 text", "\0"))
            message.ack()
            queue.put("later", headers={"x-delay": 300})
            with contextlib.suppress(queue.Empty):
                check("a message with a delay does not come at once", queue.get_nowait(), None)
            queue.get(timeout=LIMIT).ack()
            queue.put("held")
            held = queue.get(timeout=LIMIT)
            value("SELECT pg_sleep(6)")
            held.ack()
            check("the lease of a message is extended", value("SELECT count(*)::int FROM pgq_ext.attempt WHERE error LIKE '%%expired%%'"), 0)
            with kombu.Connection("pgq://") as other, contextlib.closing(other.SimpleQueue(odd)) as same:
                same.put("unacknowledged")
                same.get(timeout=LIMIT)
        with contextlib.closing(connection.SimpleQueue(odd)) as queue:
            check("a message comes back when its connection is closed", queue.get(timeout=LIMIT).payload, "unacknowledged")


def errors():
    """A queue that is full, or was dropped; a role without rights."""
    with kombu.Connection("pgq://", transport_options={"queue_options": {"max_depth": 1}}) as connection:
        with contextlib.closing(connection.SimpleQueue("small")) as queue:
            queue.put(1)
            try:
                queue.put(2)
            except pgq_kombu.QueueFull as error:
                check("a full queue", "is full" in str(error) or "max_depth" in str(error))
            value("SELECT pgq_drop_queue('small', force => true)")
            try:
                queue.put(3)
            except connection.connection_errors as error:
                check("a dropped queue", 'queue "small" does not exist' in str(error))
            producer = kombu.Producer(connection)
            publish = connection.ensure(producer, producer.publish, max_retries=2)
            publish(4, routing_key="small", declare=[kombu.Queue("small", routing_key="small")], retry=True)
            check("a dropped queue is declared again", value("SELECT count(*)::int FROM pgq_ext.job_status WHERE queue = 'small'"), 1)
    with warnings.catch_warnings(record=True) as caught, kombu.Connection("pgq://") as connection:
        warnings.simplefilter("always")
        kombu.Producer(connection).publish(1, routing_key="nowhere")
        check("an undeliverable message", [w.category.__name__ for w in caught if "nowhere" in str(w.message)], ["UndeliverableWarning"])
    value("SELECT count(*) FROM (SELECT pgq_create_queue('closed'), pgq_grant('closed', 'clerk', '{inspect}')) AS made")
    db.execute("GRANT EXECUTE ON FUNCTION pgq_enqueue, pgq_claim TO clerk")
    with kombu.Connection(f"pgq://clerk@/{os.environ['PGDATABASE']}") as connection:
        try:
            kombu.Producer(connection).publish(1, routing_key="closed")
        except connection.channel_errors as error:
            check("a role without the right enqueue", "permission denied" in str(error) and "closed" in str(error))
        try:
            connection.default_channel.basic_get("closed")
        except connection.channel_errors as error:
            check("a role without the right claim", "permission denied" in str(error))


def two_workers():
    """Results, retries, ETA, revoke, 1,000 tasks, restarts, kills."""
    a, b = worker("a"), worker("b")
    check("a result", tasks.add.delay(1, 2).get(timeout=LIMIT), 3)
    check("a group", sum(group(tasks.add.s(i, i) for i in range(50))().get(timeout=LIMIT)), 2450)
    check("a retry", tasks.third_time.delay().get(timeout=LIMIT), 2)
    later = tasks.add.apply_async((2, 3), countdown=3)
    check("a task with an ETA waits in the queue", wait_for("SELECT scheduled::int FROM pgq_ext.queue_status WHERE queue = 'celery'", 1), 1)
    check("its result", later.get(timeout=LIMIT), 5)
    revoked = tasks.add.apply_async((2, 3), countdown=8)
    end = time.monotonic() + LIMIT
    while len(answers := tasks.app.control.revoke(revoked.id, reply=True, timeout=2)) < 2 and time.monotonic() < end:
        pass
    check("both workers answer a revoke", len(answers), 2)
    try:
        check("a revoked task", revoked.get(timeout=LIMIT), None)
    except TaskRevokedError:
        check("a revoked task", True)
    for number in range(1000):
        tasks.mark.delay("many", number)
    check("1,000 tasks", wait_for(COUNT, 1000, "many"), 1000)
    check("nothing is leased", wait_for(LEASED, 0, "celery"), 0)
    check("each of them has run once", value("SELECT count(DISTINCT value)::int FROM noted WHERE name = 'many'"), 1000)

    for number in range(100):
        tasks.mark.delay("lost", number, 0.02)
    wait_for("SELECT count(*) > 10 FROM noted WHERE name = 'lost'", True)
    value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'kombu'")
    wait_for("SELECT count(*) > 40 FROM noted WHERE name = 'lost'", True)
    print("restart", flush=True)
    check("100 tasks, a lost connection and a restart", wait_for("SELECT count(DISTINCT value)::int FROM noted WHERE name = 'lost'", 100), 100)

    tasks.slow.delay("killed")
    wait_for(COUNT, 1, "killed begins")
    for process in (a, b):
        stop(process, signal.SIGKILL)
    a = worker("a")
    check("the task of a killed worker runs again", wait_for(COUNT, 1, "killed ends"), 1)
    check("as a later attempt", value("SELECT max(value) > 1 FROM noted WHERE name = 'killed ends'"))
    check("that is marked as redelivered", value("SELECT max(value) FROM noted WHERE name = 'killed begins'"), 1)

    for number in range(9):
        tasks.slow.delay(f"stop {number}")
    wait_for("SELECT count(*) > 0 FROM noted WHERE name LIKE 'stop %%'", True)
    check("SIGTERM ends a worker in order", stop(a), 0)
    begun = value("SELECT count(*) FROM noted WHERE name LIKE 'stop % begins'".replace("%", "%%"))
    check("it has finished its tasks", value("SELECT count(*) FROM noted WHERE name LIKE 'stop %% ends'"), begun)
    check("it has given back the others", (value(LEASED, "celery"), value("SELECT ready::int FROM pgq_ext.queue_status WHERE queue = 'celery'")), (0, 9 - begun))


def chords():
    """A chord needs results that are stored."""
    backend = f"file://{os.getcwd()}/results"
    os.makedirs("results", exist_ok=True)
    c = worker("c", "stored", backend)
    code = "from tasks import *; from celery import chord; print(chord([add.s(i, i) for i in range(10)])(total.s()).get(timeout=%f))" % LIMIT
    answer = subprocess.run([sys.executable, "-c", code], env={**os.environ, "BACKEND": backend, "QUEUE": "stored"}, capture_output=True, text=True)
    check("a chord", answer.stdout.strip(), "90")
    if answer.returncode:
        print("# " + answer.stderr[-1500:].replace("\n", "\n# "))
    check("the worker stops", stop(c), 0)


with contextlib.suppress(socket.timeout):
    messages()
    errors()
    two_workers()
    chords()
    print("done", flush=True)
