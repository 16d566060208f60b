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

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue');

-- claim_many
SELECT job_id, lease, payload FROM pgq_claim(':queue', :batch);

-- wait
SELECT job_id, lease, payload FROM pgq_claim(':queue', wait => '30 s');

-- ack
SELECT pgq_ack($1, $2);

-- ack_many
SELECT count(*) FROM pgq_ack_many($1, $2);
