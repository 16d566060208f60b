"""The application of the test: tasks that note what they do in tables."""

import os
import time

import psycopg

import pgq_kombu  # noqa: F401, so that Celery knows pgq://
from celery import Celery

app = Celery("tasks", broker="pgq://", backend=os.environ["BACKEND"])
app.conf.update(
    broker_transport_options={"lease_time": 10, "wait": 1, "queue_options": {"backoff_base": "100 ms"}},
    task_acks_late=True, worker_prefetch_multiplier=4, task_default_queue=os.environ["QUEUE"],
    broker_connection_retry_on_startup=True, broker_connection_max_retries=None, task_track_started=False,
    worker_hijack_root_logger=False, task_create_missing_queues=True,
)


def note(name, value):
    """Insert a row, as soon as there is a server. (Celery acknowledges a task that fails.)"""
    while True:
        try:
            with psycopg.connect(autocommit=True) as db:
                db.execute("INSERT INTO noted VALUES (%s, %s)", (name, value))
            return
        except psycopg.OperationalError:
            time.sleep(0.1)


@app.task
def add(a, b):
    return a + b


@app.task
def total(values):
    return sum(values)


@app.task(ignore_result=True)
def mark(name, value, seconds=0):
    time.sleep(seconds)
    note(name, value)


@app.task(bind=True, max_retries=3)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(bind=True, ignore_result=True)
def slow(self, name):
    """Note the beginning, with the process of the worker, and the end."""
    note(f"{name} begins", int(bool(self.request.delivery_info.get("redelivered"))))
    time.sleep(2)
    note(f"{name} ends", self.request.get("x-attempt") or 1)
