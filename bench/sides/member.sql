-- setup
SELECT pgq_create_queue(':queue');
SELECT pgq_create_batch();

-- id
-- The batch that takes all enqueued members. It is open all the time.
SELECT min(batch_id) FROM pgq_ext.job_batch WHERE closed_at IS NULL;

-- keys
"batch": :id,

-- fill
-- The members of a batch that is closed.
BEGIN;
SELECT pgq_create_batch(metadata => '"fill"');
SELECT count(pgq_enqueue(':queue', ':payload', batch => (SELECT max(batch_id) FROM pgq_ext.job_batch))) FROM generate_series(1, :jobs);
SELECT pgq_close_batch((SELECT max(batch_id) FROM pgq_ext.job_batch));
COMMIT;

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT pgq_enqueue(':queue', $1, batch => :id);

-- enqueue_many
SELECT pgq_enqueue_many(':queue', $1);

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue');

-- claim_many
SELECT job_id, lease, payload FROM pgq_claim(':queue', :batch);

-- ack
SELECT pgq_ack($1, $2);

-- ack_many
SELECT count(*) FROM pgq_ack_many($1, $2);
