-- One row a check, in whatever state; what it says of the jobs is nothing. (The version before has no checks of rates, handlers, batches, children and topics.) (What brings each about: test/t/071_health.pl.)
SELECT pgq_create_queue('q') AS created;
SELECT "check", detail IS NOT NULL AS has_detail, hint IS NOT NULL = (status <> 'ok') AS hint_if_needed FROM pgq_ext.health WHERE "check" !~ 'snapshots|rates|handler|batches|callbacks|children|topics|watched';
SELECT pg_typeof("check"), pg_typeof(status), pg_typeof(detail), pg_typeof(hint), pg_typeof(checked_at) FROM pgq_ext.health LIMIT 1;

-- A check that fails is its own row, and the others go on.
BEGIN;
CREATE OR REPLACE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'broken' USING ERRCODE = 'XX001', HINT = 'Mend it.';
END $$;
SELECT "check", status, detail, hint FROM pgq_ext.health WHERE "check" IN ('depth', 'paused');
-- The worst comes first, and of many only some are named.
CREATE OR REPLACE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE sql AS $$
    SELECT CASE i WHEN 7 THEN 'fail' WHEN 1 THEN 'ok' ELSE 'warn' END, 'thing ' || i FROM generate_series(1, 8) i $$;
SELECT "check", status, detail FROM pgq_ext.health WHERE "check" = 'depth';
CREATE OR REPLACE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE sql AS $$ SELECT 'ok', 'worth telling' $$;
SELECT "check", status, detail, hint FROM pgq_ext.health WHERE "check" = 'depth';
ROLLBACK;
-- A cancel is one.
BEGIN;
CREATE OR REPLACE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'cancelled' USING ERRCODE = 'query_canceled';
END $$;
\set VERBOSITY terse
SELECT count(*) FROM pgq_ext.health;
\set VERBOSITY default
ROLLBACK;
-- It reads only.
BEGIN READ ONLY;
SELECT count(*) FROM pgq_ext.health WHERE "check" !~ 'rates|handler|batches|callbacks|children|topics|watched';
COMMIT;

-- Since when a queue is paused, by whatever door.
SELECT pgq_pause_queue('q');
SELECT paused_at AS since FROM pgq_ext.queue WHERE queue = 'q' \gset
SELECT pgq_pause_queue('q'), pgq_alter_queue('q', max_attempts => 3);
SELECT paused, paused_at = :'since' AS as_before FROM pgq_ext.queue WHERE queue = 'q';
SELECT pgq_resume_queue('q');
SELECT paused, paused_at FROM pgq_ext.queue WHERE queue = 'q';
UPDATE pgq_ext.queue SET paused = true WHERE queue = 'q';
SELECT paused, paused_at > :'since' AS later FROM pgq_ext.queue WHERE queue = 'q';
UPDATE pgq_ext.queue SET paused_at = clock_timestamp() - interval '2 h' WHERE queue = 'q';
SELECT status, detail ~ '^queue "q" for 02:00:0\d$' AS detail, hint ~ '^SELECT pgq_resume_queue' AS hint FROM pgq_ext.health WHERE "check" = 'paused';
UPDATE pgq_ext.queue SET paused = false WHERE queue = 'q';
SELECT status, detail, paused_at FROM pgq_ext.health, pgq_ext.queue WHERE "check" = 'paused';

-- ---- how many jobs go out before one ----
-- Memory follows what was changed by hand, and knows the jobs of a queue that was claimed from.
SELECT count(pgq_enqueue('q', '0'));
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '30 s');
SELECT count(pgq_enqueue('q', to_jsonb(i), priority => -i / 2)) FROM generate_series(1, 4) i;
SELECT payload, s.waits_for FROM pgq_ext.job_status s JOIN pgq_ext.job USING (job_id) ORDER BY payload;
SELECT payload FROM pgq_claim('q', wait => '30 s');
UPDATE pgq_ext.job SET priority = 9 WHERE payload = '4';
SELECT payload, s.waits_for FROM pgq_ext.job_status s JOIN pgq_ext.job USING (job_id) ORDER BY payload;
SELECT pgq_drop_queue('q', force => true);
SELECT pgq_create_queue('q');
SELECT count(pgq_enqueue('q', '0')) FROM generate_series(1, 1100) i;
-- The scheduler may just be reading them.
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT count(*) = 1 FROM pgq_ext.job_status WHERE waits_for = 'a worker');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT waits_for, count(*) FROM (SELECT CASE WHEN waits_for ~ '^behind \d{1,3} jobs$' THEN 'fewer' ELSE waits_for END AS waits_for FROM pgq_ext.job_status WHERE queue = 'q' AND state = 'ready') s GROUP BY 1 ORDER BY 2, 1;
SELECT pgq_drop_queue('q', force => true);
-- Whose turn it is in a queue with fair depends on who comes.
SELECT pgq_create_queue('f', fair => true);
SELECT count(pgq_enqueue('f', '1', group_key => 'g' || i % 2)) FROM generate_series(1, 4) i;
SELECT waits_for, count(*) FROM pgq_ext.job_status GROUP BY 1;
SELECT pgq_drop_queue('f', force => true);
