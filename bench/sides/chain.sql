-- setup
SELECT pgq_create_queue(':queue');

-- fill
-- A chain: each job is the child of the one before.
SELECT count(*) FROM pgq_enqueue_many(':queue', (
	SELECT jsonb_agg(CASE WHEN i = 1 THEN job ELSE job || jsonb_build_object('after', jsonb_build_array('job ' || i - 1)) END ORDER BY i)
	FROM generate_series(1, :jobs) AS i,
		jsonb_build_object('payload', ':payload'::jsonb, 'ref', 'job ' || i) AS job));

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- claim
SELECT job_id, lease, payload FROM pgq_claim(':queue', wait => '30 s');

-- ack
SELECT pgq_ack($1, $2);
