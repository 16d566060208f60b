-- setup
SELECT pgq_create_queue(':queue_' || i), pgq_bind(':queue.#', ':queue_' || i) FROM generate_series(1, 10) i;

-- count
SELECT count(*) / 10 FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue LIKE ':queue_%';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT queue, job_id FROM pgq_publish(':queue.topic', $1);
