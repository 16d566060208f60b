-- setup
CREATE TABLE jobs_:queue (
	id bigserial PRIMARY KEY, queue_name text NOT NULL, priority int NOT NULL DEFAULT 0,
	run_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'queued',
	attempts int NOT NULL DEFAULT 0, locked_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
	payload jsonb NOT NULL, batch_id int NOT NULL DEFAULT 1);
CREATE TABLE batches_:queue (batch_id int PRIMARY KEY, pending bigint NOT NULL);
INSERT INTO batches_:queue VALUES (1, 1000000000);
CREATE INDEX ON jobs_:queue (queue_name, priority DESC, run_at, id) WHERE status = 'queued';

-- fill
INSERT INTO jobs_:queue (queue_name, payload) SELECT 'mail', ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue, batches_:queue;

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
WITH done AS (DELETE FROM jobs_:queue WHERE id = $1 RETURNING batch_id)
UPDATE batches_:queue AS b SET pending = pending - 1 FROM done WHERE b.batch_id = done.batch_id RETURNING pending;

-- ack_many
WITH done AS (DELETE FROM jobs_:queue WHERE id = ANY ($1) RETURNING batch_id)
UPDATE batches_:queue AS b SET pending = pending - n FROM (SELECT batch_id, count(*) AS n FROM done GROUP BY 1) AS done
WHERE b.batch_id = done.batch_id RETURNING pending;
