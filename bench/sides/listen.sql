-- setup
CREATE TABLE jobs_:queue (
	id bigserial PRIMARY KEY, queue_name text NOT NULL, priority int NOT NULL DEFAULT 0,
	run_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
	attempts int NOT NULL DEFAULT 0, locked_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
	payload jsonb NOT NULL);
CREATE INDEX ON jobs_:queue (queue_name, priority DESC, run_at, id) WHERE status = 'queued';

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue;

-- enqueue
WITH job AS (INSERT INTO jobs_:queue (queue_name, payload) VALUES ('mail', $1) RETURNING id)
SELECT id, pg_notify('jobs', '') FROM job;

-- listen
LISTEN jobs;

-- claim
UPDATE jobs_:queue SET status = 'running', attempts = attempts + 1, locked_until = now() + interval '5 min'
WHERE id = (
	SELECT id FROM jobs_:queue
	WHERE queue_name = 'mail' AND status = 'queued' AND run_at <= now()
	ORDER BY priority DESC, run_at, id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload;

-- ack
DELETE FROM jobs_:queue WHERE id = $1;
