-- Readers of the views: members of pg_monitor need no further grant, others need SELECT. Secrets are shown to nobody by the grant
-- to pg_monitor, and a direct call of a function behind a view tells no more than the view.
CREATE ROLE regress_pgq_watcher IN ROLE pg_monitor;
CREATE ROLE regress_pgq_reader;
CREATE ROLE regress_pgq_clerk;
CREATE ROLE regress_pgq_stranger;
CREATE ROLE regress_pgq_runner LOGIN;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_reader, regress_pgq_clerk, regress_pgq_stranger;
SELECT pgq_create_queue('open', group_rate_limit => 5), pgq_create_queue('shut', lease_time => '1 hour');
SET client_min_messages = warning;
SELECT pgq_grant('shut', 'regress_pgq_clerk', '{claim}');
RESET client_min_messages;
SELECT count(pgq_enqueue(queue, '"secret"', group_key => 'g')) FROM unnest('{open,open,shut,shut}'::text[]) AS queue;
SELECT count(*) FROM pgq_claim('open', worker => 'w', lease_time => '1 hour') UNION ALL SELECT count(*) FROM pgq_claim('shut', worker => 'w');
SELECT pgq_lock('held', ttl => '1 hour', owner => 'o') > 0 AS held, pgq_create_rate('often', 10, '1 s'), pgq_take('often');
SELECT pgq_schedule('of_open', '@yearly', 'open', '"secret"', options => '{"priority": 1}'), pgq_schedule('of_shut', '@yearly', 'shut', '"secret"', options => '{"priority": 1}');

SELECT pgq_bind('x', 'open'), pgq_bind('x', 'shut');
CREATE TABLE watched (n int PRIMARY KEY);
SELECT pgq_watch_table('watched', 'open');

CREATE FUNCTION handles(pgq_ext.claimed_job) RETURNS void LANGUAGE sql AS '';
GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO regress_pgq_runner;
SELECT pgq_grant('shut', 'regress_pgq_runner', '{claim}');
-- paused before they have run a job
BEGIN;
SELECT pgq_set_handler(queue, 'handles'::regproc, run_as => 'regress_pgq_runner'), pgq_pause_handler(queue) FROM unnest('{open,shut}'::text[]) queue;
COMMIT;

CREATE TABLE view AS SELECT n, name FROM unnest('{queue_status,queue_stats,queue_latency,job_status,lease,capacity,segment,duty,schedule,lock,rate,health,queue,dead_letter,handler,batch,binding,watch}'::text[])
WITH ORDINALITY AS u (name, n);
GRANT SELECT ON view TO PUBLIC;
-- What is seen of each queue, or that anything is.
CREATE FUNCTION seen(name text, OUT answer text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT COALESCE(string_agg(DISTINCT v.queue, $s$ $s$ ORDER BY v.queue), $s$something$s$) FROM (SELECT to_jsonb(r) ->> $s$queue$s$ AS queue FROM pgq_ext.%I r) v HAVING count(*) > 0', name) INTO answer;
EXCEPTION WHEN insufficient_privilege THEN answer := SQLERRM;
END $$;
CREATE FUNCTION secrets(OUT leases int, OUT locks int, OUT payloads int, OUT options int) LANGUAGE sql AS $$ SELECT
    (SELECT count(lease) FROM pgq_ext.lease), (SELECT count(token) FROM pgq_ext.lock),
    (SELECT count(payload) FROM pgq_ext.schedule), (SELECT count(options) FROM pgq_ext.schedule) $$;

-- What is granted to whom.
SELECT relname FROM pg_class c WHERE relnamespace = 'pgq_ext'::regnamespace AND relkind IN ('v', 'r', 'p', 'S')
AND has_any_column_privilege('pg_monitor', oid, 'SELECT') ORDER BY 1;
SELECT relname FROM pg_class c WHERE relnamespace = 'pgq_ext'::regnamespace AND EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee = 0);
SELECT proname FROM pg_proc WHERE oid IN (SELECT objid FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid = 'pg_proc'::regclass
    AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgq_ext'))
AND EXISTS (SELECT FROM aclexplode(COALESCE(proacl, acldefault('f', proowner))) WHERE grantee = 0) ORDER BY 1;

SET ROLE regress_pgq_watcher;
SELECT name, seen(name) FROM view ORDER BY n;
SELECT * FROM secrets();
RESET ROLE;
-- what another grant shows is shown
GRANT SELECT (token) ON pgq_ext.lock TO regress_pgq_watcher;
GRANT SELECT ON pgq_ext.lease TO regress_pgq_clerk;
GRANT regress_pgq_clerk TO regress_pgq_watcher;
SET ROLE regress_pgq_watcher;
SELECT * FROM secrets();
RESET ROLE;
REVOKE regress_pgq_clerk FROM regress_pgq_watcher;

-- SELECT alone.
SET ROLE regress_pgq_reader;
SELECT name, seen(name) FROM view ORDER BY n;
RESET ROLE;
SELECT format('GRANT SELECT ON %s TO regress_pgq_reader', string_agg(format('pgq_ext.%I', name), ', ')) FROM view \gexec
SET ROLE regress_pgq_reader;
SELECT name, seen(name) FROM view ORDER BY n;
SELECT * FROM secrets();
RESET ROLE;
-- of some columns
GRANT SELECT (job_id, queue, worker) ON pgq_ext.lease TO regress_pgq_stranger;
GRANT SELECT (ready) ON pgq_ext.queue_status TO regress_pgq_stranger;
GRANT SELECT ("check") ON pgq_ext.health TO regress_pgq_stranger;
SET ROLE regress_pgq_stranger;
SELECT queue, worker FROM pgq_ext.lease;
SELECT ready FROM pgq_ext.queue_status;
SELECT count("check") > 0 AS health FROM pgq_ext.health;
SELECT DISTINCT lease FROM pgq_ext.lease_entries();
RESET ROLE;
DROP OWNED BY regress_pgq_stranger;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_stranger;

-- Direct calls.
CREATE TABLE call (n int GENERATED ALWAYS AS IDENTITY, name text);
INSERT INTO call (name) SELECT unnest('{queue_entries(),stat_entries(),latency_entries(),lease_entries(),group_entries(),capacity_entries(),segment_entries(),snapshot_holders(),duty_entries(),lock_entries(),rate_entries(),handler_entries(),members_of(1),health_rows(),health_of_reader(),health_entries(),rotation_blocker}'::text[]);
INSERT INTO call (name) SELECT format('blocked_jobs(%s)', queue_id) FROM pgq_ext.queue WHERE queue = 'open';
INSERT INTO call (name) SELECT format('oldest_ready(%s)', queue_id) FROM pgq_ext.queue WHERE queue = 'open';
INSERT INTO call (name) SELECT format('behind(%s, 0, now(), 1000000, NULL)', queue_id) FROM pgq_ext.queue WHERE queue = 'open';
GRANT SELECT ON call TO PUBLIC;
CREATE FUNCTION called(name text, OUT answer text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT count(*) FROM pgq_ext.' || name INTO answer;
EXCEPTION WHEN insufficient_privilege THEN answer := SQLERRM;
END $$;
SET ROLE regress_pgq_stranger;
SELECT regexp_replace(name, '\(\d+', '(1') AS name, called(name) FROM call ORDER BY n;
SELECT count(*) FROM pgq_ext.lock_entries();
RESET ROLE;
-- A view of somebody else over ours takes EXECUTE for its reader, or SELECT on ours.
CREATE VIEW names AS SELECT name, token FROM pgq_ext.lock;
GRANT SELECT ON names TO regress_pgq_stranger;
SET ROLE regress_pgq_stranger;
SELECT name FROM names;
RESET ROLE;
GRANT EXECUTE ON FUNCTION pgq_ext.lock_entries TO regress_pgq_stranger;
SET ROLE regress_pgq_stranger;
SELECT * FROM names;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pgq_ext.lock_entries FROM regress_pgq_stranger;
-- a function with the rights of a reader is a reader
CREATE FUNCTION as_reader() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT string_agg(name, ' ') FROM pgq_ext.lock_entries() $$;
ALTER FUNCTION as_reader OWNER TO regress_pgq_reader;
SET ROLE regress_pgq_stranger;
SELECT as_reader();
RESET ROLE;

-- A condition sees no row that its reader may not: neither what a function is told, nor what an outer join brings.
CREATE FUNCTION leak(text, text) RETURNS boolean COST 0.0000001 STRICT LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw % of %', $1, $2; RETURN true; END $$;
-- A plan of a table that was never analyzed, whether autovacuum has come by or not.
DELETE FROM pg_statistic WHERE starelid = 'pgq_ext.queue'::regclass;
UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = 'pgq_ext.queue'::regclass;
SET ROLE regress_pgq_reader;
SELECT count(*) FROM pgq_ext.queue_status WHERE leak(queue, 'queue_status');
SELECT count(*) FROM pgq_ext.queue_stats WHERE leak(queue, 'queue_stats');
SELECT count(*) > 0 FROM pgq_ext.queue_latency WHERE le_seconds = 'Infinity' AND phase = 'run' AND leak(queue, 'queue_latency');
SELECT count(*) > 0 FROM pgq_ext.duty WHERE duty = 'window' AND leak(queue, 'duty');
SELECT count(*) FROM pgq_ext.job_status WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job_status) AND leak(queue, 'job_status');
SELECT count(*) FROM pgq_ext.lease WHERE leak(queue, 'lease');
SELECT count(*) FROM pgq_ext.schedule WHERE leak(queue, 'schedule');
SELECT count(*) FROM pgq_ext.handler WHERE leak(queue, 'handler');
-- a name is still looked up by the index (a whole scan of another index would cost nearly the same with so few queues)
SET enable_seqscan = off;
SET cpu_tuple_cost = 100;
EXPLAIN (COSTS OFF) SELECT ready FROM pgq_ext.queue_status WHERE queue = 'open';
EXPLAIN (COSTS OFF) SELECT acked FROM pgq_ext.queue_stats WHERE queue = 'open';
RESET enable_seqscan;
RESET cpu_tuple_cost;
RESET ROLE;

-- A schedule whose queue is gone, by that name, is its maker's and the owner's; pg_monitor sees it.
GRANT EXECUTE ON FUNCTION pgq_schedule, pgq_unschedule, pgq_pause_schedule, pgq_resume_schedule, pgq_enqueue TO regress_pgq_clerk, regress_pgq_reader, regress_pgq_watcher;
GRANT SELECT ON pgq_ext.schedule TO regress_pgq_clerk;
SET client_min_messages = warning;
SELECT pgq_grant('shut', 'regress_pgq_clerk', '{enqueue}');
RESET client_min_messages;
SET ROLE regress_pgq_clerk;
SELECT pgq_schedule('of_shut', '@yearly', 'shut', '"of the clerk"');
RESET ROLE;
SELECT pgq_drop_queue('shut', force => true);
CREATE FUNCTION tried(command text, OUT answer text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || command INTO answer;
EXCEPTION WHEN insufficient_privilege THEN answer := SQLERRM;
END $$;
SET ROLE regress_pgq_reader;
SELECT schedule, payload FROM pgq_ext.schedule ORDER BY 1;
SELECT tried('pgq_schedule($$of_shut$$, $$@daily$$, $$open$$)') AS replaced, tried('pgq_pause_schedule($$of_shut$$)') AS paused, tried('pgq_resume_schedule($$of_shut$$)') AS resumed;
SELECT pgq_unschedule('of_shut');
SET ROLE regress_pgq_watcher;
SELECT schedule, payload FROM pgq_ext.schedule ORDER BY 1;
SELECT tried('pgq_schedule($$of_shut$$, $$@daily$$, $$open$$)') AS replaced;
SET ROLE regress_pgq_clerk;
SELECT schedule, payload FROM pgq_ext.schedule ORDER BY 1;
SELECT pgq_pause_schedule('of_shut'), pgq_resume_schedule('of_shut');
RESET ROLE;
SELECT schedule, payload FROM pgq_ext.schedule ORDER BY 1;
-- without its maker the owner's
ALTER TABLE pgq_ext.timetable DISABLE TRIGGER timetable_changed;
UPDATE pgq_ext.timetable SET maker = NULL;
ALTER TABLE pgq_ext.timetable ENABLE ALWAYS TRIGGER timetable_changed;
SET ROLE regress_pgq_clerk;
SELECT schedule FROM pgq_ext.schedule ORDER BY 1;
SELECT tried('pgq_unschedule($$of_shut$$)');
RESET ROLE;
SELECT pgq_pause_schedule('of_shut');
DROP FUNCTION tried;
REVOKE ALL ON FUNCTION pgq_schedule, pgq_unschedule, pgq_pause_schedule, pgq_resume_schedule, pgq_enqueue FROM regress_pgq_clerk, regress_pgq_reader, regress_pgq_watcher;

SELECT pgq_unlock(name, token) FROM pgq_ext.lock;
SELECT pgq_unschedule('of_open'), pgq_unschedule('of_shut'), pgq_drop_rate('often'), pgq_drop_queue('open', force => true);
DROP VIEW names;
DROP FUNCTION seen, secrets, called, as_reader, leak, handles;
DROP TABLE view, call, watched;
DROP OWNED BY regress_pgq_watcher, regress_pgq_reader, regress_pgq_clerk, regress_pgq_stranger, regress_pgq_runner;
DROP ROLE regress_pgq_watcher, regress_pgq_reader, regress_pgq_clerk, regress_pgq_stranger, regress_pgq_runner;
