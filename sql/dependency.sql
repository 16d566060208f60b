-- Dependencies between jobs: the enqueue of children, and blocked jobs.
\set VERBOSITY terse
SELECT pgq_create_queue('dep_q'), pgq_create_queue('dep_kept', keep_finished => '1 hour'), pgq_create_queue('dep_fifo', fifo => true);
CREATE FUNCTION pg_temp.deps() RETURNS TABLE (parent jsonb, child jsonb, on_failure smallint, ref text) LANGUAGE sql AS $$
    SELECT p.payload, c.payload, d.on_failure, d.ref FROM pgq_ext.job_dependency d
    LEFT JOIN pgq_ext.job p ON p.job_id = d.parent_id LEFT JOIN pgq_ext.job c ON c.job_id = d.child_id ORDER BY d.child_id, d.parent_id $$;

-- The error of a call, without ids.
CREATE FUNCTION pg_temp.error_of(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'none';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '\mjob \d+', 'job N');
END $$;

-- ---- one child ----
SELECT pgq_enqueue('dep_q', '"parent"') AS parent
\gset
SELECT pgq_enqueue('dep_q', '"child"', after => ARRAY[:parent, :parent], delay => '1 hour', on_parent_failure => 'hold', priority => 9) AS child
\gset
SELECT payload, blocked, parents, run_at = '9999-12-01 UTC' AS is_far FROM pgq_ext.job WHERE job_id IN (:parent, :child) ORDER BY job_id;
SELECT * FROM pg_temp.deps();
SELECT ready, scheduled, blocked, leased FROM pgq_ext.queue_status WHERE queue = 'dep_q';
-- No claim gets it, whatever its priority, nor when a row is due of which no trigger has known.
SELECT payload FROM pgq_claim('dep_q', 5);
SET session_replication_role = replica;
ALTER TABLE pgq_ext.job DISABLE TRIGGER job_fence;
UPDATE pgq_ext.job SET run_at = '2001-01-01' WHERE job_id = :child;
ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_fence;
SELECT payload FROM pgq_claim('dep_q', 5);
UPDATE pgq_ext.job SET run_at = '9999-12-01 UTC' WHERE job_id = :child;
RESET session_replication_role;
SELECT * FROM pgq_check();

-- ---- what can be done with a blocked job ----
SELECT state, waits_for = format('the end of job %s (in work)', :parent) AS names_parent FROM pgq_ext.job_status WHERE job_id = :child;
SELECT step, detail = format('waits for the end of job %s (in work)', :parent) AS names_parent FROM pgq_explain(:child);
SELECT state FROM pgq_result(:child);
SELECT pgq_retry(:child);
SELECT pgq_update(:child, priority => 3, payload => '"changed"');
SELECT pg_temp.error_of(format($$pgq_update(%s, run_at => '2030-01-01')$$, :child));
SELECT pgq_update(:child, queue => 'dep_kept');
SELECT queue, payload, priority, blocked, parents, run_at = '9999-12-01 UTC' AS is_far FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE job_id = :child;
SELECT pgq_cancel(:child);
SELECT outcome, parents FROM pgq_ext.finished_job WHERE job_id = :child;

-- ---- bad values ----
DO $$
DECLARE
    call text;
BEGIN
    FOREACH call IN ARRAY ARRAY[
        $c$pgq_enqueue('dep_q', '1', after => '{1,NULL}')$c$, $c$pgq_enqueue('dep_q', '1', after => '{{1},{2}}')$c$,
        $c$pgq_enqueue('dep_q', '1', after => '{-1}')$c$, $c$pgq_enqueue('dep_q', '1', after => '{99999999}')$c$,
        $c$pgq_enqueue('dep_q', '1', on_parent_failure => 'run')$c$, $c$pgq_enqueue('dep_q', '1', after => '{1}', on_parent_failure => 'walk')$c$,
        $c$pgq_enqueue('dep_q', '1', after => '{1}', run_at => now())$c$,
        $c$pgq_enqueue('dep_q', '1', after => (SELECT array_agg(i) FROM generate_series(1, 1001) i))$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "after": 1}]')$c$, $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "after": [true]}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "after": [1.5]}]')$c$, $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "after": ["nobody"]}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "ref": ""}]')$c$, $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "ref": 1}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "ref": "a"}, {"payload": 2, "ref": "a"}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "ref": "a", "after": ["a"]}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "ref": "a", "after": ["b"]}, {"payload": 2, "ref": "b", "after": ["c"]}, {"payload": 3, "ref": "c", "after": ["a"]}]')$c$,
        $c$pgq_enqueue_many('dep_q', '[{"payload": 1, "after": [99999999]}]')$c$,
        $c$pgq_create_batch('{"queue": "dep_q", "payload": 1, "after": [1]}')$c$,
        $c$pgq_schedule('dep_s', '* * * * *', 'dep_q', '1', options => '{"ref": "a"}')$c$]
    LOOP
        BEGIN
            EXECUTE 'SELECT ' || call;
            RAISE NOTICE 'no error: %', call;
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE '% %', SQLSTATE, SQLERRM;
        END;
    END LOOP;
END $$;
SELECT count(*) FROM pgq_ext.job_dependency d WHERE NOT EXISTS (SELECT FROM pgq_ext.finished_job f WHERE f.job_id = d.child_id);
-- An empty list is no list.
SELECT pgq_enqueue('dep_q', '"no parents"', after => '{}', on_parent_failure => 'run') AS free
\gset
SELECT blocked, parents FROM pgq_ext.job WHERE job_id = :free;
SELECT pgq_cancel(:free);

-- ---- a graph in one call: the answer has the order of the array, the ids have that of the graph ----
CREATE TABLE dep_ids AS SELECT ordinality AS n, id FROM pgq_enqueue_many('dep_fifo', '[
    {"payload": "last", "group_key": "g", "after": ["left", "right"], "delay": "2 s"},
    {"payload": "left", "group_key": "g", "ref": "left", "after": ["first"], "on_parent_failure": "run"},
    {"payload": "right", "group_key": "g", "ref": "right", "after": ["first", "first"], "unique_key": "r"},
    {"payload": "alone", "group_key": "g"},
    {"payload": "first", "group_key": "g", "ref": "first"}]') WITH ORDINALITY AS t (id, ordinality);
SELECT n, payload, rank() OVER (ORDER BY id), blocked, parents FROM dep_ids JOIN pgq_ext.job ON job_id = id ORDER BY n;
SELECT * FROM pg_temp.deps() WHERE child IN ('"last"', '"left"', '"right"');
-- The first job of the group is the parent of all.
SELECT payload FROM pgq_claim('dep_fifo', 5);

-- ---- parents that have ended ----
SELECT pgq_enqueue('dep_kept', '"acked"') AS acked, pgq_enqueue('dep_kept', '"cancelled"') AS cancelled, pgq_enqueue('dep_q', '"dead"') AS dead, pgq_enqueue('dep_q', '"lost"') AS lost
\gset
SELECT count(pgq_ack(job_id, lease, '{"n": 1}')) FROM pgq_claim('dep_kept', 1);
SELECT pgq_cancel(:cancelled);
SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('dep_q', 1);
SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('dep_q', 1);
SELECT count(pgq_enqueue('dep_q', '"late"', after => ARRAY[:acked, :cancelled, :dead])) FROM generate_series(1, 2);
SELECT CASE job_id WHEN :acked THEN 'acked' WHEN :cancelled THEN 'cancelled' END AS job, outcome, result FROM pgq_ext.job_outcome WHERE job_id IN (:acked, :cancelled) ORDER BY job_id;
-- Nothing says what became of this one.
SELECT pg_temp.error_of(format($$pgq_enqueue('dep_q', '"too late"', after => '{%s}')$$, :lost));

-- ---- parents that this transaction has ended ----
SELECT pgq_enqueue('dep_q', '"own ack"') AS ack, pgq_enqueue('dep_q', '"own cancel"') AS cancel, pgq_enqueue('dep_q', '"own delete"') AS delete
\gset
BEGIN;
SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('dep_q', 1);
SELECT pgq_cancel(:cancel);
DELETE FROM pgq_ext.job WHERE job_id = :delete;
SELECT count(pgq_enqueue('dep_q', '"after own"', after => ARRAY[:ack, :cancel, :delete]));
COMMIT;
SELECT CASE job_id WHEN :ack THEN 'ack' WHEN :cancel THEN 'cancel' WHEN :delete THEN 'delete' END AS job, outcome FROM pgq_ext.job_outcome WHERE job_id IN (:ack, :cancel, :delete) ORDER BY job_id;
-- All in one statement.
SELECT pgq_enqueue('dep_q', '"one"') AS one
\gset
SELECT pgq_ack(job_id, lease), pgq_enqueue('dep_q', '"in one"', after => ARRAY[job_id]) IS NOT NULL AS enqueued FROM pgq_claim('dep_q', 1);
SELECT outcome FROM pgq_ext.job_outcome WHERE job_id = :one;
-- Inserted by the same transaction.
BEGIN;
SELECT pgq_enqueue('dep_q', '"same"') AS same
\gset
SELECT pgq_enqueue('dep_q', '"same child"', after => ARRAY[:same]) IS NOT NULL AS enqueued;
COMMIT;
SELECT count(*) FROM pgq_ext.job_outcome WHERE job_id = :same;

-- ---- unique keys ----
SELECT pgq_enqueue('dep_q', '"keyed"', unique_key => 'k') AS keyed
\gset
SELECT pg_temp.error_of(format($$pgq_enqueue('dep_q', '"keyed child"', unique_key => 'k', after => '{%s}', on_conflict => %L)$$, :same, c)) FROM unnest('{keep,replace,error}'::text[]) c;
SELECT pgq_enqueue('dep_q', '"keyed child"', unique_key => 'c', after => ARRAY[:same], delay => '3 s') AS kc
\gset
-- A request that meets a blocked job changes it, and leaves it blocked.
SELECT pgq_enqueue('dep_q', '"replaced"', unique_key => 'c', on_conflict => 'replace') = :kc AS same_job;
SELECT payload, blocked, parents, run_at = '9999-12-01 UTC' AS is_far FROM pgq_ext.job WHERE job_id = :kc;
-- A parent with a key may be a job that was there before.
SELECT array_agg(id ORDER BY n) AS ids FROM pgq_enqueue_many('dep_q', '[{"payload": "c", "after": ["p"]}, {"payload": "p", "ref": "p", "unique_key": "k"}]') WITH ORDINALITY t (id, n)
\gset
SELECT (:'ids'::bigint[])[2] = :keyed AS met, parent_id = :keyed AS depends, ref FROM pgq_ext.job_dependency WHERE child_id = (:'ids'::bigint[])[1];

-- ---- purge, depth ----
SELECT pgq_create_queue('dep_full', max_depth => 1);
SELECT pgq_enqueue('dep_full', '1', after => ARRAY[:same]) IS NOT NULL AS enqueued;
SELECT pgq_enqueue('dep_full', '2');
SELECT pgq_purge_queue('dep_full');
SELECT * FROM pgq_check();

-- ---- rights: a parent that the caller may not ask for is no parent ----
CREATE ROLE regress_dep;
GRANT EXECUTE ON FUNCTION pgq_enqueue TO regress_dep;
SELECT pgq_grant('dep_q', 'regress_dep', '{enqueue}');
SET ROLE regress_dep;
\set VERBOSITY sqlstate
SELECT pgq_enqueue('dep_q', '"foreign"', after => ARRAY[:same]);
\set VERBOSITY terse
RESET ROLE;
SELECT pgq_grant('dep_q', 'regress_dep', '{inspect}');
SET ROLE regress_dep;
SELECT pgq_enqueue('dep_q', '"permitted"', after => ARRAY[:same]) IS NOT NULL AS enqueued;
SELECT count(*) FROM pgq_ext.job_dependency;
SELECT count(*) FROM pgq_ext.job_outcome;
RESET ROLE;

SELECT pgq_drop_queue(q, force => true) FROM unnest('{dep_q,dep_kept,dep_fifo,dep_full}'::text[]) q;
DROP OWNED BY regress_dep;
DROP ROLE regress_dep;
DELETE FROM pgq_ext.job_dependency;
DELETE FROM pgq_ext.job_outcome;
DROP TABLE dep_ids;
