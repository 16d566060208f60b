#!/usr/bin/env python3
# A worker for the queue "mail" of several shards. SHARDS has one conninfo in each line; the first one is the worker's home,
# where it waits for jobs. If there is no job at home, the worker claims from the other shards in random order, and waits only
# if these have no job either. A shard that cannot be reached is skipped for a while, and does not keep the worker from working
# elsewhere. On SIGTERM the worker finishes the job that it is working on, and gives back a job that has not begun. Create the
# queue of each shard by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends
# the lease until max_runtime is over; then a job that hangs goes to another worker.
import os
import random
import signal
import sys
import threading
import time
import psycopg

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())


def handle(db, job_id, mail):                           # the work: committed with the ack, or not at all
    db.execute("INSERT INTO sent (job_id, address) VALUES (%s, %s)", (job_id, mail["to"]))


def storable(error):                                    # PostgreSQL stores valid UTF-8 without NUL
    return str(error).encode("utf-8", "backslashreplace").decode().replace("\0", "?")


# With these settings, a machine that is down is noticed within seconds.
SOON = {"connect_timeout": 5, "tcp_user_timeout": 10000, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


class Shard:
    def __init__(self, conninfo):
        self.conninfo = conninfo
        known = psycopg.conninfo.conninfo_to_dict(conninfo).items()
        self.name = " ".join(f"{key}={value}" for key, value in known if "password" not in key)
        self.db = None
        self.closed_until = 0
        self.held = None                                # the lease of the job in hand, for the heartbeat

    def claim(self, wait):                              # None also if the shard cannot be reached
        if time.monotonic() < self.closed_until:
            return None
        try:
            if self.db is None:
                self.db = psycopg.connect(self.conninfo, autocommit=True, prepare_threshold=None, **SOON)
            job = self.db.execute("SELECT job_id, lease, payload FROM pgq_claim('mail', wait => %s::interval)",
                                  (wait,)).fetchone()
            self.held = job and job[:2]
            return job
        except psycopg.Error as error:                  # gone, read-only since it is being moved, without the queue
            self.leave(error)
            return None

    def leave(self, error):
        print(f"not served for a while: {self.name}: {error}", file=sys.stderr, flush=True)
        self.closed_until = time.monotonic() + random.uniform(1, 3)
        self.held = None
        if self.db is not None:
            self.db.close()
            self.db = None

    def work(self, job):
        *lease, mail = job
        try:
            if stopping.is_set():                       # the job has not begun: it is given back
                self.db.execute("SELECT pgq_release(%s, %s)", lease)
                return
            try:
                with self.db.transaction():
                    handle(self.db, job[0], mail)
                    self.db.execute("SELECT pgq_ack(%s, %s)", lease)
            except Exception as error:                  # tried again after the queue's backoff
                self.db.execute("SELECT pgq_fail(%s, %s, error => %s)", (*lease, storable(error)))
        except psycopg.Error as error:                  # the connection is lost: another worker gets the job
            self.leave(error)
        finally:
            self.held = None


def heartbeat(shards):                                  # well within the queue's lease_time
    connections = {}
    while True:
        time.sleep(3)
        for shard in shards:
            try:
                lease = shard.held
                if lease is None:
                    continue
                if shard not in connections:
                    connections[shard] = psycopg.connect(shard.conninfo, autocommit=True, prepare_threshold=None, **SOON)
                connections[shard].execute("SELECT pgq_extend(%s, %s)", lease)
            except psycopg.Error:
                connections.pop(shard, None)


shards = [Shard(line) for line in os.environ["SHARDS"].splitlines() if line.strip()]
home, others = shards[0], shards[1:]
threading.Thread(target=heartbeat, args=(shards,), daemon=True).start()
while not stopping.is_set():
    random.shuffle(others)
    for shard in [home] + others:
        job = shard.claim("0")
        if job:
            shard.work(job)
            break                                       # home first, again
    else:
        # A commit at home wakes the worker. The other shards are the home of other workers, so this one looks there only every
        # few seconds.
        now = time.monotonic()
        place = next((shard for shard in [home] + others if now >= shard.closed_until), None)
        if place is None:
            stopping.wait(0.5)
        else:
            job = place.claim("5 s")
            if job:
                place.work(job)
