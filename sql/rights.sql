-- EXECUTE is the one right, where a queue has none of its own (grants.sql): without it nothing goes, with it everything, whatever else the role may or may not do.
CREATE ROLE regress_pgq_user;
SELECT pgq_create_queue('q'), pgq_enqueue('q', '"admin"') > 0 AS enqueued;

-- Nothing without it.
\set VERBOSITY terse
SET ROLE regress_pgq_user;
SELECT pgq_create_queue('mine');
SELECT pgq_drop_queue('q');
SELECT pgq_purge_queue('q');
SELECT pgq_enqueue('q', '1');
SELECT pgq_enqueue_many('q', '[]');
SELECT pgq_claim('q');
SELECT pgq_claim_any('{q}');
SELECT pgq_ack(1, 1);
SELECT pgq_ack_many('{}', '{}');
SELECT pgq_fail(1, 1);
SELECT pgq_extend(1, 1);
SELECT pgq_lock('l');
SELECT pgq_extend_lock('l', 1);
SELECT pgq_unlock('l', 1);
SELECT pgq_assert_lock('l', 1);
SELECT pgq_run_once('r');
SELECT pgq_run_done('r', 1);
SELECT pgq_create_rate('r', 1, '1 s');
SELECT pgq_drop_rate('r');
SELECT pgq_take('r');
TABLE pgq_ext.held_lock;
SELECT pgq_schedule('s', '@daily', 'q');
SELECT pgq_unschedule('s');
SELECT pgq_schedule_preview('@daily');
SELECT pgq_grant('q', 'regress_pgq_user', '{admin}');
SELECT pgq_revoke('q', 'regress_pgq_user', '{admin}');
TABLE pgq_ext.job;
TABLE pgq_ext.schedule;
SELECT pgq_ext.announce();
RESET ROLE;
-- Who may make schedules needs to be one who may enqueue.
GRANT EXECUTE ON FUNCTION pgq_schedule TO regress_pgq_user;
SET ROLE regress_pgq_user;
\set VERBOSITY default
SELECT pgq_schedule('s', '@daily', 'q');
RESET ROLE;

-- With it: no right on schema, tables, sequences or views is needed.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'pgq\_%' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO regress_pgq_user', f);
    END LOOP;
END $$;

-- The caller's search_path leads to nothing of the caller's: each of these would stop or fool code that looks it up by name.
CREATE SCHEMA hostile AUTHORIZATION regress_pgq_user;
SET ROLE regress_pgq_user;
CREATE FUNCTION hostile.boom(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hostile %', $1; END $$;
CREATE FUNCTION hostile.eq(int, int) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.boom('int = int') $$;
CREATE FUNCTION hostile.eq(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.boom('bigint = bigint') $$;
CREATE FUNCTION hostile.eq(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.boom('text = text') $$;
CREATE OPERATOR hostile.= (FUNCTION = hostile.eq, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR hostile.= (FUNCTION = hostile.eq, LEFTARG = bigint, RIGHTARG = bigint);
CREATE OPERATOR hostile.= (FUNCTION = hostile.eq, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT hostile.boom('now')::text::timestamptz $$;
CREATE FUNCTION hostile.is_leased(bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.boom('is_leased') $$;
CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql AS $$ SELECT hostile.boom('nextval')::int::bigint $$;
CREATE TABLE hostile.job (LIKE pg_catalog.pg_class);
CREATE TABLE hostile.queue (LIKE pg_catalog.pg_class);
CREATE TABLE hostile.dead_job (LIKE pg_catalog.pg_class);
CREATE DOMAIN hostile.jsonb AS pg_catalog.text CHECK (hostile.boom('jsonb'));
CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (hostile.boom('text'));
CREATE DOMAIN hostile.bigint AS pg_catalog.int8 CHECK (hostile.boom('bigint'));
CREATE TEMP TABLE mine (job_id int8, lease int8, payload pg_catalog.jsonb);
SET search_path = hostile, pg_temp, pg_catalog;
SELECT public.pgq_create_queue('mine', max_attempts => 2, backoff_base => '0'), public.pgq_create_queue('mine', if_not_exists => true);
SELECT public.pgq_create_queue('mine');
SELECT public.pgq_enqueue('mine', '1', headers => '{}') OPERATOR(pg_catalog.>) 0 AS enqueued;
SELECT count(*) FROM public.pgq_enqueue_many('mine', '[{"payload": 2, "run_at": "2001-01-01"}, {"payload": 3, "delay": "1 day"}]');
INSERT INTO mine SELECT job_id, lease, payload FROM public.pgq_claim('mine', 10, '60 s');
SELECT payload, public.pgq_extend(job_id, lease) OPERATOR(pg_catalog.>) clock_timestamp() AS extended, public.pgq_fail(job_id, lease, 'once') FROM mine ORDER BY ctid;
TRUNCATE mine;
INSERT INTO mine SELECT job_id, lease, payload FROM public.pgq_claim_any('{mine,q}', 10, '60 s');
SELECT payload, public.pgq_fail(job_id, lease, 'twice') FROM mine WHERE payload OPERATOR(pg_catalog.=) '1';
SELECT public.pgq_ack(job_id, lease) FROM mine WHERE payload OPERATOR(pg_catalog.=) '2';
SELECT count(*) FROM public.pgq_ack_many(ARRAY(SELECT job_id FROM mine), ARRAY(SELECT lease FROM mine));
TRUNCATE mine;
-- keys, groups, limits, and what changes jobs
SELECT public.pgq_create_queue('theirs', group_concurrency => 1, max_depth => 5, rate_limit => 50, group_rate_limit => 40, concurrency => 5, keep_finished => '1 day', keep_attempts => '1 day', log_attempts => 'all');
SELECT public.pgq_enqueue('theirs', '[1]', group_key => 'g', unique_key => 'a', unique_for => '1 hour') OPERATOR(pg_catalog.>) 0 AS enqueued;
SELECT public.pgq_enqueue('theirs', '[2]', unique_key => 'a', on_conflict => answer) OPERATOR(pg_catalog.>) 0 AS met FROM pg_catalog.unnest('{keep,replace,preserve_run_at,append}'::pg_catalog.text[]) AS u(answer);
\set VERBOSITY sqlstate
SELECT public.pgq_enqueue('theirs', '[2]', unique_key => 'a', on_conflict => 'error');
\set VERBOSITY default
SELECT count(*) FROM public.pgq_enqueue_many('theirs', '[{"payload": 3, "group_key": "g", "unique_key": "b"}, {"payload": 4, "group_key": "g", "expires_in": "1 day"}]');
SELECT public.pgq_alter_queue('theirs', fifo => true), public.pgq_pause_queue('theirs'), public.pgq_resume_queue('theirs');
INSERT INTO mine SELECT job_id, lease, payload FROM public.pgq_claim('theirs', 10, worker => 'w', session_bound => true);
SELECT public.pgq_progress(job_id, lease, '1'), public.pgq_assert_lease(job_id, lease), public.pgq_release(job_id, lease) FROM mine;
SELECT state FROM mine, public.pgq_result(job_id);
SELECT public.pgq_update(job_id, priority => 7), public.pgq_retry(job_id, '1 day'), public.pgq_retry(job_id) FROM mine;
TRUNCATE mine;
INSERT INTO mine SELECT job_id, lease, payload FROM public.pgq_claim('theirs');
SELECT public.pgq_fail(job_id, lease, 'no', retry => false) FROM mine;
SELECT public.pgq_redrive('theirs');
TRUNCATE mine;
INSERT INTO mine SELECT job_id, lease, payload FROM public.pgq_claim('theirs');
WITH next AS (SELECT n.* FROM mine, public.pgq_ack_claim(ARRAY[mine.job_id], ARRAY[mine.lease], 'theirs') AS n)
SELECT payload, public.pgq_ack(job_id, lease, result => '{}') FROM next;
SELECT public.pgq_cancel(job_id) FROM public.pgq_enqueue('theirs', '5') AS e(job_id);
-- locks, runs, rates
SELECT public.pgq_extend_lock('theirs', l) OPERATOR(pg_catalog.>) clock_timestamp() AS extended, public.pgq_assert_lock('theirs', l), public.pgq_unlock('theirs', l) FROM public.pgq_lock('theirs') AS l;
SELECT public.pgq_run_done('theirs', r, '{}') FROM public.pgq_run_once('theirs', '1 day') AS r;
SELECT public.pgq_create_rate('theirs', 1000, '1 s');
SELECT public.pgq_take('theirs', wait => '5 s'), public.pgq_drop_rate('theirs');
SELECT public.pgq_schedule('theirs', '@yearly', 'theirs', options => '{"unique_key": "a"}'), public.pgq_schedule('theirs', '@yearly', 'theirs', timezone => 'Asia/Tokyo'), public.pgq_pause_schedule('theirs'), public.pgq_resume_schedule('theirs');
SELECT count(*) FROM public.pgq_schedule_preview('@yearly');
SELECT public.pgq_unschedule('theirs');
SELECT public.pgq_drop_queue('theirs', force => true);
SELECT public.pgq_drop_queue('mine');
SELECT public.pgq_drop_queue('mien', if_exists => false);
SELECT public.pgq_purge_queue('mine');
SELECT public.pgq_drop_queue('mine', force => true);
-- what is created here for the first time is not this role's
SELECT public.pgq_create_queue('mine');
RESET ROLE;
RESET search_path;
SELECT count(*) FROM pg_class WHERE relowner = 'regress_pgq_user'::regrole AND relnamespace = 'pgq_ext'::regnamespace;

-- The views are for those who may read them, and the functions behind them.
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_user;
\set VERBOSITY terse
SET ROLE regress_pgq_user;
TABLE pgq_ext.queue_status;
TABLE pgq_ext.job_status;
TABLE pgq_ext.lease;
TABLE pgq_ext.queue_stats;
TABLE pgq_ext.queue_latency;
TABLE pgq_ext.dead_job;
TABLE pgq_ext.lock;
TABLE pgq_ext.rate;
TABLE pgq_ext.run;
SELECT pgq_ext.lock_entries();
SELECT pgq_ext.rate_entries();
SELECT pgq_ext.is_leased(1);
SELECT pgq_ext.lease_entries();
SELECT pgq_ext.queue_entries();
SELECT pgq_ext.stat_entries();
SELECT pgq_ext.latency_entries();
SELECT pgq_ext.oldest_ready(1);
SELECT pgq_ext.recount('q');
RESET ROLE;
\set VERBOSITY default
GRANT SELECT ON pgq_ext.queue_status TO regress_pgq_user;
GRANT EXECUTE ON FUNCTION pgq_ext.queue_entries, pgq_ext.oldest_ready, pgq_ext.lease_entries, pgq_ext.group_entries, pgq_ext.behind TO regress_pgq_user;
SET ROLE regress_pgq_user;
SELECT queue, ready, leased FROM pgq_ext.queue_status ORDER BY 1;
RESET ROLE;
-- All that docs/operations.md grants to a role that monitors: it sees neither payloads nor tokens.
GRANT SELECT ON pgq_ext.queue, pgq_ext.job_status, pgq_ext.queue_stats, pgq_ext.queue_latency, pgq_ext.capacity, pgq_ext.segment TO regress_pgq_user;
GRANT SELECT (job_id, queue, attempt, worker, pid, claimed_at, lease_expires_at, in_transaction) ON pgq_ext.lease TO regress_pgq_user;
GRANT SELECT (job_id, queue_id, died_at, enqueued_at, attempts, reason) ON pgq_ext.dead_job TO regress_pgq_user;
GRANT SELECT (schedule, cron, timezone, queue, missed, paused, next_run_at, last_run_at, last_job_id, last_error) ON pgq_ext.schedule TO regress_pgq_user;
GRANT EXECUTE ON FUNCTION pgq_ext.stat_entries, pgq_ext.latency_entries, pgq_ext.capacity_entries, pgq_ext.segment_entries, pgq_ext.snapshot_holders TO regress_pgq_user;
SELECT count(pgq_enqueue('q', '1')) FROM generate_series(1, 2);
SELECT attempt FROM pgq_claim('q', worker => 'me');
SELECT count(lease) AS tokens FROM pgq_ext.lease_entries();
SET ROLE regress_pgq_user;
SELECT count(*) > 0 AS queues FROM pgq_ext.queue_stats;
SELECT count(*) > 0 AS queues FROM pgq_ext.queue_latency;
SELECT count(*) > 0 AS jobs FROM pgq_ext.job_status;
SELECT count(*) AS segments, sum(live_rows) > 0 AS jobs FROM pgq_ext.segment;
SELECT count(*) > 5 AS bounds FROM pgq_ext.capacity;
SELECT queue, count(*) FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) GROUP BY queue;
SELECT queue, attempt, worker FROM pgq_ext.lease;
SELECT count(next_run_at) AS schedules FROM pgq_ext.schedule;
\set VERBOSITY terse
SELECT lease FROM pgq_ext.lease;
SELECT payload FROM pgq_ext.dead_job;
SELECT payload FROM pgq_ext.schedule;
SELECT payload FROM pgq_ext.job;
\set VERBOSITY default
SELECT count(*) AS leases, count(lease) AS tokens FROM pgq_ext.lease_entries();
RESET ROLE;
GRANT SELECT (lease) ON pgq_ext.lease TO regress_pgq_user;
SET ROLE regress_pgq_user;
SELECT count(lease) AS tokens FROM pgq_ext.lease_entries();
RESET ROLE;

SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('mine');
\set VERBOSITY terse
DROP OWNED BY regress_pgq_user CASCADE;
DROP ROLE regress_pgq_user;
