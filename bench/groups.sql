-- A single consumer claims and acknowledges :jobs jobs of the queue "groups", one at a time, after a tenth of that to warm up.
-- Result: the mean time of a claim, and of a claim, its ack and the commit together, in microseconds.
SELECT set_config('bench.jobs', :'jobs', false) \g /dev/null
CREATE TEMPORARY TABLE result (claim numeric, whole numeric);
DO $$
DECLARE
	jobs int := current_setting('bench.jobs')::int;
	began timestamptz;
	claim_began timestamptz;
	claims interval;
	job record;
BEGIN
	FOR i IN -jobs / 10 .. jobs - 1 LOOP
		claim_began := clock_timestamp();
		IF i = 0 THEN
			began := claim_began;
			claims := '0';
		END IF;
		SELECT job_id, lease INTO STRICT job FROM pgq_claim('groups');
		claims := claims + (clock_timestamp() - claim_began);
		PERFORM pgq_ack(job.job_id, job.lease);
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES (round(extract(epoch FROM claims) * 1e6 / jobs, 1),
		round(extract(epoch FROM clock_timestamp() - began) * 1e6 / jobs, 1));
END $$;
SELECT * FROM result;
