#!/usr/bin/env python3
# Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
# is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work. Where
# there is a standby, PGHOST=one,two and PGTARGETSESSIONATTRS=read-write, and it goes on after a failover.
import signal
import sys
import threading
import time
import psycopg

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
held = []                                               # of the jobs claimed last those that have not ended


def handle(db, job_id, mail):                           # the work: committed with the ack, or not at all
    db.execute("INSERT INTO sent (job_id, address) VALUES (%s, %s)", (job_id, mail["to"]))


def connect():
    return psycopg.connect(autocommit=True, prepare_threshold=None)     # None: for poolers


def connected(use):                                     # whoever is the primary: what was in hand comes again
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
        for job_id, lease, _ in list(held):
            db.execute("SELECT pgq_extend(%s, %s)", (job_id, lease))


def work(db):
    try:
        while not stopping.is_set():
            held[:] = db.execute("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')").fetchall()
            for job_id, lease, mail in list(held):
                if stopping.is_set():
                    db.execute("SELECT pgq_release(%s, %s)", (job_id, lease))
                    continue
                try:
                    with db.transaction():
                        handle(db, job_id, mail)
                        db.execute("SELECT pgq_ack(%s, %s)", (job_id, lease))
                except Exception as error:              # tried again after the queue's backoff
                    db.execute("SELECT pgq_fail(%s, %s, error => %s)", (job_id, lease, str(error)))
                held.pop(0)
    finally:
        held.clear()                                    # the connection is gone: somebody else gets them


connect().close()                                       # what is wrong from the start is an error
threading.Thread(target=connected, args=(heartbeat,), daemon=True).start()
connected(work)
