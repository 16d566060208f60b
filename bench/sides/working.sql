-- setup
SELECT pgq_create_queue(':queue');
CREATE TABLE done_:queue (job_id bigint, sent jsonb, at timestamptz DEFAULT clock_timestamp());

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue');

-- ack
WITH work AS (INSERT INTO done_:queue (job_id) VALUES ($1)) SELECT pgq_ack($1, $2);
