-- The view batch: numbers and states, who sees which batch, and the batch of a job in other views.
\set VERBOSITY terse
SELECT pgq_create_queue('view_q', max_attempts => 1, lease_time => '1 h'), pgq_create_queue('view_done');
SELECT pgq_create_batch(on_finish => '{"queue": "view_done", "payload": 1}', metadata => '{"of": "view"}') AS batch \gset
SELECT pgq_create_batch() AS empty \gset

-- ---- numbers ----
SELECT count(*) FROM pgq_enqueue_many('view_q', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'priority', -i, 'batch', :batch)) FROM generate_series(1, 8) i));
SELECT count(*) FROM pgq_enqueue_many('view_q', '[{"payload": "of no batch", "priority": -100}]');
SELECT payload, CASE payload WHEN '1' THEN pgq_ack(job_id, lease)::text WHEN '2' THEN pgq_fail(job_id, lease, 'broken') END AS answer FROM pgq_claim('view_q', 4);
SELECT batch = :batch AS is_it, total, waiting, leased, acked, dead, cancelled, expired, deleted, state, closed_at, finished_at, metadata, succeeded_at, cancelled_at,
       maker = current_user AS is_mine, next_try_at, last_error FROM pgq_ext.batch WHERE batch = :batch;
SELECT total, waiting, leased, acked, dead, cancelled, expired, deleted, state, metadata FROM pgq_ext.batch WHERE batch = :empty;
-- One snapshot, and what is undone.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT total, waiting FROM pgq_ext.batch WHERE batch = :batch;
SAVEPOINT s;
SELECT count(*) FROM pgq_enqueue_many('view_q', jsonb_build_array(jsonb_build_object('payload', 9, 'batch', :batch)));
SELECT total, waiting FROM pgq_ext.batch WHERE batch = :batch;
ROLLBACK TO s;
SELECT total, waiting FROM pgq_ext.batch WHERE batch = :batch;
COMMIT;
SELECT pgq_redrive('view_q');
SELECT waiting, dead FROM pgq_ext.batch WHERE batch = :batch;
-- Members that have ended in another way, as their notes say (see src/rows/batch_note.h).
BEGIN;
INSERT INTO pgq_ext.batch_note SELECT :batch, what, n FROM (VALUES (1, 64), (2, 3), (3, 1), (4, 2), (5, 4), (6, 8), (7, 16), (8, 32)) v (what, n);
SELECT total, waiting, leased, acked, dead, cancelled, expired, deleted FROM pgq_ext.batch WHERE batch = :batch;
-- more ends than members are known of: by SQL
INSERT INTO pgq_ext.batch_note VALUES (:batch, 7, 5);
SELECT acked FROM pgq_ext.batch WHERE batch = :batch;
ROLLBACK;

-- ---- states ----
SELECT pgq_close_batch(:batch);
SELECT state, closed_at >= created_at AS is_closed FROM pgq_ext.batch WHERE batch = :batch;
BEGIN;
UPDATE pgq_ext.job_batch SET finished_at = closed_at + interval '3 s', failed_at = closed_at + interval '1 s', succeeded_at = closed_at + interval '4 s', cancelled_at = closed_at + interval '2 s', due_at = closed_at + interval '5 s', last_error = 'no such queue' WHERE batch_id = :batch;
SELECT state, finished_at - closed_at AS finished, failed_at - closed_at AS failed, succeeded_at - closed_at AS succeeded, cancelled_at - closed_at AS cancelled, next_try_at - closed_at AS next, last_error FROM pgq_ext.batch WHERE batch = :batch;
ROLLBACK;

-- ---- in other views ----
SELECT s.payload, v.batch = :batch AS is_it FROM pgq_ext.job_status v JOIN pgq_ext.job s USING (job_id) WHERE queue LIKE 'view%' ORDER BY s.priority DESC;
SELECT count(pgq_fail(job_id, lease, 'broken')) FROM pgq_claim('view_q', 100);
SELECT payload, batch = :batch AS is_it FROM pgq_ext.dead_letter WHERE queue = 'view_q' ORDER BY job_id;
SELECT pgq_ext.batch_of(r) FROM (SELECT 'text' AS batch_id, 1 AS n) r;
SELECT pgq_ext.batch_of(r) FROM (SELECT 1 AS n, 7::bigint AS batch_id) r;
SELECT pgq_ext.batch_of(NULL::pgq_ext.job);

-- ---- plans: a batch is found by its index, and its members are counted only for a query that reads the numbers ----
CREATE FUNCTION in_plan(query text, pattern text, OUT n bigint) LANGUAGE plpgsql AS $$
DECLARE
    plan text := '';
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        plan := plan || line || E'\n';
    END LOOP;
    n := (SELECT count(*) FROM regexp_matches(plan, pattern, 'g'));
END $$;
SET enable_seqscan = off;
SELECT in_plan('SELECT state FROM pgq_ext.batch WHERE batch = 1', 'Index Scan using job_batch_pkey on pgq_ext.job_batch b\n.*\n +Index Cond: \(b.batch_id = 1\)') AS by_index;
RESET enable_seqscan;
\set call '''pgq_ext\\.members_of\\('''
SELECT in_plan('SELECT state, created_at FROM pgq_ext.batch', :call) AS none, in_plan('SELECT total, waiting, leased, acked, dead, deleted FROM pgq_ext.batch WHERE batch = 1', :call) AS once, in_plan('TABLE pgq_ext.batch', :call) AS also_once;

-- ---- readers ----
CREATE ROLE regress_pgq_maker;
CREATE ROLE regress_pgq_colleague IN ROLE regress_pgq_maker;
CREATE ROLE regress_pgq_other;
CREATE ROLE regress_pgq_watcher IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_maker, regress_pgq_other;
GRANT EXECUTE ON FUNCTION pgq_create_batch TO regress_pgq_maker;
SET ROLE regress_pgq_maker;
SELECT pgq_create_batch(metadata => '"secret"') AS theirs \gset
SELECT state FROM pgq_ext.batch;
RESET ROLE;
INSERT INTO pgq_ext.job (queue_id, payload, batch_id) SELECT queue_id, '1', :theirs FROM pgq_ext.queue WHERE queue = 'view_q';
GRANT SELECT ON pgq_ext.batch TO regress_pgq_maker, regress_pgq_other;
CREATE FUNCTION seen() RETURNS TABLE (n bigint, of_maker bigint, metadata text, waiting bigint, direct bigint) LANGUAGE sql AS $$
    SELECT count(*), count(*) FILTER (WHERE maker = 'regress_pgq_maker'), string_agg(metadata::text, ' ' ORDER BY metadata::text), sum(waiting),
           count(*) FILTER (WHERE pgq_ext.members_of(batch) IS NOT NULL) FROM pgq_ext.batch $$;
SELECT * FROM seen();
SET ROLE regress_pgq_maker;
SELECT * FROM seen();
SELECT pgq_ext.members_of(:batch) AS of_another, (pgq_ext.members_of(:theirs)).live AS own, pgq_ext.members_of(1) AS none;
SET ROLE regress_pgq_colleague;
SELECT * FROM seen();
SET ROLE regress_pgq_watcher;
SELECT * FROM seen();
SET ROLE regress_pgq_other;
SELECT * FROM seen();
SELECT pgq_ext.members_of(:theirs);
SELECT pgq_ext.is_in_work(1);
RESET ROLE;
REVOKE SELECT ON pgq_ext.batch FROM regress_pgq_other;
SET ROLE regress_pgq_other;
SELECT pgq_ext.members_of(:theirs);
RESET ROLE;
-- A condition of the reader sees no batch that the reader may not.
GRANT SELECT ON pgq_ext.batch TO regress_pgq_other;
CREATE FUNCTION leak(text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
SET ROLE regress_pgq_other;
SELECT count(*) FROM pgq_ext.batch WHERE leak(metadata::text);
RESET ROLE;
-- A maker that is unknown here: only the owner and pg_monitor see the batch.
UPDATE pgq_ext.job_batch SET maker = NULL, maker_name = 'regress_pgq_gone' WHERE batch_id = :theirs;
SET ROLE regress_pgq_maker;
SELECT * FROM seen();
SELECT pgq_ext.members_of(:theirs);
RESET ROLE;
SELECT maker, waiting FROM pgq_ext.batch WHERE batch = :theirs;

-- ---- health ----
SELECT "check", status, detail, hint FROM pgq_ext.health WHERE "check" IN ('batches', 'callbacks');
BEGIN;
UPDATE pgq_ext.job_batch SET failures = 3, last_error = 'no' WHERE batch_id = :empty;
SELECT "check", status, replace(detail, :'empty', 'N') AS detail, hint FROM pgq_ext.health WHERE "check" = 'callbacks';
-- one that can get no callback any more
UPDATE pgq_ext.job_batch SET pending = false WHERE batch_id = :empty;
SELECT "check", status, detail FROM pgq_ext.health WHERE "check" = 'callbacks';
ROLLBACK;
BEGIN;
UPDATE pgq_ext.job_batch SET created_at = clock_timestamp() - interval '25 h';
SELECT "check", status, regexp_replace(replace(detail, :'empty', 'N'), '\d\d:\d\d:\d\d', 'TIME') AS detail, hint FROM pgq_ext.health WHERE "check" = 'batches';
UPDATE pgq_ext.job_batch SET closed_at = clock_timestamp() - interval '6 min' WHERE batch_id = :empty;
SELECT "check", status, regexp_replace(replace(detail, :'empty', 'N'), '\d\d:\d\d:\d\d', 'TIME') AS detail FROM pgq_ext.health WHERE "check" = 'batches';
-- what is said of a callback is said once
UPDATE pgq_ext.job_batch SET last_error = 'no' WHERE batch_id = :empty;
SELECT "check", status, detail FROM pgq_ext.health WHERE "check" = 'batches';
UPDATE pgq_ext.job_batch SET last_error = NULL, finished_at = clock_timestamp() WHERE batch_id = :empty;
SELECT "check", status, detail FROM pgq_ext.health WHERE "check" = 'batches';
UPDATE pgq_ext.job_batch SET finished_at = NULL, restored = true WHERE batch_id = :empty;
SELECT "check", status, detail FROM pgq_ext.health WHERE "check" = 'batches';
ROLLBACK;

-- ---- pgq_check ----
SELECT * FROM pgq_check();
BEGIN;
INSERT INTO pgq_ext.batch_note VALUES (1, 1, 1), (2, 1, 1);
SELECT * FROM pgq_check() WHERE pgq_check ~ 'batch';
ALTER TABLE pgq_ext.job_batch DISABLE TRIGGER USER;
DELETE FROM pgq_ext.job_batch;
SELECT count(*) FILTER (WHERE pgq_check ~ '^\d+ dead letters are members of batches that do not exist') AS dead, count(*) FILTER (WHERE pgq_check ~ '^\d+ jobs are members of batches that do not exist') AS live,
       count(*) FILTER (WHERE pgq_check ~ '^\d+ notes are about batches that do not exist') AS notes FROM pgq_check() WHERE pgq_check ~ 'batch';
ROLLBACK;

SELECT pgq_drop_queue('view_q', force => true), pgq_drop_queue('view_done', force => true);
UPDATE pgq_ext.job_batch SET pending = false;
DELETE FROM pgq_ext.job_batch;
DELETE FROM pgq_ext.batch_note;
DROP FUNCTION in_plan, seen, leak;
DROP OWNED BY regress_pgq_maker, regress_pgq_colleague, regress_pgq_other, regress_pgq_watcher;
DROP ROLE regress_pgq_colleague, regress_pgq_maker, regress_pgq_other, regress_pgq_watcher;
