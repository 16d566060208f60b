-- setup
SELECT pgq_create_queue(':queue'), pgq_create_queue(':queue_next');

-- open
SELECT count(*) FROM pgq_enqueue_many(':queue', (
	SELECT jsonb_agg(jsonb_build_object('payload', ':payload'::jsonb)) FROM generate_series(1, :jobs)));

-- close
SELECT pgq_enqueue(':queue_next', '{}', after => ARRAY(
	SELECT job_id FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue'));

-- callback
SELECT job_id, lease, payload FROM pgq_claim(':queue_next', wait => '60 s');

-- finish
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease WHERE queue = ':queue_next';

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue IN (':queue', ':queue_next');

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue');

-- claim_many
SELECT job_id, lease, payload FROM pgq_claim(':queue', :batch);

-- ack
SELECT pgq_ack($1, $2);

-- ack_many
SELECT count(*) FROM pgq_ack_many($1, $2);
