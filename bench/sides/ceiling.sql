-- setup
CREATE TABLE jobs_:queue (id bigserial PRIMARY KEY, payload jsonb NOT NULL);

-- fill
INSERT INTO jobs_:queue (payload) SELECT ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue;

-- enqueue
INSERT INTO jobs_:queue (payload) VALUES ($1) RETURNING id;

-- enqueue_many
INSERT INTO jobs_:queue (payload) SELECT unnest($1::jsonb[]) RETURNING id;

-- number
SELECT coalesce(min(id), 1) FROM jobs_:queue;

-- number_many
SELECT coalesce(min(id), 1) FROM jobs_:queue;

-- claim
SELECT 1;

-- claim_many
SELECT 1;

-- ack
DELETE FROM jobs_:queue WHERE id = $1;

-- ack_many
DELETE FROM jobs_:queue WHERE id = ANY ($1);
