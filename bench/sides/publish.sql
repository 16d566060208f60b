-- setup
SELECT pgq_create_queue(':queue'), pgq_bind(':queue.#', ':queue');

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT queue, job_id FROM pgq_publish(':queue.topic', $1);
