-- setup
CREATE TABLE jobs_:queue (id bigserial PRIMARY KEY, payload jsonb NOT NULL);
CREATE UNLOGGED SEQUENCE next_:queue;

-- fill
INSERT INTO jobs_:queue (payload) SELECT ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM jobs_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) jobs_:queue;

-- number
SELECT coalesce(min(id), 1) FROM jobs_:queue;

-- claim
SELECT id, payload FROM jobs_:queue WHERE id = $1;

-- claim_many
SELECT id, payload
FROM (SELECT setval('next_:queue', nextval('next_:queue') + :batch - 1) AS last OFFSET 0) AS chosen, jobs_:queue
WHERE id > last - :batch AND id <= last;

-- ack
DELETE FROM jobs_:queue WHERE id = $1;

-- ack_many
DELETE FROM jobs_:queue WHERE id = ANY ($1);
