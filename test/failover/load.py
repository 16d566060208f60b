#!/usr/bin/env python3
# load.py LEDGER URL: enqueues, works, locks, runs once, and does the jobs of a schedule, through failovers. LEDGER is outside of
# the database: what was asked for, and what was answered, in this order. SIGTERM: no more is enqueued, and when all is done it ends.
import os
import random
import signal
import sys
import threading
import time
import psycopg
from psycopg.types.json import Jsonb

ledger = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
url = sys.argv[2]
closing = threading.Event()                             # no more is enqueued
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: closing.set())


def note(*fields):
    os.write(ledger, ("\t".join([f"{time.time():.6f}", *map(str, fields)]) + "\n").encode())


def through_failovers(step, until):
    while not until.is_set():
        try:
            with psycopg.connect(url, autocommit=True, prepare_threshold=None) as db:
                while not until.is_set():
                    step(db)
        except psycopg.Error as error:
            note("broken", step.__name__, type(error).__name__, str(error).split("\n")[0])
            time.sleep(0.2)


def is_stale(error):
    return error.sqlstate == "PQ001"


# ---- jobs ----

def producer(number, delay):
    count = 0

    def produce(db):
        nonlocal count
        count += 1
        key = f"{number}-{count}"
        note("enqueue?", key)
        (job_id,) = db.execute("SELECT pgq_enqueue('jobs', %s, delay => %s)", (Jsonb({"key": key}), delay)).fetchone()
        note("enqueued", key, job_id)
        time.sleep(0.03)
    through_failovers(produce, closing)


def acknowledge(db, key, job_id, lease, with_effect):
    if not with_effect:
        db.execute("SELECT pgq_ack(%s, %s)", (job_id, lease))
        return
    with db.transaction():
        db.execute("INSERT INTO effect (key) VALUES (%s)", (key,))
        db.execute("SELECT pgq_ack(%s, %s)", (job_id, lease))


# Its jobs are its own also when the connection is another one: it says until it is answered that they are done.
def worker(queue, n, work_time, with_effect):
    held = []

    def work(db):
        if not held:
            claim = "SELECT job_id, lease, payload ->> 'key', headers ->> 'scheduled_at' FROM pgq_claim(%s, %s, wait => '1 s')"
            for job_id, lease, key, tick in db.execute(claim, (queue, n)).fetchall():
                held.append((key or tick, job_id, lease))
                note("claimed", *held[-1])
            time.sleep(work_time)
        while held:
            note("ack?", *held[0])
            try:
                acknowledge(db, *held[0], with_effect)
            except psycopg.Error as error:
                if not is_stale(error):
                    note("unknown", *held[0])
                    raise
                note("stale", *held.pop(0))
            else:
                note("acked", *held.pop(0))
    through_failovers(work, stopping)


# ---- locks and runs ----

def lock(db):
    note("lock?")
    (token,) = db.execute("SELECT pgq_lock('leader', ttl => '5 s', wait => '1 s')").fetchone()
    if token is None:
        return
    note("locked", token)
    try:
        for _ in range(3):
            note("assert?", token)
            with db.transaction():
                db.execute("SELECT pgq_assert_lock('leader', %s)", (token,))
                db.execute("INSERT INTO lock_effect VALUES (%s)", (token,))
            note("asserted", token)
            time.sleep(random.uniform(0.05, 0.3))
        db.execute("SELECT pgq_unlock('leader', %s)", (token,))
    except psycopg.Error as error:
        if not is_stale(error):
            raise
        note("refused", token)


def run_once(db):
    name = f"run-{int(time.time()) // 2}"
    (token,) = db.execute("SELECT pgq_run_once(%s, ttl => '5 s')", (name,)).fetchone()
    if token is not None:
        note("done?", name, token)
        with db.transaction():
            db.execute("INSERT INTO run_effect VALUES (%s)", (name,))
            db.execute("SELECT pgq_run_done(%s, %s)", (name, token))
        note("done", name, token)
    time.sleep(0.3)


# ---- all of it ----

unscheduled = threading.Event()


def unschedule(db):
    db.execute("SELECT pgq_unschedule('tick')")
    unscheduled.set()


def finish(db):
    (left,) = db.execute("SELECT count(*) FROM pgq_ext.job").fetchone()
    if left == 0:
        stopping.set()
    time.sleep(0.3)


threads = [threading.Thread(target=target, args=args, daemon=True) for target, *args in (
    (producer, 1, "0"), (producer, 2, "0"), (producer, 3, "3 s"),
    (worker, "jobs", 3, 0.02, True), (worker, "jobs", 3, 0.02, False), (worker, "jobs", 1, 0.05, True),
    (worker, "jobs", 5, 3, True), (worker, "jobs", 5, 4, False),    # these have jobs in hand whenever something dies
    (worker, "ticks", 1, 0.1, True),
    (through_failovers, lock, stopping), (through_failovers, lock, stopping),
    (through_failovers, run_once, stopping), (through_failovers, run_once, stopping))]
for thread in threads:
    thread.start()
parent = os.getppid()
while not closing.wait(1):
    if os.getppid() != parent:                          # the test is gone
        os._exit(1)
for thread in threads[:3]:
    thread.join()
through_failovers(unschedule, unscheduled)
through_failovers(finish, stopping)
for thread in threads:
    thread.join()
