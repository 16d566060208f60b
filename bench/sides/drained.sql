-- setup
SELECT pgq_create_queue(':queue');

-- open
DO $$
DECLARE
	job jsonb := jsonb_build_object('payload', ':payload'::jsonb);
BEGIN
	FOR n IN 1 .. :jobs BY 1000 LOOP
		PERFORM count(*) FROM pgq_enqueue_many(':queue', (
			SELECT jsonb_agg(job) FROM generate_series(n, least(n + 999, :jobs))));
		COMMIT;
	END LOOP;
END $$;

-- count
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue AS q USING (queue_id) WHERE q.queue = ':queue';

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
