-- Parents and children: what becomes of a child, and what pgq_parents tells it.
SELECT pgq_create_queue('parent_q', lease_time => '1 h', max_attempts => 1), pgq_create_queue('child_q', lease_time => '1 h'), pgq_create_queue('parent_gone');
-- Waits until the scheduler has judged all children: none is blocked any more but these many.
CREATE PROCEDURE pg_temp.judged(blocked_jobs bigint = 0) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 3000 LOOP
        IF (SELECT count(*) FROM pgq_ext.job WHERE blocked IS NOT NULL) = blocked_jobs THEN RETURN; END IF;
        COMMIT;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RAISE 'children are still blocked';
END $$;

-- ---- a graph: results flow from parent to child ----
SELECT count(*) FROM pgq_enqueue_many('parent_q', '[
    {"payload": "pay", "ref": "pay"}, {"payload": "pack", "ref": "pack"},
    {"payload": "ship", "ref": "ship", "after": ["pay", "pack"]}, {"payload": "tell", "after": ["ship"], "on_parent_failure": "run"}]');
SELECT payload, blocked IS NOT NULL AS blocked, parents FROM pgq_ext.job ORDER BY job_id;
SELECT payload, pgq_ack(job_id, lease, jsonb_build_object('done', payload)) FROM pgq_claim('parent_q', 10);
CALL pg_temp.judged(1);
SELECT job_id AS job, lease, payload FROM pgq_claim('parent_q', 10) \gset
SELECT :'payload' AS payload;
SELECT ref, state, result, error FROM pgq_parents(:job, :lease);
SELECT pgq_fail(:job, :lease, 'no van');
CALL pg_temp.judged();
SELECT job_id AS job, lease, payload FROM pgq_claim('parent_q', 10) \gset
SELECT :'payload' AS payload;
SELECT ref, state, result, error FROM pgq_parents(:job, :lease);
-- The dead letter is redriven, and deleted, while the child is in work.
SELECT pgq_redrive('parent_q');
SELECT ref, state, result, error FROM pgq_parents(:job, :lease);
SELECT pgq_fail(job_id, lease, 'still no van') FROM pgq_claim('parent_q');
SELECT pgq_cancel(job_id) FROM pgq_ext.dead_job;
SELECT ref, state, result, error FROM pgq_parents(:job, :lease);
SELECT pgq_ack(:job, :lease);

-- ---- who may ask ----
SELECT pgq_enqueue('child_q', '"no parents"') AS alone \gset
SELECT lease FROM pgq_claim('child_q') \gset
SELECT * FROM pgq_parents(:alone, :lease);
\set VERBOSITY sqlstate
SELECT * FROM pgq_parents(:alone, :lease + 1);
SELECT * FROM pgq_parents(NULL, :lease);
SELECT * FROM pgq_parents(:alone, NULL);
SELECT pgq_ack(:alone, :lease);
SELECT * FROM pgq_parents(:alone, :lease);
\set VERBOSITY default

-- ---- delay counts from the end of the parents ----
SELECT pgq_enqueue('parent_q', '"first"') AS first \gset
SELECT pgq_enqueue('child_q', '"later"', after => ARRAY[:first], delay => '1 day') AS later \gset
SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('parent_q');
CALL pg_temp.judged();
SELECT blocked, run_at > clock_timestamp() + '23 h' AS tomorrow, run_at < clock_timestamp() + '25 h' AS not_later FROM pgq_ext.job WHERE job_id = :later;
SELECT pgq_update(:later, run_at => '2001-01-01');
SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('child_q');

-- ---- a rollback ends nothing ----
SELECT pgq_enqueue('parent_q', '"kept"') AS kept \gset
SELECT pgq_enqueue('child_q', '"child"', after => ARRAY[:kept]) AS child \gset
BEGIN;
SELECT pgq_cancel(:kept);
SELECT outcome FROM pgq_ext.job_outcome WHERE job_id = :kept;
SAVEPOINT s;
ROLLBACK;
BEGIN;
SAVEPOINT s;
DELETE FROM pgq_ext.job WHERE job_id = :kept;
SELECT outcome FROM pgq_ext.job_outcome WHERE job_id = :kept;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM pgq_ext.job_outcome WHERE job_id = :kept;
-- A job that is moved, or deleted and inserted again, has no outcome.
UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id = :kept;
SELECT count(*) FROM pgq_ext.job_outcome WHERE job_id = :kept;
BEGIN;
CREATE TEMP TABLE copy AS SELECT * FROM pgq_ext.job WHERE job_id = :kept;
DELETE FROM pgq_ext.job WHERE job_id = :kept;
SELECT outcome FROM pgq_ext.job_outcome WHERE job_id = :kept;
INSERT INTO pgq_ext.job (job_id, queue_id, enqueued_at, payload) SELECT job_id, queue_id, enqueued_at, payload FROM copy;
COMMIT;
SELECT count(*) FROM pgq_ext.job_outcome WHERE job_id = :kept;
SELECT blocked IS NOT NULL AS blocked FROM pgq_ext.job WHERE job_id = :child;
SELECT pgq_update(:kept, queue => 'parent_gone');
SELECT count(*) FROM pgq_ext.job_outcome WHERE job_id = :kept;
BEGIN;
SELECT pgq_drop_queue('parent_gone', force => true);
SELECT outcome FROM pgq_ext.job_outcome WHERE job_id = :kept;
COMMIT;
CALL pg_temp.judged();
SELECT count(*) FROM pgq_ext.job WHERE job_id = :child;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('parent_q', force => true), pgq_drop_queue('child_q', force => true);
DELETE FROM pgq_ext.job_dependency;
DELETE FROM pgq_ext.job_outcome;
