-- setup
BEGIN;
SELECT pgq_create_queue(':queue');
SELECT pgq_create_queue(':queue_parent');
COMMIT;
-- A parent is acknowledged. A child that never comes up keeps its outcome.
BEGIN;
SELECT pgq_enqueue(':queue_parent', '{}');
SELECT pgq_enqueue(':queue_parent', '{}', delay => '1 day', after => ARRAY(SELECT job_id FROM pgq_ext.job_status WHERE queue = ':queue_parent'));
COMMIT;
SELECT pgq_ack(job_id, lease) FROM pgq_claim(':queue_parent');

-- id
SELECT min(parent_id) FROM pgq_ext.job_dependency;

-- keys
"after": [:id],

-- fill
-- Ends when the scheduler has made all children ready.
BEGIN;
SELECT count(pgq_enqueue(':queue', ':payload', after => ARRAY[:id])) FROM generate_series(1, :jobs);
COMMIT;
DO $$ BEGIN
	WHILE EXISTS (SELECT FROM pgq_ext.job WHERE blocked IS NOT NULL) LOOP
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT pgq_enqueue(':queue', $1, after => ARRAY[:id]);

-- enqueue_many
SELECT pgq_enqueue_many(':queue', $1);

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue', wait => '30 s');

-- claim_many
SELECT job_id, lease, payload FROM pgq_claim(':queue', :batch, wait => '30 s');

-- ack
SELECT pgq_ack($1, $2);

-- ack_many
SELECT count(*) FROM pgq_ack_many($1, $2);
