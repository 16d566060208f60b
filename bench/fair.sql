-- A single consumer claims jobs of the queue "tenants" one by one, until the tenants with few jobs have none left.
-- Result: the number of hand-outs.
CREATE TEMPORARY TABLE result (hand_outs bigint);
DO $$
DECLARE
	few int := (SELECT count(*) FROM pgq_ext.job_status WHERE queue = 'tenants' AND group_key <> 'big');
	hand_outs bigint := 0;
	claimed record;
BEGIN
	WHILE few > 0 LOOP
		SELECT group_key, pgq_ack(job_id, lease) INTO STRICT claimed FROM pgq_claim('tenants');
		few := few - (claimed.group_key <> 'big')::int;
		hand_outs := hand_outs + 1;
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES (hand_outs);
END $$;
SELECT * FROM result;
