-- setup
SELECT pgq_create_queue(':queue', fair => true);

-- fill
-- A hundred tenants; one of them has half of the jobs.
SELECT count(pgq_enqueue(':queue', ':payload', group_key => 'tenant ' || CASE WHEN i % 2 = 0 THEN 0 ELSE i / 2 % 99 + 1 END)) FROM generate_series(1, :jobs) AS i;

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
SELECT pgq_ack_many($1, $2);
