-- Jobs by their ids: pgq_finish and pgq_ext.lease_of.
SELECT pgq_create_queue('by_id', keep_finished => '1 day', log_attempts => 'all');
SELECT pgq_enqueue('by_id', to_jsonb(n)) AS job FROM generate_series(1, 6) n \gset ignored_
CREATE TEMP TABLE job AS SELECT job_id, payload::text AS n FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id) WHERE q.queue = 'by_id';
CREATE FUNCTION pg_temp.ids(VARIADIC numbers text[]) RETURNS bigint[] LANGUAGE sql AS
'SELECT array_agg(job_id) FROM pg_temp.job WHERE n = ANY (numbers)';

-- Jobs in work, and jobs that wait. Ids that are listed twice, that are unknown, and the order.
SELECT attempt FROM pgq_claim('by_id', 2);
SELECT n, f = job_id AS ordered FROM unnest(ARRAY(SELECT pgq_finish(pg_temp.ids('3', '1') || pg_temp.ids('1') || 1234567890123))) WITH ORDINALITY AS f(f, i)
    JOIN (SELECT job_id, n, row_number() OVER (ORDER BY job_id) AS i FROM job WHERE n IN ('1', '3')) AS j USING (i);
SELECT payload, outcome, worker IS NULL AS no_worker FROM pgq_ext.finished_job ORDER BY payload;
SELECT attempt, outcome FROM pgq_ext.attempt ORDER BY job_id;
SELECT handed_out, acked, cancelled FROM pgq_ext.queue_stats WHERE queue = 'by_id';
SELECT pgq_finish(pg_temp.ids('1', '3'));

-- A rollback gives everything back: the job in work stays with its worker.
BEGIN;
SELECT n FROM pgq_finish(pg_temp.ids('2', '4')) f(job_id) JOIN job USING (job_id) ORDER BY n;
SELECT count(*) FROM pgq_ext.job WHERE job_id = ANY (pg_temp.ids('2', '4'));
SELECT pgq_extend(job_id, lease) FROM pgq_ext.lease WHERE queue = 'by_id';
ROLLBACK;
SELECT n, state FROM pgq_ext.job_status JOIN job USING (job_id) ORDER BY n;

-- A rollback of a subtransaction, and both verbs in one transaction.
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM pgq_finish(pg_temp.ids('4'));
ROLLBACK TO s;
SELECT pgq_cancel(job_id) FROM job WHERE n = '4';
SELECT count(*) FROM pgq_finish(pg_temp.ids('4'));
COMMIT;

-- Scheduled and blocked jobs, and dead letters. The children of a finished job run.
SELECT pgq_enqueue('by_id', '"later"', delay => '1 hour') AS later \gset
SELECT pgq_enqueue('by_id', '"child"', after => ARRAY[:later]) AS child \gset
SELECT pgq_enqueue('by_id', '"grandchild"', after => ARRAY[:child]) AS grandchild \gset
SELECT count(*) FROM pgq_finish(ARRAY[:grandchild]);
SELECT count(*) FROM pgq_finish(ARRAY[:later]);
SELECT pgq_enqueue('by_id', '"bad"', priority => 9, max_attempts => 1) AS bad \gset
SELECT pgq_fail(job_id, lease) FROM pgq_claim('by_id') WHERE job_id = :bad;
SELECT pgq_finish(ARRAY[:bad]);
SELECT (pgq_result(:bad)).state;
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT state = 'ready' FROM pgq_ext.job_status WHERE job_id = (SELECT job_id FROM pgq_ext.job WHERE payload = '"child"'));
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT state FROM pgq_ext.job_status WHERE job_id = :child;
SELECT state FROM pgq_result(:later);

-- Lists.
SELECT count(*) FROM pgq_finish(NULL);
SELECT count(*) FROM pgq_finish('{}');
SELECT pgq_finish('{1,NULL}');
SELECT pgq_finish(array_fill(1::bigint, '{10001}'));

-- The lease of one job.
SELECT l.job_id = j.job_id AS same_job, l.lease > 0 AS has_token, state, attempt, worker IS NOT NULL AS named, pid = pg_backend_pid() AS mine,
       lease_expires_at - claimed_at AS time, in_transaction, session_bound
FROM job j, pgq_ext.lease_of(j.job_id) l WHERE n = '2';
SELECT count(*) FROM job j, pgq_ext.lease_of(j.job_id) WHERE n <> '2';
SELECT pgq_ext.lease_of(NULL);
BEGIN;
SELECT n FROM pgq_claim('by_id') JOIN job USING (job_id);
SELECT n, in_transaction FROM job j, pgq_ext.lease_of(j.job_id) ORDER BY n;
COMMIT;

-- Rights: as for pgq_cancel, and as for the view of leases.
CREATE ROLE regress_pgq_by_id;
GRANT EXECUTE ON FUNCTION pgq_finish TO regress_pgq_by_id;
SELECT pgq_grant('by_id', 'regress_pgq_by_id', '{claim}');
GRANT SELECT ON job TO regress_pgq_by_id;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_by_id;
SET ROLE regress_pgq_by_id;
SELECT count(*) FROM pgq_finish(ARRAY(SELECT job_id FROM job));
SELECT pgq_ext.lease_of(1);
RESET ROLE;
SELECT pgq_grant('by_id', 'regress_pgq_by_id', '{admin}');
GRANT SELECT ON pgq_ext.lease TO regress_pgq_by_id;
SET ROLE regress_pgq_by_id;
SELECT count(*) FROM job j, pgq_ext.lease_of(j.job_id);
SELECT count(*) FROM pgq_finish(ARRAY(SELECT job_id FROM job));
RESET ROLE;
SELECT pgq_revoke('by_id', 'regress_pgq_by_id', '{claim,admin}');
DROP OWNED BY regress_pgq_by_id;
DROP ROLE regress_pgq_by_id;

SELECT pgq_check();
SELECT pgq_drop_queue('by_id', force => true);

-- ---- the jobs of a queue, page by page ----
SET client_min_messages = warning;
SELECT pgq_create_queue('pages'), pgq_create_queue('other_pages');
SELECT count(pgq_enqueue('pages', '1', unique_key => 'k' || i, priority => i % 3)) FROM generate_series(1, 9) i;
SELECT pgq_enqueue('other_pages', '1') > 0;
SELECT queue_id AS pages FROM pgq_ext.queue WHERE queue = 'pages' \gset
SELECT f.unique_key, f.priority, f.attempts FROM pgq_ext.first_jobs(:pages, 4) WITH ORDINALITY f ORDER BY f.ordinality;
SELECT priority, run_at, job_id FROM pgq_ext.first_jobs(:pages, 4) OFFSET 3 \gset last_
SELECT array_agg(f.unique_key ORDER BY f.ordinality) FROM pgq_ext.first_jobs(:pages, 4, :last_priority, :'last_run_at', :last_job_id) WITH ORDINALITY f;
SELECT array_agg(f.job_id ORDER BY f.ordinality) = (SELECT array_agg(j.job_id ORDER BY j.priority DESC, j.run_at, j.job_id) FROM pgq_ext.job j WHERE queue_id = :pages) AS in_order
FROM pgq_ext.first_jobs(:pages, 100) WITH ORDINALITY f;
SELECT count(*) FROM pgq_ext.first_jobs(-1, 100);
SELECT pgq_ext.first_jobs(:pages, 0);
SELECT pgq_ext.first_jobs(:pages, 10001);
SELECT pgq_ext.first_jobs(NULL, 1);
SELECT pgq_ext.first_jobs(:pages, 1, 0);
-- Its rights are those of the view job_status.
CREATE ROLE regress_pgq_pages;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_pages;
SET ROLE regress_pgq_pages;
SELECT count(*) FROM pgq_ext.first_jobs(:pages, 100);
RESET ROLE;
GRANT SELECT ON pgq_ext.job_status TO regress_pgq_pages;
SET ROLE regress_pgq_pages;
SELECT count(*) FROM pgq_ext.first_jobs(:pages, 100);
RESET ROLE;
SELECT pgq_grant('pages', 'public', '{enqueue}');
SET ROLE regress_pgq_pages;
SELECT count(*) FROM pgq_ext.first_jobs(:pages, 100);
RESET ROLE;
SELECT pgq_grant('pages', 'regress_pgq_pages', '{inspect}');
SET ROLE regress_pgq_pages;
SELECT count(*) FROM pgq_ext.first_jobs(:pages, 100);
RESET ROLE;
SELECT pgq_drop_queue('pages', force => true), pgq_drop_queue('other_pages', force => true);
DROP OWNED BY regress_pgq_pages;
DROP ROLE regress_pgq_pages;
RESET client_min_messages;
