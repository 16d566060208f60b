-- Rights on single queues. Without any, EXECUTE decides; with some, nothing goes that was not granted there.
CREATE ROLE regress_pgq_maker;
CREATE ROLE regress_pgq_worker;
CREATE ROLE regress_pgq_chief;
CREATE ROLE regress_pgq_watcher;
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'pgq\_%' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO regress_pgq_maker, regress_pgq_worker, regress_pgq_chief, regress_pgq_watcher', f);
    END LOOP;
END $$;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_watcher;
GRANT SELECT ON pgq_ext.queue_status, pgq_ext.job_status, pgq_ext.lease, pgq_ext.queue_stats, pgq_ext.duty, pgq_ext.schedule TO regress_pgq_watcher;
GRANT EXECUTE ON FUNCTION pgq_ext.queue_entries, pgq_ext.oldest_ready, pgq_ext.stat_entries, pgq_ext.lease_entries, pgq_ext.group_entries, pgq_ext.behind, pgq_ext.duty_entries TO regress_pgq_watcher;
SELECT pgq_create_queue('pay'), pgq_create_queue('open');

-- Who may close a queue, and what is said of bad input.
SET ROLE regress_pgq_chief;
SELECT pgq_grant('pay', 'regress_pgq_chief', '{admin}');
SELECT pgq_revoke('pay', 'regress_pgq_chief', '{admin}');
RESET ROLE;
SELECT pgq_grant('pya', 'regress_pgq_maker', '{enqueue}');
SELECT pgq_grant('pay', 'regress_pgq_nobody', '{enqueue}');
SELECT pgq_grant('pay', 'regress_pgq_maker', '{drop}');
SELECT pgq_grant('pay', 'regress_pgq_maker', '{}');
SELECT pgq_grant('pay', 'regress_pgq_maker', '{enqueue,NULL}');
SELECT pgq_grant('pay', 'regress_pgq_maker', NULL);
SELECT pgq_grant('pay', NULL, '{enqueue}');
SELECT pgq_grant(NULL, 'regress_pgq_maker', '{enqueue}');
SELECT count(*) AS views FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relname LIKE 'rights\_%';

-- It is part of the transaction.
BEGIN;
SAVEPOINT s;
SELECT pgq_grant('pay', 'regress_pgq_maker', '{enqueue}');
SET LOCAL ROLE regress_pgq_worker;
SAVEPOINT t;
SELECT pgq_claim('pay');
ROLLBACK TO t;
RESET ROLE;
ROLLBACK TO s;
SET LOCAL ROLE regress_pgq_worker;
SELECT pgq_claim('pay');
ROLLBACK;

SELECT pgq_grant('pay', 'regress_pgq_maker', '{enqueue}');
SELECT pgq_grant('pay', 'regress_pgq_worker', '{claim,claim}');
SELECT pgq_grant('pay', 'regress_pgq_chief', '{admin}');
SELECT relkind, relowner::regrole = current_user::regrole AS is_owners, (SELECT string_agg(concat_ws(' ', grantee::regrole, privilege_type), ', ' ORDER BY grantee::regrole::text) FROM aclexplode(relacl) WHERE grantee <> relowner) AS rights FROM pg_class WHERE oid = format('pgq_ext.rights_%s', (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'pay'))::regclass;
-- No member of the extension: so it is dumped.
SELECT count(*) AS members FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid = 'pg_class'::regclass
AND objid = format('pgq_ext.rights_%s', (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'pay'))::regclass;

-- What is called with which job and lease, whoever does.
CREATE FUNCTION tried(command text, OUT answer text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE command INTO answer;
    answer := COALESCE(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
    answer := SQLSTATE || CASE WHEN SQLSTATE = '42501' THEN ' ' || SQLERRM ELSE '' END;
END $$;
GRANT EXECUTE ON FUNCTION tried TO PUBLIC;
CREATE TABLE verb (n int GENERATED ALWAYS AS IDENTITY, command text);
GRANT SELECT ON verb TO PUBLIC;
INSERT INTO verb (command) VALUES
    ('SELECT pgq_enqueue(''pay'', ''1'') > 0'),
    ('SELECT count(*) FROM pgq_enqueue_many(''pay'', ''[{"payload": 1}]'')'),
    ('SELECT pgq_enqueue(''pay'', ''1'', unique_key => ''k'') > 0'),
    ('SELECT count(*) FROM pgq_claim(''pay'')'),
    ('SELECT count(*) FROM pgq_claim_any(''{open,pay}'')'),
    ('SELECT count(*) FROM pgq_ack_claim(NULL, NULL, ''pay'')'),
    ('SELECT pgq_redrive(''pay'')'),
    ('SELECT pgq_pause_queue(''pay'')'),
    ('SELECT pgq_resume_queue(''pay'')'),
    ('SELECT pgq_alter_queue(''pay'', max_attempts => 20)'),
    ('SELECT pgq_alter_queue(''pay'')'),
    ('SELECT pgq_grant(''pay'', ''regress_pgq_chief'', ''{admin}'')'),
    ('SELECT pgq_revoke(''pay'', ''regress_pgq_watcher'', ''{claim}'')'),
    ('SELECT pgq_schedule(''s'', ''@yearly'', ''pay'')'),
    ('SELECT pgq_pause_schedule(''s'')'),
    ('SELECT pgq_resume_schedule(''s'')'),
    ('SELECT pgq_schedule(''s'', ''@yearly'', ''open'')'),
    ('SELECT pgq_unschedule(''s'')'),
    ('SELECT pgq_purge_queue(''pay'') > 0'),
    ('SELECT pgq_drop_queue(''pay'')'),
    ('SELECT pgq_drop_queue(''pay'', if_exists => true)'),
    ('SELECT pgq_create_queue(''pay'', if_not_exists => true)');
GRANT EXECUTE ON FUNCTION pgq_schedule TO regress_pgq_worker;
SELECT pgq_schedule('s', '@yearly', 'pay');

\pset format unaligned
SET ROLE regress_pgq_maker;
SELECT command, tried(command) FROM verb ORDER BY n;
RESET ROLE;
SELECT pgq_schedule('s', '@yearly', 'pay');
SET ROLE regress_pgq_worker;
SELECT command, tried(command) FROM verb ORDER BY n;
RESET ROLE;
SET ROLE regress_pgq_watcher;
SELECT command, tried(command) FROM verb ORDER BY n;
RESET ROLE;
SET ROLE regress_pgq_chief;
SELECT command, tried(command) FROM verb ORDER BY n;
RESET ROLE;
\pset format aligned
SELECT pgq_unschedule('s');

-- By job id: to who has no right there is no such job, and any lease is stale. One job of each kind: waiting, leased, dead, finished; and none.
SELECT pgq_purge_queue('pay') >= 0 AS purged, pgq_alter_queue('pay', keep_finished => '1 day', backoff_base => '0');
CREATE TABLE job (kind text, job_id bigint, lease bigint);
GRANT SELECT ON job TO PUBLIC;
CREATE FUNCTION make_jobs() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgq_enqueue('pay', '"dead"'), pgq_enqueue('pay', '"finished"', priority => -1), pgq_enqueue('pay', '"leased"', priority => -2);
END $$;
SELECT make_jobs();
INSERT INTO job SELECT 'dead', job_id, lease FROM pgq_claim('pay');
SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM job WHERE kind = 'dead';
INSERT INTO job SELECT 'finished', job_id, lease FROM pgq_claim('pay');
SELECT pgq_ack(job_id, lease, '"secret"') FROM job WHERE kind = 'finished';
INSERT INTO job SELECT 'leased', job_id, lease FROM pgq_claim('pay', lease_time => '1 day');
INSERT INTO job SELECT 'waiting', pgq_enqueue('pay', '"waiting"'), 1;
INSERT INTO job SELECT 'none', 9007199254740991, 1;
CREATE VIEW answers AS
SELECT array_agg(a.name || ' ' || tried(format(a.command, j.job_id, j.lease)) ORDER BY a.name) AS all_answers, j.kind FROM job j,
    (VALUES ('ack', 'SELECT pgq_ack(%s, %s)'), ('ack_many', 'SELECT count(*) FROM pgq_ack_many(ARRAY[%s], ARRAY[%s])'),
    ('ack_claim', 'SELECT count(*) FROM pgq_ack_claim(ARRAY[%s], ARRAY[%s], ''open'')'),
    ('fail', 'SELECT pgq_fail(%s, %s)'), ('release', 'SELECT pgq_release(%s, %s)'), ('extend', 'SELECT pgq_extend(%s, %s)'),
    ('assert', 'SELECT pgq_assert_lease(%s, %s)'), ('progress', 'SELECT pgq_progress(%s, %s, ''1'')'),
    ('cancel', 'SELECT pgq_cancel(%s)'), ('retry', 'SELECT pgq_retry(%s)'), ('update', 'SELECT pgq_update(%s, priority => 3)'),
    ('move', 'SELECT pgq_update(%s, queue => ''open'')'),
    ('result', 'SELECT r::text FROM pgq_result(%s) AS r'), ('wait', 'SELECT r::text FROM pgq_result(%s, ''60 s'') AS r')) AS a(name, command)
GROUP BY j.kind;
GRANT SELECT ON answers TO PUBLIC;
CREATE VIEW kept AS SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowExclusiveLock' AND relation::regclass::text ~ '^pgq_ext\.job_\d';
GRANT SELECT ON kept TO PUBLIC;
-- (The functions of a view are called by who reads it.)
SET ROLE regress_pgq_maker;
SELECT all_answers, array_agg(kind ORDER BY kind) AS kinds FROM answers GROUP BY all_answers;
-- and keeps no lock of the segments, which would keep them from being truncated (but the one of who may enqueue to "open" and would bring a job there)
BEGIN;
SELECT count(all_answers) FROM answers;
TABLE kept;
COMMIT;
-- nor does who finds nothing
RESET ROLE;
BEGIN;
SELECT all_answers FROM answers WHERE kind = 'none';
SELECT tried(format('SELECT pgq_fail(%s, %s)', j.job_id, l.lease)) AS failed, tried(format('SELECT count(*) FROM pgq_ack_many(ARRAY[%s], ARRAY[%s])', j.job_id, l.lease)) AS acked
FROM job j, job l WHERE j.kind = 'none' AND l.kind = 'leased';
TABLE kept;
-- who has written keeps his
SELECT tried(format('SELECT pgq_update(%s, priority => -7)', job_id)) AS updated FROM job WHERE kind = 'waiting';
SELECT count > 0 AS keeps FROM kept;
ROLLBACK;
-- nor may who may answer for jobs do the rest
SET ROLE regress_pgq_worker;
SELECT kind, tried(format('SELECT pgq_cancel(%s)', job_id)) AS cancel, tried(format('SELECT pgq_retry(%s)', job_id)) AS retry,
    tried(format('SELECT pgq_update(%s, priority => 4)', job_id)) AS update, tried(format('SELECT r FROM pgq_result(%s) AS r', job_id)) AS result FROM job ORDER BY kind;
SELECT tried(format('SELECT pgq_extend(%s, %s) IS NOT NULL', job_id, lease)) AS extend, tried(format('SELECT pgq_assert_lease(%s, %s)', job_id, lease)) AS assert,
    tried(format('SELECT pgq_progress(%s, %s, ''1'')', job_id, lease)) AS progress, tried(format('SELECT pgq_release(%s, %s)', job_id, lease)) AS release FROM job WHERE kind = 'leased';
-- nor who administers
SET ROLE regress_pgq_chief;
SELECT kind, tried(format('SELECT pgq_ack(%s, %s)', job_id, lease)) AS ack, tried(format('SELECT state FROM pgq_result(%s) AS r', job_id)) AS result FROM job ORDER BY kind;
SELECT kind, tried(format('SELECT pgq_update(%s, priority => 5)', job_id)) AS update, tried(format('SELECT pgq_retry(%s, ''1 day'')', job_id)) AS retry FROM job ORDER BY kind;
-- from here to there: admin here, enqueue there
SELECT tried(format('SELECT pgq_update(%s, queue => ''pay'')', job_id)) AS to_pay, tried(format('SELECT pgq_update(%s, queue => ''open'')', job_id)) AS to_open FROM job WHERE kind = 'waiting';
SELECT kind, tried(format('SELECT pgq_cancel(%s)', job_id)) AS cancel FROM job WHERE kind <> 'waiting' ORDER BY kind;
RESET ROLE;
SELECT queue, state FROM pgq_ext.job_status;
SELECT pgq_cancel(job_id) FROM job WHERE kind = 'waiting';

-- Names that are near are told to who may know of the queue.
\set VERBOSITY default
SET ROLE regress_pgq_maker;
SELECT pgq_enqueue('pya', '1');
SELECT pgq_enqueue('opne', '1');
SET ROLE regress_pgq_watcher;
SELECT pgq_enqueue('pya', '1');
SELECT pgq_enqueue('pay', '1');
RESET ROLE;

-- The views show what one may inspect; functions behind them, and what a condition could tell, too.
SELECT count(pgq_enqueue('pay', '1')), count(pgq_enqueue('open', '1')) FROM generate_series(1, 2);
SELECT queue FROM pgq_claim('pay', worker => 'w') UNION ALL SELECT queue FROM pgq_claim('open', worker => 'w');
SELECT pgq_schedule('t', '@yearly', 'pay'), pgq_schedule('u', '@yearly', 'open');
CREATE FUNCTION leak(text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE FUNCTION look(OUT queue_status text[], OUT job_status text[], OUT lease text[], OUT queue_stats text[], OUT duty text[], OUT schedule text[],
    OUT leases bigint, OUT queues bigint) LANGUAGE sql AS $$ SELECT
    (SELECT array_agg(queue ORDER BY queue) FROM pgq_ext.queue_status),
    (SELECT array_agg(DISTINCT queue) FROM pgq_ext.job_status WHERE leak(queue)),
    (SELECT array_agg(DISTINCT queue) FROM pgq_ext.lease WHERE leak(worker)),
    (SELECT array_agg(queue ORDER BY queue) FROM pgq_ext.queue_stats),
    (SELECT array_agg(DISTINCT queue) FROM pgq_ext.duty WHERE queue IS NOT NULL),
    (SELECT array_agg(queue ORDER BY queue) FROM pgq_ext.schedule WHERE leak(schedule)),
    (SELECT count(*) FROM pgq_ext.lease_entries() WHERE state = 'claimed'),
    (SELECT count(*) FROM pgq_ext.queue_entries()) $$;
SET ROLE regress_pgq_watcher;
SELECT * FROM look();
RESET ROLE;
SELECT pgq_grant('pay', 'regress_pgq_watcher', '{inspect}');
SET client_min_messages = warning;
SET ROLE regress_pgq_watcher;
SELECT * FROM look();
RESET ROLE;
SELECT pgq_revoke('pay', 'regress_pgq_watcher', '{inspect}');
GRANT pg_monitor TO regress_pgq_watcher;
SET ROLE regress_pgq_watcher;
SELECT * FROM look();
RESET ROLE;
REVOKE pg_monitor FROM regress_pgq_watcher;
RESET client_min_messages;
SELECT pgq_unschedule('t'), pgq_unschedule('u');

-- Everybody; members of roles; roles that do not inherit.
SELECT pgq_grant('pay', 'public', '{enqueue}');
SET ROLE regress_pgq_watcher;
SELECT pgq_enqueue('pay', '1') > 0 AS enqueued;
RESET ROLE;
SELECT pgq_revoke('pay', 'public', '{enqueue}');
CREATE ROLE regress_pgq_member IN ROLE regress_pgq_worker;
CREATE ROLE regress_pgq_guest NOINHERIT IN ROLE regress_pgq_worker;
GRANT EXECUTE ON FUNCTION pgq_claim TO regress_pgq_guest;
SET ROLE regress_pgq_member;
SELECT queue FROM pgq_claim('pay');
SET ROLE regress_pgq_guest;
SELECT queue FROM pgq_claim('pay');
RESET ROLE;
-- a function with the rights of its owner is a way around, as he wants it
CREATE FUNCTION take_one() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT queue FROM pgq_claim('pay') $$;
SET ROLE regress_pgq_guest;
SELECT take_one();
RESET ROLE;
ALTER FUNCTION take_one OWNER TO regress_pgq_maker;
GRANT CREATE ON SCHEMA public TO regress_pgq_maker;
SELECT take_one();
REVOKE CREATE ON SCHEMA public FROM regress_pgq_maker;

-- Roles are followed, and cannot be dropped as long as they have rights.
ALTER ROLE regress_pgq_worker RENAME TO regress_pgq_laborer;
CREATE ROLE regress_pgq_worker;
GRANT EXECUTE ON FUNCTION pgq_claim TO regress_pgq_worker;
SET ROLE regress_pgq_worker;
SELECT tried('SELECT queue FROM pgq_claim(''pay'')');
SET ROLE regress_pgq_laborer;
SELECT tried('SELECT count(*) FROM pgq_claim(''pay'')');
RESET ROLE;
DROP ROLE regress_pgq_worker;
DROP OWNED BY regress_pgq_worker;
DROP ROLE regress_pgq_worker;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM regress_pgq_maker;
\set VERBOSITY terse
DROP ROLE regress_pgq_maker;
\set VERBOSITY default

-- Grants by hand: they count; those of others are not ours to revoke.
SELECT format('pgq_ext.rights_%s', queue_id) AS rights FROM pgq_ext.queue WHERE queue = 'pay' \gset
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_chief;
GRANT UPDATE ON :rights TO regress_pgq_chief WITH GRANT OPTION;
SET ROLE regress_pgq_chief;
GRANT UPDATE ON :rights TO regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''pay'')');
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''pay'')');
RESET ROLE;
\set VERBOSITY sqlstate
SELECT pgq_revoke('pay', 'regress_pgq_guest', '{claim}');
\set VERBOSITY default
SELECT pgq_revoke('pay', 'regress_pgq_chief', '{claim}');
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''pay'')');
RESET ROLE;
-- It cannot be written or read through.
SET ROLE regress_pgq_chief;
SELECT tried('DELETE FROM ' || :'rights');
RESET ROLE;
-- Neither default privileges nor GRANT on the roles of the server give any.
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_pgq_guest, PUBLIC;
SELECT pgq_create_queue('later');
SELECT pgq_grant('later', 'regress_pgq_chief', '{admin}');
GRANT pg_write_all_data, pg_read_all_data TO regress_pgq_guest;
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''later'')');
RESET ROLE;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM regress_pgq_guest, PUBLIC;
REVOKE pg_write_all_data, pg_read_all_data FROM regress_pgq_guest;
SELECT pgq_revoke('open', 'regress_pgq_chief', '{admin}');
-- A view that is not the owner's closes the queue, and gives its owner nothing.
ALTER VIEW :rights OWNER TO regress_pgq_chief;
SET ROLE regress_pgq_chief;
SELECT tried('SELECT pgq_pause_queue(''pay'')');
RESET ROLE;
SELECT tried('SELECT pgq_grant(''pay'', ''regress_pgq_chief'', ''{admin}'')');
SELECT pgq_enqueue('pay', '1') > 0 AS owner_may;
ALTER VIEW :rights OWNER TO CURRENT_USER;
-- Dropped by hand it is open again.
DROP VIEW :rights;
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''pay'')');
RESET ROLE;

-- A queue that goes takes its rights along, and what others have made of them; its name gives none. One that is renamed keeps them.
SELECT pgq_grant('pay', 'regress_pgq_chief', '{admin,inspect}');
UPDATE pgq_ext.queue SET queue = 'paid' WHERE queue = 'pay';
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''paid'')');
SET ROLE regress_pgq_chief;
SELECT tried('SELECT pgq_resume_queue(''paid'')');
CREATE TEMP VIEW mine AS SELECT * FROM :rights;
SET client_min_messages = warning;
SELECT pgq_drop_queue('paid', force => true);
RESET client_min_messages;
RESET ROLE;
SELECT pgq_create_queue('paid');
SET ROLE regress_pgq_guest;
SELECT tried('SELECT count(*) FROM pgq_claim(''paid'')');
RESET ROLE;
DELETE FROM pgq_ext.queue WHERE queue = 'later';
SELECT count(*) AS views FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relname LIKE 'rights\_%';
-- A view that was left, or made in advance, gives nobody a right on a new queue.
SELECT nextval('pgq_ext.queue_queue_id_seq') + 1 AS ghost \gset
GRANT CREATE ON SCHEMA pgq_ext TO regress_pgq_chief;
SET ROLE regress_pgq_chief;
CREATE VIEW pgq_ext.rights_:ghost AS SELECT 1;
RESET ROLE;
SELECT pgq_create_queue('ghost');
SELECT queue_id = :ghost AS same_id, to_regclass(format('pgq_ext.rights_%s', queue_id)) AS rights FROM pgq_ext.queue WHERE queue = 'ghost';

SELECT pgq_drop_queue('open', force => true), pgq_drop_queue('paid'), pgq_drop_queue('ghost');
DROP VIEW answers, kept;
DROP FUNCTION tried, make_jobs, look, leak, take_one;
DROP TABLE job, verb;
DROP OWNED BY regress_pgq_maker, regress_pgq_laborer, regress_pgq_chief, regress_pgq_watcher, regress_pgq_member, regress_pgq_guest CASCADE;
DROP ROLE regress_pgq_maker, regress_pgq_laborer, regress_pgq_chief, regress_pgq_watcher, regress_pgq_member, regress_pgq_guest;
