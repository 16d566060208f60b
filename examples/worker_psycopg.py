#!/usr/bin/env python3
# A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two and
# PGTARGETSESSIONATTRS=read-write: then the worker goes on after a failover. On SIGTERM the worker finishes the job that it is
# working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which rolls the work back. Create
# the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the lease
# until max_runtime is over; then a job that hangs goes to another worker.
import signal
import sys
import threading
import time
import psycopg

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
held = []                                               # the lease of the job in hand: (job_id, lease)


def handle(db, job_id, mail):                           # the work: committed with the ack, or not at all
    db.execute("INSERT INTO sent (job_id, address) VALUES (%s, %s)", (job_id, mail["to"]))


def storable(error):                                    # PostgreSQL stores valid UTF-8 without NUL
    return str(error).encode("utf-8", "backslashreplace").decode().replace("\0", "?")


def connect():
    return psycopg.connect(autocommit=True, prepare_threshold=None)     # None: for poolers


def connected(use):                                     # connects again to the primary; the job in hand comes again
    while not stopping.is_set():
        try:
            with connect() as db:
                use(db)
        except psycopg.Error as error:
            print(error, file=sys.stderr)
            time.sleep(1)


def heartbeat(db):                                      # well within the queue's lease_time
    while True:
        time.sleep(3)
        for lease in list(held):
            db.execute("SELECT pgq_extend(%s, %s)", lease)


def work(db):
    try:
        while not stopping.is_set():
            job = db.execute("SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')").fetchone()
            if job is None:
                continue
            *lease, mail = job
            if stopping.is_set():                       # the job has not begun: it is given back
                db.execute("SELECT pgq_release(%s, %s)", lease)
                break
            held[:] = [lease]
            try:
                with db.transaction():
                    handle(db, job[0], mail)
                    db.execute("SELECT pgq_ack(%s, %s)", lease)
            except Exception as error:                  # tried again after the queue's backoff
                db.execute("SELECT pgq_fail(%s, %s, error => %s)", (*lease, storable(error)))
            held.clear()
    finally:
        held.clear()                                    # the connection is lost: another worker gets the job


connect().close()                                       # what is wrong from the start is an error
threading.Thread(target=connected, args=(heartbeat,), daemon=True).start()
connected(work)
