-- setup
CREATE TABLE rows_:queue (id bigserial PRIMARY KEY, payload jsonb NOT NULL);
CREATE UNLOGGED SEQUENCE next_:queue;

-- fill
INSERT INTO rows_:queue (payload) SELECT ':payload' FROM generate_series(1, :jobs);

-- count
SELECT count(*) FROM rows_:queue;

-- vacuum
VACUUM (ANALYZE, INDEX_CLEANUP ON) rows_:queue;

-- enqueue
INSERT INTO rows_:queue (payload) VALUES ($1) RETURNING id;

-- enqueue_many
INSERT INTO rows_:queue (payload) SELECT unnest($1::jsonb[]) RETURNING id;

-- claim
SELECT nextval('next_:queue');

-- claim_many
SELECT nextval('next_:queue') FROM generate_series(1, :batch);

-- ack
DELETE FROM rows_:queue WHERE id = $1;

-- ack_many
DELETE FROM rows_:queue WHERE id = ANY ($1);
