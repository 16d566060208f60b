#!/usr/bin/env python3
# Carries jobs from the queue "outbox" of the business database to the server that has the queues. The jobs are enqueued in the
# business database, by the transactions that make them necessary. LOCAL and REMOTE are conninfos; ORIGIN is a name for the
# local database, different from that of every other. See README.md.
#
# Each job is enqueued on the remote server with the unique key ORIGIN:id, and acknowledged locally only when that is
# committed. If the relay or a server dies in between, the job is carried again, and meets its own key. Any number of relays
# may run. On SIGTERM the relay finishes the present batch.
import os
import signal
import sys
import threading
import psycopg
from psycopg.types.json import Jsonb

BATCH = 100
KEY_FOR = "7 days"                                      # longer than a job may lie here, a relay may be down, a server be restored
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())


def connect(name):
    return psycopg.connect(os.environ[name], autocommit=True, prepare_threshold=None, connect_timeout=5)


def element(job_id, payload):                           # what is enqueued there for a job here
    job = dict(payload["job"])
    job["unique_key"] = f"{os.environ['ORIGIN']}:{job_id}"
    job["unique_for"] = KEY_FOR
    return job


def is_element(payload):                                # {"queue": "...", "job": {...}}
    return isinstance(payload, dict) and isinstance(payload.get("queue"), str) and isinstance(payload.get("job"), dict)


def send(remote, queue, jobs):
    remote.execute("SELECT pgq_enqueue_many(%s, %s)", (queue, Jsonb([element(job_id, payload) for job_id, _, payload in jobs])))


def acknowledge(local, jobs):                           # what is not ours any more is carried once more, and meets its key
    local.execute("SELECT pgq_ack_many(%s::bigint[], %s::bigint[])", ([job[0] for job in jobs], [job[1] for job in jobs]))


def refuse(local, job, reason):
    local.execute("SELECT pgq_fail(%s, %s, error => %s)", (job[0], job[1], reason))


def is_gone(local, remote):                             # one of the servers? Everything else is said of the jobs
    return local.closed or remote.closed


def is_ours(local, job):                                # and for some time
    return local.execute("SELECT pgq_extend(%s, %s)", (job[0], job[1])).fetchone()[0] is not None


def carry(local, remote):
    batches = {}
    for job in local.execute("SELECT job_id, lease, payload FROM pgq_claim('outbox', %s, wait => '5 s')", (BATCH,)).fetchall():
        if is_element(job[2]):
            batches.setdefault(job[2]["queue"], []).append(job)
        else:
            refuse(local, job, 'the payload is not {"queue": "...", "job": {...}}')
    for queue, batch in batches.items():
        try:
            send(remote, queue, batch)
            acknowledge(local, batch)
        except psycopg.Error:
            if is_gone(local, remote):
                raise
            for job in batch:                           # one of them cannot be enqueued: which?
                if not is_ours(local, job):
                    continue
                try:
                    send(remote, queue, [job])
                    acknowledge(local, [job])
                except psycopg.Error as error:
                    if is_gone(local, remote):
                        raise
                    refuse(local, job, str(error))


while not stopping.is_set():
    try:
        with connect("LOCAL") as local, connect("REMOTE") as remote:
            while not stopping.is_set():
                carry(local, remote)
    except psycopg.Error as error:
        # The claimed jobs come back when their leases are over.
        print(f"again in a second: {error}", file=sys.stderr, flush=True)
        stopping.wait(1)
