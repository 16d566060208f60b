-- A single consumer claims all jobs of the queue "order" and checks their order. Result: number of jobs, number of
-- violations.
CREATE TEMPORARY TABLE result (jobs bigint, violations bigint);
DO $$
DECLARE
	c record;
	last_priority int;
	last_run_at timestamptz;
	last_job_id bigint;
	taken bigint := 0;
	batch bigint;
	violations bigint := 0;
BEGIN
	LOOP
		batch := taken;
		FOR c IN SELECT priority, run_at, job_id, pgq_ack(job_id, lease) FROM pgq_claim('order', 10000) LOOP
			IF (-c.priority, c.run_at, c.job_id) <= (-last_priority, last_run_at, last_job_id) THEN
				violations := violations + 1;
			END IF;
			last_priority := c.priority;
			last_run_at := c.run_at;
			last_job_id := c.job_id;
			taken := taken + 1;
		END LOOP;
		EXIT WHEN taken = batch;
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES (taken, violations);
END $$;
SELECT * FROM result;
