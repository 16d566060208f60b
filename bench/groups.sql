-- A single consumer claims and acknowledges :jobs jobs of the queue "groups", one at a time, after a tenth of that to warm up.
-- Result: the mean time of a claim, its ack and the commit, in microseconds.
SELECT set_config('bench.jobs', :'jobs', false) \g /dev/null
CREATE TEMPORARY TABLE result (microseconds numeric);
DO $$
DECLARE
	jobs int := current_setting('bench.jobs')::int;
	began timestamptz;
BEGIN
	FOR i IN -jobs / 10 .. jobs - 1 LOOP
		IF i = 0 THEN
			began := clock_timestamp();
		END IF;
		PERFORM pgq_ack(job_id, lease) FROM pgq_claim('groups');
		ASSERT FOUND, 'no job';
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES (round(extract(epoch FROM clock_timestamp() - began) * 1e6 / jobs, 1));
END $$;
SELECT * FROM result;
