-- Rows of pgq_ext.queue and pgq_ext.job that are written by SQL: what the functions would not take is refused here too.
SELECT pgq_create_queue('hand', lease_time => '1 day'), pgq_create_queue('other');
SELECT pgq_enqueue('hand', '1') > 0 AS enqueued;
SELECT queue_id FROM pgq_ext.queue WHERE queue = 'hand' \gset

-- Tries to set each line in the row of the queue.
CREATE FUNCTION try_set(settings text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    setting text; before text; code text; message text; hint text;
BEGIN
    SELECT q::text INTO before FROM pgq_ext.queue q WHERE queue = 'hand';
    FOREACH setting IN ARRAY string_to_array(btrim(settings, E'\n'), E'\n') LOOP
        BEGIN
            EXECUTE format('UPDATE pgq_ext.queue SET %s WHERE queue = ''hand''', setting);
            RETURN NEXT setting || ': no error';
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            RETURN NEXT concat(setting, ': ', code, ' ', message, ' (' || nullif(hint, '') || ')');
        END;
    END LOOP;
    IF NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE queue = 'hand' AND q::text = before) THEN
        RETURN NEXT 'AND SOMETHING CHANGED';
    END IF;
END $$;
\pset format unaligned
\pset tuples_only on
\set bad 'lease_time = ''-1 s''\nlease_time = ''0.999999 s''\nlease_time = ''7 days 0.000001 s''\nlease_time = ''178000000 years''\nmax_runtime = ''-1 s''\nmax_runtime = ''1 us''\nmax_runtime = ''1000 years 1 day''\nmax_attempts = 0\nmax_attempts = -2147483648\nbackoff_base = ''-1 s''\nbackoff_base = ''1000 years 1 day''\nbackoff_max = ''-1 s''\nbackoff_max = ''178000000 years''\nbackoff_jitter = -0.1\nbackoff_jitter = 50\nbackoff_jitter = ''NaN''\nbackoff_jitter = ''Infinity''\ngroup_concurrency = -1\nlog_attempts = ''''\nlog_attempts = ''ALL''\nkeep_attempts = ''-1 s''\nkeep_finished = ''1000 years 1 day''\nkeep_dead = ''-1 s''\nkeep_dead = ''366000 days''\nqueue = ''''\nqueue = repeat(''n'', 60)'
SELECT try_set(:'bad');
-- What a CHECK cannot see.
SELECT try_set($$
queue = 'has space'
queue = E'tab\there'
queue = U&'zero\200Bwidth'
queue = U&'\202Edesrever'
queue = U&'\FEFFmark'
queue = U&'no-break\00A0space'
keep_dead = '100000 months -3000000 days'
queue_id = DEFAULT
lease_time = NULL
fifo = true, group_concurrency = 2
fifo = NULL
queue = NULL
queue = 'other'
$$);
-- The CHECKs are the same, for who is believed: logical replication.
BEGIN;
SET LOCAL session_replication_role = replica;
SELECT try_set(:'bad');
COMMIT;
-- What is allowed.
SELECT try_set($$
lease_time = '7 days', max_runtime = '1 s', max_attempts = 2147483647, backoff_base = '0', backoff_max = '1000 years', backoff_jitter = 1, keep_dead = '1000 years'
$$);
UPDATE pgq_ext.queue SET lease_time = '1 s', max_runtime = '0', max_attempts = 1, backoff_base = '1000 years', backoff_max = '0', backoff_jitter = 0, keep_dead = '0', paused = true WHERE queue = 'hand';
UPDATE pgq_ext.queue SET lease_time = '1 min', max_attempts = 20, backoff_base = '1 s', keep_dead = '1 day', paused = false WHERE queue = 'hand';
\set VERBOSITY terse
INSERT INTO pgq_ext.queue (queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify)
SELECT 'two words', lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, keep_dead, notify FROM pgq_ext.queue WHERE queue = 'hand';

-- Jobs.
INSERT INTO pgq_ext.job (queue_id, payload, attempts) VALUES (:queue_id, '1', -1);
INSERT INTO pgq_ext.job (queue_id, payload, max_attempts) VALUES (:queue_id, '1', 0);
INSERT INTO pgq_ext.job (queue_id, payload, run_at) VALUES (:queue_id, '1', '-infinity');
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (:queue_id, NULL);
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (-1, '1');
INSERT INTO pgq_ext.job_5 (segment, queue_id, payload) VALUES (5, 2147483647, '1');
COPY pgq_ext.job (queue_id, payload) FROM stdin;
0	1
\.
UPDATE pgq_ext.job SET queue_id = 0;
UPDATE pgq_ext.job SET attempts = -5;
UPDATE pgq_ext.job SET max_attempts = -5;
UPDATE pgq_ext.job SET run_at = 'infinity';
UPDATE pgq_ext.job SET priority = -2147483648, attempts = 2147483647, max_attempts = 1;
-- A restore brings jobs before their queues, and so may replication; that nobody serves them is told.
BEGIN;
SET LOCAL check_function_bodies = off;
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (0, '1');
SET LOCAL check_function_bodies = on;
SET LOCAL session_replication_role = replica;
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (0, '2');
INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, payload)
VALUES (nextval('pgq_ext.job_id_seq'), 0, now(), now(), now(), 0, 1, 'x', '1');
SET LOCAL session_replication_role = origin;
SELECT * FROM pgq_check();
UPDATE pgq_ext.job SET queue_id = :queue_id, priority = 1 WHERE queue_id = 0;
ROLLBACK;
-- A queue of this transaction, and one that it has dropped.
BEGIN;
SELECT pgq_create_queue('mine');
SELECT queue_id AS mine FROM pgq_ext.queue WHERE queue = 'mine' \gset
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (:mine, '"mine"');
SAVEPOINT s;
SELECT pgq_drop_queue('mine', force => true);
\set VERBOSITY sqlstate
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (:mine, '"mine"');
ROLLBACK TO s;
INSERT INTO pgq_ext.job (queue_id, payload) VALUES (:mine, '"mine"');
ROLLBACK;

-- A queue that has anything in it is not deleted by hand either.
\set VERBOSITY default
DELETE FROM pgq_ext.queue WHERE queue = 'hand';
TRUNCATE pgq_ext.queue;
SELECT pgq_purge_queue('hand');
INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, payload)
VALUES (nextval('pgq_ext.job_id_seq'), :queue_id, now(), now(), now(), 0, 1, 'x', '1');
DELETE FROM pgq_ext.queue WHERE queue = 'hand';
TRUNCATE pgq_ext.queue, pgq_ext.job;
DELETE FROM pgq_ext.dead_job;
-- An empty one is: as by pgq_drop_queue, at once and for everybody.
BEGIN;
DELETE FROM pgq_ext.queue WHERE queue = 'hand' RETURNING queue;
SELECT pgq_enqueue('hand', '1');
ROLLBACK;
SELECT pgq_enqueue('hand', '2') > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('hand');
BEGIN;
SAVEPOINT s;
DELETE FROM pgq_ext.queue WHERE queue = 'hand';
ROLLBACK TO s;
SELECT pgq_enqueue('hand', '3') > 0 AS enqueued;
DELETE FROM pgq_ext.queue WHERE queue = 'hand';
ROLLBACK;
DELETE FROM pgq_ext.queue WHERE queue = 'hand';
SELECT pgq_enqueue('hand', '4');
SELECT pgq_create_queue('hand'), pgq_enqueue('hand', '5') > 0 AS enqueued;
TRUNCATE pgq_ext.queue, pgq_ext.job, pgq_ext.dead_job;
SELECT pgq_enqueue('hand', '6');
SELECT count(*) FROM pgq_ext.job;
DROP FUNCTION try_set;

-- An index of somebody's own, which keeps something in memory while a row is put in: nothing of it is left behind, and it
-- finds what is there.
SELECT pgq_create_queue('hand');
CREATE INDEX own ON pgq_ext.job USING brin (run_at, attempts) WITH (pages_per_range = 1);
CREATE INDEX own_dead ON pgq_ext.dead_job USING brin (died_at);
SELECT count(pgq_enqueue('hand', to_jsonb(i))) FROM generate_series(1, 10) i;
SELECT count(brin_summarize_new_values(relid)) FROM pg_partition_tree('pgq_ext.own') WHERE isleaf;
SELECT count(pgq_enqueue('hand', to_jsonb(i), delay => '1 day')) FROM generate_series(1, 10) i;
SELECT string_agg(pgq_fail(job_id, lease, 'x', retry => job_id % 2 = 0, retry_in => '2 days'), ',' ORDER BY job_id % 2) FROM pgq_claim('hand', 4);
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_indexscan = off;
SELECT count(*) FILTER (WHERE attempts = 1), count(*) FROM pgq_ext.job WHERE run_at > now() + '1 hour';
ROLLBACK;
DROP INDEX pgq_ext.own, pgq_ext.own_dead;
SELECT pgq_drop_queue('hand', force => true);

-- A segment is not dropped, nor taken away, with whatever is in it.
DROP TABLE pgq_ext.job_3;
\set VERBOSITY sqlstate
CREATE TABLE mine ();
DROP TABLE IF EXISTS mine, pgq_ext.dead_job_8 CASCADE;
SET search_path = pgq_ext, public;
DROP TABLE job_0;
CREATE TEMP TABLE job_0 ();
DROP TABLE job_0, mine;
RESET search_path;
ALTER TABLE pgq_ext.job DETACH PARTITION pgq_ext.job_3;
ALTER TABLE pgq_ext.job DETACH PARTITION pgq_ext.job_3 CONCURRENTLY;
DO $$ BEGIN EXECUTE 'DROP TABLE pgq_ext.job_3'; END $$;
DROP TABLE pgq_ext.job;
DROP SCHEMA pgq_ext CASCADE;
-- Who must: without its indexes it is no segment.
BEGIN;
DROP INDEX pgq_ext.job_3_by_id;
DROP TABLE pgq_ext.job_3;
ROLLBACK;
SELECT count(*) FROM pgq_ext.segment;
-- What takes all takes the segments, too.
BEGIN;
DROP EXTENSION pgq_ext;
CREATE ROLE regress_pgq_owner SUPERUSER;
SET ROLE regress_pgq_owner;
CREATE EXTENSION pgq_ext;
SELECT pgq_create_queue('hand'), pgq_enqueue('hand', '1') > 0 AS enqueued;
RESET ROLE;
DROP OWNED BY regress_pgq_owner;
SELECT count(*) FROM pg_class WHERE relname LIKE 'job%';
ROLLBACK;
