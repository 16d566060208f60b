-- setup
SELECT pgq_create_queue(':queue');

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue', wait => '30 s');

-- ack
-- The transaction of the ack enqueues the next job.
SELECT pgq_ack($1, $2), pgq_enqueue(':queue', ':payload');
