-- setup
SELECT pgq_create_queue(':queue', log_attempts => 'all', keep_finished => '1 day');

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job, pgq_ext.attempt, pgq_ext.finished_job;

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue');

-- claim_many
SELECT job_id, lease, payload FROM pgq_claim(':queue', :batch);

-- ack
SELECT pgq_ack($1, $2, '{"sent": true}');

-- ack_many
SELECT pgq_ack_many($1, $2);
