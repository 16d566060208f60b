-- setup
CREATE TABLE jobs_:queue (
	id bigserial PRIMARY KEY, queue_name text NOT NULL, priority int NOT NULL DEFAULT 0,
	run_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
	attempts int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(),
	payload jsonb NOT NULL);
CREATE INDEX ON jobs_:queue (queue_name, priority DESC, run_at, id) WHERE status = 'queued';
CREATE FUNCTION lock_jobs_:queue(wanted int) RETURNS TABLE (id bigint, payload jsonb) LANGUAGE plpgsql AS $$
DECLARE
	candidate bigint;
	taken bigint[] := '{}';
	seen boolean;
BEGIN
	-- A poll can be so late that most of the jobs it has seen are taken by now.
	LOOP
		seen := false;
		FOR candidate IN
			SELECT j.id FROM jobs_:queue j
			WHERE j.queue_name = 'mail' AND j.status = 'queued' AND j.run_at <= now() AND j.id <> ALL (taken)
			ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1000
		LOOP
			seen := true;
			CONTINUE WHEN NOT pg_try_advisory_xact_lock(candidate);
			-- The last holder of the lock may have deleted the job after this poll began: look again, now that this
			-- session has the lock.
			RETURN QUERY SELECT j.id, j.payload FROM jobs_:queue j WHERE j.id = candidate AND j.status = 'queued';
			CONTINUE WHEN NOT FOUND;
			taken := taken || candidate;
			EXIT WHEN cardinality(taken) = wanted;
		END LOOP;
		EXIT WHEN cardinality(taken) = wanted OR NOT seen;
	END LOOP;
END $$;

-- fill
INSERT INTO jobs_:queue (queue_name, payload) SELECT 'mail', ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue;

-- enqueue
INSERT INTO jobs_:queue (queue_name, payload) VALUES ('mail', $1) RETURNING id;

-- enqueue_many
INSERT INTO jobs_:queue (queue_name, payload) SELECT 'mail', unnest($1::jsonb[]) RETURNING id;

-- claim
BEGIN;
SELECT id, payload FROM lock_jobs_:queue(1);

-- claim_many
BEGIN;
SELECT id, payload FROM lock_jobs_:queue(:batch);

-- ack
DELETE FROM jobs_:queue WHERE id = $1;
COMMIT;

-- ack_many
DELETE FROM jobs_:queue WHERE id = ANY ($1);
COMMIT;
