-- pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler: what they take, who may call them, jobs that workers run to their end,
-- and the view. Calls that fail in other ways, crashes, and changes of roles and functions: test/t/150_handler_calls.pl and the files after it.
CREATE ROLE regress_pgq_runner LOGIN;
SELECT pgq_create_queue('q', keep_finished => '1 day', max_attempts => 1), pgq_create_queue('other');
CREATE FUNCTION rows() RETURNS text SECURITY DEFINER LANGUAGE sql AS $$ SELECT string_agg(h::text, E'\n' ORDER BY queue_id) FROM pgq_ext.queue_handler h $$;
CREATE FUNCTION answer(arguments text, verb text = 'pgq_set_handler') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before text := rows();
    answer text; code text; message text; detail text; hint text;
BEGIN
    EXECUTE format('SELECT %s(%s)', verb, arguments) INTO answer;
    RETURN COALESCE(nullif(answer, ''), 'done');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat(code, ': ', message, '. ' || nullif(detail, ''), ' (' || nullif(hint, '') || ')', CASE WHEN rows() IS DISTINCT FROM before THEN ' AND SOMETHING CHANGED' END);
END $$;
CREATE FUNCTION await(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    is_so boolean;
BEGIN
    FOR i IN 1 .. 1200 LOOP
        EXECUTE 'SELECT ' || condition INTO is_so;
        IF is_so THEN
            RETURN 'seen';
        END IF;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN 'not seen in a minute: ' || condition;
END $$;

-- ---- functions that can be handlers, and others ----

CREATE FUNCTION quiet(pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION echo(pgq_ext.claimed_job) RETURNS jsonb LANGUAGE sql AS 'SELECT jsonb_build_object(''got'', $1.payload)';
CREATE FUNCTION named(job pgq_ext.claimed_job, OUT result jsonb) LANGUAGE sql AS 'SELECT job.payload';
CREATE FUNCTION set_based(pgq_ext.claimed_job[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE PROCEDURE a_procedure(pgq_ext.claimed_job) LANGUAGE sql AS '';
CREATE AGGREGATE an_aggregate(pgq_ext.claimed_job) (sfunc = array_append, stype = pgq_ext.claimed_job[]);
CREATE FUNCTION a_set(pgq_ext.claimed_job) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $1.payload';
CREATE FUNCTION a_table(pgq_ext.claimed_job) RETURNS TABLE (result jsonb) LANGUAGE sql AS 'SELECT $1.payload';
CREATE FUNCTION no_argument() RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION wrong_argument(jsonb) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION any_record(record) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION two_arguments(pgq_ext.claimed_job, int) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION a_default(pgq_ext.claimed_job DEFAULT NULL) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION one_more(pgq_ext.claimed_job, int DEFAULT 1) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION is_variadic(VARIADIC pgq_ext.claimed_job[]) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION polymorphic(anyelement) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION polymorphic(anyarray) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION wrong_result(pgq_ext.claimed_job) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
CREATE FUNCTION json_result(pgq_ext.claimed_job) RETURNS json LANGUAGE sql AS 'SELECT ''1''::json';
CREATE FUNCTION two_results(pgq_ext.claimed_job, OUT a jsonb, OUT b int) LANGUAGE sql AS 'SELECT $1.payload, 1';
CREATE FUNCTION set_based_result(pgq_ext.claimed_job[]) RETURNS jsonb LANGUAGE sql AS 'SELECT ''1''::jsonb';
CREATE FUNCTION of_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE DOMAIN checked AS pgq_ext.claimed_job;
CREATE FUNCTION of_domain(checked) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;

-- ---- bad input: an error, and no handler ----

CREATE TABLE call (n int GENERATED ALWAYS AS IDENTITY, arguments text);
INSERT INTO call (arguments) VALUES ($$NULL, 'quiet(pgq_ext.claimed_job)'$$), ($$'q', NULL$$), ($$'q', 'quiet(pgq_ext.claimed_job)', NULL$$),
    ($$'q', 'quiet(pgq_ext.claimed_job)', timeout => NULL$$), ($$'q', 'quiet(pgq_ext.claimed_job)', batch => NULL$$),
    ($$'q', 'quiet(pgq_ext.claimed_job)', idle => NULL$$), ($$'q', 'quiet(pgq_ext.claimed_job)', run_as => NULL$$),
    ($$'', 'quiet(pgq_ext.claimed_job)'$$), ($$'two words', 'quiet(pgq_ext.claimed_job)'$$), ($$'nothing_like_it', 'quiet(pgq_ext.claimed_job)'$$);
INSERT INTO call (arguments) SELECT $$'q', 'quiet(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner', $$ || bad FROM unnest(ARRAY[
    'workers => 0', 'workers => -1', 'workers => 1001', $$timeout => '0'$$, $$timeout => '-1 s'$$, $$timeout => '999 ms'$$, $$timeout => '8 days'$$,
    $$timeout => '178000000 years'$$, $$timeout => '-178000000 years'$$, 'batch => 0', 'batch => -1', 'batch => 10001', $$idle => '-1 s'$$, $$idle => '2 days'$$,
    $$idle => '178000000 years'$$]) WITH ORDINALITY AS b (bad, n) ORDER BY n;
INSERT INTO call (arguments) SELECT $$'q', $$ || bad || $$, run_as => 'regress_pgq_runner'$$ FROM unnest(ARRAY[
    $$'a_procedure(pgq_ext.claimed_job)'$$, $$'an_aggregate(pgq_ext.claimed_job)'$$, $$'rank()'$$, $$'a_set(pgq_ext.claimed_job)'$$, $$'a_table(pgq_ext.claimed_job)'$$,
    $$'no_argument()'$$, $$'wrong_argument(jsonb)'$$, $$'any_record(record)'$$, $$'two_arguments(pgq_ext.claimed_job,int)'$$, $$'a_default(pgq_ext.claimed_job)'$$,
    $$'one_more(pgq_ext.claimed_job,int)'$$, $$'is_variadic(pgq_ext.claimed_job[])'$$, $$'polymorphic(anyelement)'$$, $$'polymorphic(anyarray)'$$,
    $$'wrong_result(pgq_ext.claimed_job)'$$, $$'json_result(pgq_ext.claimed_job)'$$, $$'two_results(pgq_ext.claimed_job)'$$,
    $$'set_based_result(pgq_ext.claimed_job[])'$$, $$'of_trigger()'$$, $$'of_domain(checked)'$$, $$'quiet(text)'$$, $$'quiet'$$, '99999999', '0'])
    WITH ORDINALITY AS b (bad, n) ORDER BY n;
\pset format unaligned
SELECT arguments, answer(arguments) FROM call ORDER BY n;
-- Infinite intervals, on servers that have them.
SELECT answer(format($$'q', 'quiet(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner', %s => '%s%s'$$, name, sign,
    CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 'infinity' ELSE '178000000 years' END))
FROM unnest('{timeout,idle}'::text[]) name, unnest('{"",-}'::text[]) sign;
-- The other functions.
SELECT verb, arguments, answer(arguments, verb) FROM unnest('{pgq_drop_handler,pgq_pause_handler,pgq_resume_handler}'::text[]) WITH ORDINALITY v (verb, n),
    unnest(ARRAY['NULL', $$''$$, $$'two words'$$, $$'nothing_like_it'$$, $$'q'$$]) WITH ORDINALITY a (arguments, m) ORDER BY n, m;
SET default_transaction_read_only = on;
SELECT verb, answer($$'q'$$ || more, verb) FROM (VALUES (1, 'pgq_set_handler', $$, 'quiet(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$),
    (2, 'pgq_drop_handler', ''), (3, 'pgq_pause_handler', ''), (4, 'pgq_resume_handler', '')) v (n, verb, more) ORDER BY n;
RESET default_transaction_read_only;
SELECT count(*) FROM pgq_ext.queue_handler;

-- ---- rights ----

-- Rights of run_as, if the caller is a superuser.
CREATE ROLE regress_pgq_nologin;
CREATE ROLE regress_pgq_super LOGIN SUPERUSER;
CREATE FUNCTION reserved(pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
REVOKE EXECUTE ON FUNCTION reserved FROM PUBLIC;
SELECT arguments, answer($$'q', 'quiet(pgq_ext.claimed_job)'$$ || arguments) FROM unnest(ARRAY['', $$, run_as => 'nothing_like_it'$$, ', run_as => 99999999',
    $$, run_as => 'regress_pgq_nologin'$$, $$, run_as => 'pg_monitor'$$, $$, run_as => 'regress_pgq_super'$$]) WITH ORDINALITY a (arguments, n) ORDER BY n;
SELECT answer($$'q', 'reserved(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$);
GRANT EXECUTE ON FUNCTION pgq_claim TO regress_pgq_runner;
SELECT answer($$'q', 'reserved(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$);
GRANT EXECUTE ON FUNCTION pgq_ack TO regress_pgq_runner;
SELECT answer($$'q', 'reserved(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$);
SET client_min_messages = warning;
SELECT pgq_grant('q', 'regress_pgq_runner', '{enqueue}');
RESET client_min_messages;
SELECT answer($$'q', 'quiet(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$);
SELECT pgq_grant('q', 'regress_pgq_runner', '{claim}');

-- Rights of the caller: EXECUTE, SET ROLE to run_as, and those of run_as. To write the type of the argument takes USAGE on the schema; the name of a
-- function that is not overloaded is enough with regproc.
CREATE ROLE regress_pgq_caller NOINHERIT;
SET ROLE regress_pgq_caller;
SELECT pgq_set_handler('q', 'quiet(pgq_ext.claimed_job)');
SELECT pgq_set_handler('q', 'quiet'::regproc);
RESET ROLE;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_caller;
SET ROLE regress_pgq_caller;
SELECT verb, answer($$'q'$$ || more, verb) FROM (VALUES (1, 'pgq_set_handler', $$, 'quiet(pgq_ext.claimed_job)', run_as => 'regress_pgq_runner'$$),
    (2, 'pgq_drop_handler', ''), (3, 'pgq_pause_handler', ''), (4, 'pgq_resume_handler', '')) v (n, verb, more) ORDER BY n;
SELECT * FROM pgq_ext.queue_handler;
SELECT * FROM pgq_ext.handler;
SELECT * FROM pgq_ext.handler_entries();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler TO regress_pgq_caller;
CREATE FUNCTION tried() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat(q, ', ', f, ': ', answer(format('%L, %L::regproc, run_as => %L', q, f, 'regress_pgq_runner'))) FROM unnest('{q,other}'::text[]) WITH ORDINALITY q (q, n),
    unnest('{quiet,reserved}'::text[]) WITH ORDINALITY f (f, m) ORDER BY n, m $$;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT tried();
ROLLBACK;
GRANT regress_pgq_runner TO regress_pgq_caller;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT tried();
ROLLBACK;
GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO regress_pgq_caller;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT tried();
ROLLBACK;
SELECT pgq_grant('q', 'regress_pgq_caller', '{claim}');
GRANT EXECUTE ON FUNCTION reserved TO regress_pgq_caller;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT tried();
ROLLBACK;
GRANT EXECUTE ON FUNCTION reserved TO regress_pgq_runner;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT tried();
ROLLBACK;
REVOKE regress_pgq_runner FROM regress_pgq_caller;
-- By default run_as is the caller.
GRANT EXECUTE ON FUNCTION pgq_set_handler TO regress_pgq_runner;
BEGIN;
SET LOCAL ROLE regress_pgq_runner;
SELECT pgq_set_handler('q', 'quiet'::regproc), pgq_set_handler('other', 'set_based'::regproc, 3, '1 h', 100, '1 day');
RESET ROLE;
SELECT * FROM pgq_ext.handler ORDER BY queue;
ROLLBACK;
SELECT count(*) FROM pgq_ext.queue_handler;

BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT answer($$'q', 'quiet'::regproc, run_as => 99999999$$);
ROLLBACK;

-- To change a handler: the right admin on the queue, or SET ROLE to run_as.
SELECT pgq_set_handler('q', 'quiet'::regproc, run_as => 'regress_pgq_runner'), pgq_pause_handler('q');
CREATE FUNCTION changed() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat(verb, ': ', answer('''q''' || more, verb)) FROM (VALUES (1, 'pgq_set_handler', ', ''quiet''::regproc'),
    (2, 'pgq_pause_handler', ''), (3, 'pgq_resume_handler', ''), (4, 'pgq_drop_handler', '')) v (n, verb, more) ORDER BY n $$;
ALTER ROLE regress_pgq_caller LOGIN;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT changed();
ROLLBACK;
GRANT regress_pgq_runner TO regress_pgq_caller;
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT changed();
ROLLBACK;
REVOKE regress_pgq_runner FROM regress_pgq_caller;
SELECT pgq_grant('q', 'regress_pgq_caller', '{admin}');
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT changed();
ROLLBACK;
-- pgq_resume_handler also needs what pgq_set_handler needs.
BEGIN;
SET LOCAL ROLE regress_pgq_caller;
SELECT answer('''q''', 'pgq_pause_handler'), answer('''q''', 'pgq_resume_handler');
ROLLBACK;
SELECT handler, run_as, state FROM pgq_ext.handler;
SELECT pgq_drop_handler('q'), pgq_drop_handler('q');

-- ---- jobs ----

\pset format aligned
CREATE TABLE ran (n int GENERATED ALWAYS AS IDENTITY, what text, who name, payload jsonb, attempt int, grouped text, headers jsonb);
GRANT INSERT ON ran TO regress_pgq_runner;
CREATE FUNCTION noted(job pgq_ext.claimed_job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.ran (what, who, payload, attempt, grouped, headers) VALUES (job.queue, session_user, job.payload, job.attempt, job.group_key, job.headers);
    IF job.payload ? 'wrong' THEN
        RAISE 'this is %', job.payload ->> 'wrong' USING ERRCODE = 'P0042', DETAIL = 'in detail';
    END IF;
    RETURN jsonb_build_object('n', job.payload);
END $$;
CREATE FUNCTION noted_together(jobs pgq_ext.claimed_job[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.ran (what, who, payload) SELECT 'batch', session_user, jsonb_agg((j).payload ORDER BY (j).job_id) FROM unnest(jobs) j $$;
SELECT pgq_set_handler('q', 'noted'::regproc, run_as => 'regress_pgq_runner');
SELECT pgq_enqueue('q', '{"a": 1}', group_key => 'g', headers => '{"h": 1}') AS job \gset
SELECT state, result, error FROM pgq_result(:job, '60 s');
SELECT what, who, payload, attempt, grouped, headers FROM ran;
SELECT outcome, worker, attempts FROM pgq_ext.finished_job WHERE job_id = :job;
-- An error of the call is that of the attempt, and nothing that the call has written stays.
SELECT pgq_enqueue('q', '{"wrong": "hard"}') AS job \gset
SELECT state, result, error FROM pgq_result(:job, '60 s');
SELECT what, payload FROM ran ORDER BY n;
SELECT await('calls = 2 AND failures = 1 FROM pgq_ext.handler');
SELECT queue, handler, run_as, workers, batch, timeout, state IN ('active', 'idle') AS runs, reason, since, next_try_at, calls, failures, last_error FROM pgq_ext.handler;

-- A paused handler is not called, and clients may claim. The pause outlasts another pgq_set_handler, here of a function for all jobs of a batch.
SELECT pgq_pause_handler('q'), pgq_pause_handler('q');
SELECT await($$state = 'paused' AND since > now() - interval '1 min' FROM pgq_ext.handler$$);
SELECT pgq_set_handler('q', 'noted_together'::regproc, batch => 10, run_as => 'regress_pgq_runner');
SELECT count(*), max(id) AS job FROM pgq_enqueue_many('q', '[{"payload": 1}, {"payload": 2}, {"payload": 3}, {"payload": 4}]') id \gset
SELECT state FROM pgq_result(:job, '100 ms');
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q');
SELECT ready, leased FROM pgq_ext.queue_status WHERE queue = 'q';
SELECT await($$state = 'paused' AND running = 0 FROM pgq_ext.handler$$);
SELECT pgq_resume_handler('q');
SELECT state, result FROM pgq_result(:job, '60 s');
SELECT what, who, payload FROM ran WHERE what = 'batch';
SELECT await('calls = 3 AND failures = 1 FROM pgq_ext.handler');
-- To resume a handler that runs changes nothing.
SELECT pgq_resume_handler('q');
SELECT pgq_enqueue('q', '5') AS job \gset
SELECT state FROM pgq_result(:job, '60 s');

-- A handler that was dropped is not called; clients get the jobs.
SELECT pgq_drop_handler('q');
SELECT pgq_enqueue('q', '"mine"') > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q');
SELECT * FROM pgq_ext.handler;
SELECT await('count(*) = 0 FROM pgq_ext.handler_entries()');

-- ---- transactions ----

BEGIN;
SELECT pgq_set_handler('q', 'noted'::regproc, run_as => 'regress_pgq_runner'), pgq_enqueue('q', '"undone"') > 0 AS enqueued;
SELECT queue, state FROM pgq_ext.handler;
SAVEPOINT s;
SELECT pgq_drop_handler('q');
SELECT queue, state FROM pgq_ext.handler;
ROLLBACK TO s;
SELECT pgq_pause_handler('q');
SELECT queue, state FROM pgq_ext.handler;
ROLLBACK;
SELECT queue, state FROM pgq_ext.handler;
-- Workers do not see changes that were undone to a savepoint.
BEGIN;
SELECT pgq_set_handler('q', 'noted'::regproc, run_as => 'regress_pgq_runner');
SAVEPOINT s;
SELECT pgq_set_handler('q', 'noted_together'::regproc, run_as => 'regress_pgq_runner'), pgq_pause_handler('q');
ROLLBACK TO s;
COMMIT;
SELECT pgq_enqueue('q', '6') AS job \gset
SELECT state, result FROM pgq_result(:job, '60 s');
-- A prepared change takes effect at COMMIT PREPARED.
BEGIN;
SELECT pgq_pause_handler('q');
PREPARE TRANSACTION 'regress_pgq_handler';
SELECT state IN ('idle', 'active') AS runs FROM pgq_ext.handler;
SELECT pgq_enqueue('q', '7') AS job \gset
SELECT state, result FROM pgq_result(:job, '60 s');
COMMIT PREPARED 'regress_pgq_handler';
SELECT await($$state = 'paused' FROM pgq_ext.handler$$);
BEGIN;
SELECT pgq_resume_handler('q');
PREPARE TRANSACTION 'regress_pgq_handler';
ROLLBACK PREPARED 'regress_pgq_handler';
SELECT pgq_enqueue('q', '8') AS job \gset
SELECT state, result FROM pgq_result(:job, '100 ms');
BEGIN;
SELECT pgq_resume_handler('q');
PREPARE TRANSACTION 'regress_pgq_handler';
COMMIT PREPARED 'regress_pgq_handler';
SELECT state, result FROM pgq_result(:job, '60 s');

-- ---- the queue changes ----

SELECT pgq_rename_queue('q', 'named');
SELECT pgq_enqueue('named', '9') AS job \gset
SELECT state, result FROM pgq_result(:job, '60 s');
SELECT what, payload FROM ran WHERE what <> 'batch' ORDER BY n DESC LIMIT 1;
SELECT queue, run_as, await($$calls = 8 FROM pgq_ext.handler$$) FROM pgq_ext.handler;
SELECT pgq_rename_queue('named', 'q');
-- If two queues swap their names, the handler runs the jobs of its queue only.
BEGIN;
SELECT pgq_rename_queue('q', 'named'), pgq_rename_queue('other', 'q'), pgq_rename_queue('named', 'other');
COMMIT;
SELECT queue FROM pgq_ext.handler;
BEGIN;
SELECT pgq_enqueue('q', '"of a client"') AS other_job, pgq_enqueue('other', '"of the handler"') AS job \gset
COMMIT;
SELECT state, result FROM pgq_result(:job, '60 s');
SELECT state FROM pgq_result(:other_job);
SELECT pgq_purge_queue('q');
BEGIN;
SELECT pgq_rename_queue('q', 'named'), pgq_rename_queue('other', 'q'), pgq_rename_queue('named', 'other');
COMMIT;
BEGIN;
SELECT pgq_drop_queue('q', force => true);
SELECT count(*) FROM pgq_ext.queue_handler;
ROLLBACK;
SELECT pgq_enqueue('q', '10') AS job \gset
SELECT state, result FROM pgq_result(:job, '60 s');

-- ---- handlers that may not run any more ----

-- A row as from a dump: no job is run before pgq_resume_handler.
UPDATE pgq_ext.queue_handler SET stamp = stamp + 1;
SELECT await($$state = 'suspended' FROM pgq_ext.handler$$);
SELECT state, reason, since IS NOT NULL AS since FROM pgq_ext.handler;
SELECT pgq_enqueue('q', '11') AS job \gset
SELECT state FROM pgq_result(:job, '100 ms');
SELECT pgq_resume_handler('q');
SELECT state, result FROM pgq_result(:job, '60 s');
SELECT state IN ('idle', 'active') AS runs, reason, since FROM pgq_ext.handler;
-- A function with another owner, another name, or none: jobs wait, and lose no attempt.
ALTER FUNCTION noted OWNER TO regress_pgq_super;
SELECT pgq_enqueue('q', '12') AS job \gset
SELECT await($$state = 'suspended' FROM pgq_ext.handler$$);
SELECT state, reason FROM pgq_ext.handler;
SELECT pgq_resume_handler('q');
SELECT state, result FROM pgq_result(:job, '60 s');
SELECT attempt FROM ran WHERE payload = '12';
ALTER FUNCTION noted RENAME TO noted_2;
SELECT pgq_enqueue('q', '13') AS job \gset
SELECT await($$state = 'suspended' FROM pgq_ext.handler$$);
SELECT state, reason FROM pgq_ext.handler;
SELECT answer('''q''', 'pgq_resume_handler');
ALTER FUNCTION noted_2 RENAME TO noted;
SELECT state, result FROM pgq_result(:job, '60 s');
DROP FUNCTION noted;
SELECT pgq_enqueue('q', '14') AS job \gset
SELECT await($$state = 'suspended' FROM pgq_ext.handler$$);
SELECT state, reason FROM pgq_ext.handler;
SELECT answer('''q''', 'pgq_resume_handler');
SELECT pgq_set_handler('q', 'echo'::regproc, run_as => 'regress_pgq_runner');
SELECT state, result FROM pgq_result(:job, '60 s');
ALTER ROLE regress_pgq_runner NOLOGIN;
SELECT await($$state = 'suspended' FROM pgq_ext.handler$$);
SELECT reason FROM pgq_ext.handler;
ALTER ROLE regress_pgq_runner LOGIN;
SELECT pgq_enqueue('q', '15') AS job \gset
SELECT state, result FROM pgq_result(:job, '60 s');

-- ---- rows of the table by hand ----

\set VERBOSITY terse
UPDATE pgq_ext.queue_handler SET workers = 0;
UPDATE pgq_ext.queue_handler SET workers = 1001;
UPDATE pgq_ext.queue_handler SET timeout = '0.999999 s';
UPDATE pgq_ext.queue_handler SET timeout = '7 days 1 us';
UPDATE pgq_ext.queue_handler SET batch = 0;
UPDATE pgq_ext.queue_handler SET batch = 10001;
UPDATE pgq_ext.queue_handler SET idle = '-1 us';
UPDATE pgq_ext.queue_handler SET idle = '1 day 1 us';
\set VERBOSITY default
-- To delete the row is to drop the handler.
DELETE FROM pgq_ext.queue_handler;
SELECT pgq_enqueue('q', '"mine"') > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q');
-- A row of a queue that does not exist changes nothing.
INSERT INTO pgq_ext.queue_handler SELECT -1, 'echo'::regproc, 'public', 'echo', 10, false, 1, '1 min', 1, '10 s', 'regress_pgq_runner'::regrole, 'regress_pgq_runner', false, false, 0, 150000, now();
SELECT * FROM pgq_ext.handler;
DELETE FROM pgq_ext.queue_handler;

-- ---- the view, settings and duties ----

SELECT string_agg(concat(attname, ' ', format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pgq_ext.handler'::regclass AND attnum > 0;
SELECT name, setting, boot_val, min_val, max_val, context FROM pg_settings WHERE name IN ('pgq_ext.max_handler_workers', 'pgq_ext.superuser_handlers');
SET pgq_ext.superuser_handlers = on;
SELECT duty, queue, failures FROM pgq_ext.duty WHERE duty IN ('handlers', 'handler') AND queue IS DISTINCT FROM 'other' ORDER BY duty;
-- Readers of the view: which of them see the handler of a closed queue, and the last error.
CREATE ROLE regress_pgq_watcher IN ROLE pg_monitor;
CREATE ROLE regress_pgq_reader;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_reader;
GRANT SELECT ON pgq_ext.handler TO regress_pgq_reader;
CREATE FUNCTION fails(pgq_ext.claimed_job[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'a secret'; END $$;
SELECT pgq_set_handler(queue, 'fails'::regproc, run_as => 'regress_pgq_runner') FROM unnest('{q,other}'::text[]) queue;
SELECT pgq_alter_queue('other', max_attempts => 1), pgq_enqueue('q', '1') AS job, pgq_enqueue('other', '1') AS other_job \gset
SELECT state, error FROM pgq_result(:job, '60 s') UNION ALL SELECT state, error FROM pgq_result(:other_job, '60 s');
SELECT await('min(failures) > 0 FROM pgq_ext.handler');
CREATE FUNCTION seen() RETURNS TABLE (queue text, handler text, run_as text, last_error text) LANGUAGE sql AS 'SELECT queue, handler, run_as, last_error FROM pgq_ext.handler ORDER BY 1';
SELECT * FROM seen();
SET ROLE regress_pgq_reader;
SELECT * FROM seen();
SELECT count(*) FROM pgq_ext.handler_entries();
SET ROLE regress_pgq_watcher;
SELECT * FROM seen();
SELECT DISTINCT last_error FROM pgq_ext.handler_entries();
RESET ROLE;
GRANT SELECT (last_error) ON pgq_ext.handler TO regress_pgq_watcher;
SET ROLE regress_pgq_watcher;
SELECT * FROM seen();
RESET ROLE;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue(q, force => true) FROM unnest('{q,other}'::text[]) q;
SELECT count(*) FROM pgq_ext.queue_handler;
DROP TABLE ran, call;
DROP FUNCTION answer, await, rows, tried, changed, seen, quiet, echo, named, set_based, a_set, a_table, no_argument, wrong_argument, any_record,
    two_arguments, a_default, one_more, is_variadic, polymorphic(anyelement), polymorphic(anyarray), wrong_result, json_result, two_results,
    set_based_result, of_trigger, of_domain, reserved, noted_together, fails;
DROP AGGREGATE an_aggregate(pgq_ext.claimed_job);
DROP PROCEDURE a_procedure;
DROP DOMAIN checked;
DROP OWNED BY regress_pgq_runner, regress_pgq_caller, regress_pgq_super, regress_pgq_reader, regress_pgq_watcher;
DROP ROLE regress_pgq_runner, regress_pgq_nologin, regress_pgq_super, regress_pgq_caller, regress_pgq_watcher, regress_pgq_reader;
