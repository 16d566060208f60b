#!/usr/bin/env python3
# Works off the queue "mail" of several shards. SHARDS has one conninfo a line; the first is home, where it waits. When there
# is nothing to do at home it takes from the others, in turns of chance, and only then waits. A shard that cannot be reached is
# left alone for a while, and does not keep it from working elsewhere. SIGTERM: the job in hand is finished, what has not begun
# is given back.
import os
import random
import signal
import sys
import threading
import time
import psycopg

BATCH = 5
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())


def handle(db, job_id, mail):                           # the work: committed with the ack, or not at all
    db.execute("INSERT INTO sent (job_id, address) VALUES (%s, %s)", (job_id, mail["to"]))


# A machine that is gone without a word is noticed within seconds.
SOON = {"connect_timeout": 5, "tcp_user_timeout": 10000, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


class Shard:
    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.db = None
        self.closed_until = 0
        self.held = []                                  # of the jobs claimed last those that have not ended, for the heartbeat

    def claim(self, wait):                              # [] also if it cannot be reached
        if time.monotonic() < self.closed_until:
            return []
        try:
            if self.db is None:
                self.db = psycopg.connect(self.conninfo, autocommit=True, prepare_threshold=None, **SOON)
            self.held = self.db.execute("SELECT job_id, lease, payload FROM pgq_claim('mail', %s, wait => %s::interval)",
                                        (BATCH, wait)).fetchall()
            return self.held
        except psycopg.Error as error:                  # gone, read-only since it is being moved, without the queue
            self.leave(error)
            return []

    def leave(self, error):
        print(f"not served for a while: {self.conninfo}: {error}", file=sys.stderr, flush=True)
        self.closed_until = time.monotonic() + random.uniform(1, 3)
        self.held = []
        if self.db is not None:
            self.db.close()
            self.db = None

    def work(self, jobs):
        try:
            for job_id, lease, mail in jobs:
                if stopping.is_set():
                    self.db.execute("SELECT pgq_release(%s, %s)", (job_id, lease))
                    continue
                try:
                    with self.db.transaction():
                        handle(self.db, job_id, mail)
                        self.db.execute("SELECT pgq_ack(%s, %s)", (job_id, lease))
                except Exception as error:              # tried again after the queue's backoff
                    self.db.execute("SELECT pgq_fail(%s, %s, error => %s)", (job_id, lease, str(error)))
                self.held = self.held[1:]
        except psycopg.Error as error:                  # the shard is gone: others will have its jobs
            self.leave(error)
        self.held = []


def heartbeat(shards):                                  # well within the queue's lease_time
    connections = {}
    while True:
        time.sleep(3)
        for shard in shards:
            try:
                for job_id, lease, _ in shard.held:
                    if shard not in connections:
                        connections[shard] = psycopg.connect(shard.conninfo, autocommit=True, prepare_threshold=None, **SOON)
                    connections[shard].execute("SELECT pgq_extend(%s, %s)", (job_id, lease))
            except psycopg.Error:
                connections.pop(shard, None)


shards = [Shard(line) for line in os.environ["SHARDS"].splitlines() if line.strip()]
home, others = shards[0], shards[1:]
threading.Thread(target=heartbeat, args=(shards,), daemon=True).start()
while not stopping.is_set():
    random.shuffle(others)
    for shard in [home] + others:
        jobs = shard.claim("0")
        if jobs:
            shard.work(jobs)
            break                                       # home first, again
    else:
        # A commit at home wakes it; for what comes elsewhere, where others are at home, it looks every few seconds.
        now = time.monotonic()
        place = next((shard for shard in [home] + others if now >= shard.closed_until), None)
        if place is None:
            stopping.wait(0.5)
        else:
            place.work(place.claim("5 s"))
