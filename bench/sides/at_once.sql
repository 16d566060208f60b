-- setup
SELECT pgq_create_queue(':queue');

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- claim
SELECT job_id, payload, pgq_ack(job_id, lease) FROM pgq_claim(':queue');

-- ack
