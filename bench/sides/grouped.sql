-- setup
SELECT pgq_create_queue(':queue', group_concurrency => 1);

-- fill
-- A group that will be busy, in front of the others; it is half as large as all others together.
BEGIN;
SELECT count(pgq_enqueue(':queue', ':payload', group_key => 'busy')) FROM generate_series(0, :jobs / 2);
COMMIT;
SELECT job_id FROM (SELECT WHERE NOT EXISTS (SELECT FROM pgq_ext.lease WHERE queue = ':queue' AND group_key = 'busy')) AS idle, pgq_claim(':queue', lease_time => '1 day');
SELECT count(pgq_enqueue(':queue', ':payload', group_key => 'group ' || i % 10000)) FROM generate_series(1, :jobs) AS i;

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue' AND group_key <> 'busy';

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
