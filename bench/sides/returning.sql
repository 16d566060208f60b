-- setup
CREATE TABLE jobs_:queue (id bigserial PRIMARY KEY, payload jsonb NOT NULL);

-- fill
INSERT INTO jobs_:queue (payload) SELECT ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue;

-- number
SELECT coalesce(min(id), 1) FROM jobs_:queue;

-- number_many
SELECT coalesce(min(id), 1) FROM jobs_:queue;

-- claim
DELETE FROM jobs_:queue WHERE id = $1 RETURNING id, payload;

-- claim_many
DELETE FROM jobs_:queue WHERE id = ANY ($1) RETURNING id, payload;
