-- setup
CREATE TABLE jobs_:queue (
	id bigserial PRIMARY KEY, queue_name text NOT NULL, priority int NOT NULL DEFAULT 0,
	run_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
	attempts int NOT NULL DEFAULT 0, locked_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
	payload jsonb NOT NULL);
CREATE INDEX ON jobs_:queue (queue_name, priority DESC, run_at, id) WHERE status = 'queued';

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
UPDATE jobs_:queue SET status = 'running', attempts = attempts + 1, locked_until = now() + interval '5 min'
WHERE id = (
	SELECT id FROM jobs_:queue
	WHERE queue_name = 'mail' AND status = 'queued' AND run_at <= now()
	ORDER BY priority DESC, run_at, id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload;

-- claim_many
UPDATE jobs_:queue SET status = 'running', attempts = attempts + 1, locked_until = now() + interval '5 min'
WHERE id = ANY (ARRAY(
	SELECT id FROM jobs_:queue
	WHERE queue_name = 'mail' AND status = 'queued' AND run_at <= now()
	ORDER BY priority DESC, run_at, id FOR UPDATE SKIP LOCKED LIMIT :batch))
RETURNING id, payload;

-- ack
DELETE FROM jobs_:queue WHERE id = $1;

-- ack_many
DELETE FROM jobs_:queue WHERE id = ANY ($1);
