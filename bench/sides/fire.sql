-- setup
SELECT pgq_create_queue(':queue'), pgq_create_queue(':queue_next');

-- open
-- A batch of so many members, at most a thousand in each call.
DO $$
DECLARE
	the_batch bigint := pgq_create_batch(on_success => '{"queue": ":queue_next", "payload": {}}');
	member jsonb := jsonb_build_object('payload', ':payload'::jsonb, 'batch', the_batch);
BEGIN
	FOR n IN 1 .. :jobs BY 1000 LOOP
		PERFORM count(*) FROM pgq_enqueue_many(':queue', (
			SELECT jsonb_agg(member) FROM generate_series(n, least(n + 999, :jobs))));
		COMMIT;
	END LOOP;
END $$;

-- close
SELECT pgq_close_batch((SELECT max(batch_id) FROM pgq_ext.job_batch));

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
