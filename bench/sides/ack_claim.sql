-- setup
SELECT pgq_create_queue(':queue');

-- fill
SELECT count(pgq_enqueue(':queue', ':payload')) FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT pgq_enqueue(':queue', $1);

-- enqueue_many
SELECT pgq_enqueue_many(':queue', $1);

-- ack_claim
SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, ':queue');

-- ack_claim_many
SELECT job_id, lease, payload FROM pgq_ack_claim($1, $2, ':queue', :batch);

-- last
SELECT pgq_ack_many($1, $2);
