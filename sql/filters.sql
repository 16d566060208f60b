-- Filters of pgq_redrive and pgq_retry; pgq_run_again.
SET timezone = 'UTC';
SELECT pgq_create_queue('f', backoff_base => '1 h', backoff_jitter => 0, keep_finished => '1 day'), pgq_create_queue('other');

-- ---- redrive ----
-- Dead letters one to seven, which died one hour after the other.
CREATE FUNCTION kill_seven() RETURNS void LANGUAGE sql AS $$
	DELETE FROM pgq_ext.dead_job;
	INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, last_error, group_key, payload)
	SELECT n, queue_id, '2030-01-01'::timestamptz + n * interval '1 h', '2029-01-01', '2029-01-01', 0, 1, 'test', error, grp, to_jsonb(n)
	FROM pgq_ext.queue, (VALUES (1, 'timeout of smtp', 'a'), (2, 'no such address', 'b'), (3, 'timeout of dns', NULL), (4, NULL, 'a'), (5, '100 %', 'b'),
	                            (6, E'no such\naddress', NULL), (7, 'large \', 'a')) v (n, error, grp)
	WHERE queue = 'f'
$$;
-- Redrive by these arguments: which jobs are back; then all is as before.
CREATE FUNCTION back(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint; jobs text;
BEGIN
	PERFORM kill_seven();
	EXECUTE format('SELECT pgq_redrive(%s)', concat_ws(', ', quote_literal('f'), nullif(arguments, ''))) INTO n;
	SELECT string_agg(payload::text, ' ' ORDER BY job_id) INTO jobs FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'f';
	PERFORM pgq_purge_queue('f');
	RETURN concat_ws(': ', n, jobs);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT arguments, back(arguments) FROM (VALUES
	(''), ('NULL'), ('3'), ('max_jobs => 0'), ('NULL, NULL, NULL, NULL, NULL'),
	($$error_like => 'timeout%'$$), ($$error_like => 'timeout'$$), ($$error_like => '%such_address'$$), ($$error_like => '%'$$),
	($$error_like => '100 \%'$$), ($$error_like => '%\\'$$), ($$error_like => 'l__ge%'$$), ($$error_like => 'TIMEOUT%'$$), ($$error_like => NULL$$),
	($$died_since => '2030-01-01 03:00'$$), ($$died_before => '2030-01-01 03:00'$$),
	($$died_since => '2030-01-01 02:00', died_before => '2030-01-01 04:00'$$),
	($$died_since => '2030-01-01 02:00', died_before => '2030-01-01 02:00'$$),
	($$died_since => '-infinity', died_before => 'infinity'$$), ($$died_since => 'infinity'$$),
	($$group_key => 'a'$$), ($$group_key => 'A'$$), ($$group_key => 'a', max_jobs => 2$$),
	($$error_like => '%t%', group_key => 'b', died_before => '2030-01-01 05:00'$$),
	($$2, '%timeout%', '2030-01-01 02:00', '2030-01-02', NULL$$)) v (arguments);
-- A text that SQL has written is not looked at beyond 8192 characters.
SELECT kill_seven();
UPDATE pgq_ext.dead_job SET last_error = repeat('x', 8191) || 'yz' WHERE job_id = 1;
SELECT pgq_redrive('f', error_like => '%z'), pgq_redrive('f', error_like => 'x%y');
-- What a filter refuses, before anything is changed.
SELECT kill_seven();
SELECT arguments, back(arguments) FROM (VALUES
	($$error_like => ''$$), ($$error_like => repeat('x', 1001)$$), ($$error_like => '%\'$$), ($$error_like => '%\\\'$$),
	($$died_since => '2030-01-02', died_before => '2030-01-01'$$), ($$group_key => ''$$), ($$group_key => repeat('g', 256)$$), ($$max_jobs => -1, error_like => '%'$$)) v (arguments);
SELECT count(*) FROM pgq_ext.dead_job;
SELECT pgq_redrive('f', error_like => '%\');
-- Of another queue, none; a job with the id of a dead letter keeps it.
SELECT pgq_redrive('other', error_like => '%');
INSERT INTO pgq_ext.job (job_id, queue_id, payload) SELECT 2, queue_id, '"live"' FROM pgq_ext.queue WHERE queue = 'other';
SELECT back($$error_like => 'no such%'$$);
SELECT job_id FROM pgq_ext.dead_job WHERE last_error LIKE 'no such%';
SELECT pgq_purge_queue('other');
-- Undone with a savepoint; more than one step.
TRUNCATE pgq_ext.dead_job;
INSERT INTO pgq_ext.dead_job (job_id, queue_id, died_at, enqueued_at, run_at, priority, attempts, reason, last_error, payload)
SELECT 10000 + n, queue_id, '2030-01-01', '2029-01-01', '2029-01-01', n, 1, 'test', 'error ' || n % 3, '1' FROM pgq_ext.queue, generate_series(1, 4500) n WHERE queue = 'f';
BEGIN;
SAVEPOINT s;
SELECT pgq_redrive('f', error_like => '%2');
ROLLBACK TO s;
SELECT pgq_redrive('f', 1200, error_like => '%1'), pgq_redrive('f', 1200, error_like => '%1');
COMMIT;
SELECT count(*), min(priority), max(priority), count(DISTINCT job_id) FROM pgq_ext.job;
SELECT pgq_redrive('f', 1001), count(*) FROM pgq_ext.dead_job;
SELECT pgq_purge_queue('f');
TRUNCATE pgq_ext.dead_job;
-- There is no room for all that match, but for some.
SELECT kill_seven();
SELECT pgq_alter_queue('f', max_depth => 2);
SELECT pgq_redrive('f', group_key => 'a');
SELECT pgq_redrive('f', group_key => 'b');
SELECT pgq_alter_queue('f', max_depth => 0), pgq_purge_queue('f');
DELETE FROM pgq_ext.dead_job;

-- ---- retry ----
SELECT pgq_enqueue('f', '1', group_key => 'a') AS job \gset
SELECT pgq_fail(job_id, lease, 'timeout of smtp') FROM pgq_claim('f');
CREATE VIEW due AS SELECT state, attempts FROM pgq_ext.job_status;
SELECT pgq_retry(:job, error_like => 'no%'), pgq_retry(:job, group_key => 'b'), pgq_retry(:job, died_since => '-infinity'), pgq_retry(:job, died_before => 'infinity'),
       pgq_retry(:job, '0', 'time%', NULL, NULL, 'b');
TABLE due;
SELECT pgq_retry(:job, error_like => '%smtp', group_key => 'a');
TABLE due;
SELECT pgq_fail(job_id, lease, 'dead', retry => false) FROM pgq_claim('f');
SELECT pgq_retry(:job, error_like => '%smtp'), pgq_retry(:job, group_key => 'b'), pgq_retry(:job, died_since => 'infinity'), pgq_retry(:job, died_before => '2001-01-01');
SELECT count(*) FROM due;
SELECT pgq_retry(:job, '1 h', error_like => 'dead', group_key => 'a', died_since => '2001-01-01', died_before => 'infinity');
TABLE due;
SELECT pgq_retry(:job, error_like => '\');
SELECT pgq_retry(:job, died_since => 'infinity', died_before => '-infinity');
-- A job without an error, and without a group
SELECT pgq_update(:job, queue => 'other');
SELECT pgq_enqueue('f', '2') AS job \gset
SELECT pgq_retry(:job, error_like => '%'), pgq_retry(:job, group_key => 'a'), pgq_retry(:job);
SELECT pgq_purge_queue('f'), pgq_purge_queue('other');
DROP VIEW due;

-- ---- run again ----
CREATE VIEW jobs AS SELECT queue, payload, headers, j.priority, group_key, unique_key, attempts, j.max_attempts, batch_id, parents, blocked FROM pgq_ext.job j JOIN pgq_ext.queue q USING (queue_id);
SELECT pgq_enqueue('f', '{"a": 1}', priority => 3, group_key => 'g', max_attempts => 7, headers => '{"h": 1}', expires_in => '1 day') AS job \gset
SELECT pgq_fail(job_id, lease, 'once', retry_in => '0') FROM pgq_claim('f');
SELECT pgq_ack(job_id, lease, '"result"') FROM pgq_claim('f');
SELECT pgq_run_again(:job) AS again \gset
SELECT :again > :job AS greater, pgq_run_again(:job) > :again AS once_more;
SELECT queue, payload, (headers ->> 'run_again_of')::bigint = :job AS of_it, headers - 'run_again_of' AS headers, priority, group_key, unique_key, attempts, max_attempts FROM jobs;
SELECT last_error, progress, expires_at, run_at <= clock_timestamp() AS due, run_at = enqueued_at AS new FROM pgq_ext.job;
-- The record stays as it is, and so does its job.
SELECT count(*), max(outcome), max(result::text) FROM pgq_ext.finished_job;
SELECT state, result FROM pgq_result(:job);
-- One that is run again is run again: the header names the last one.
SELECT job_id = :again AS first, pgq_ack(job_id, lease) FROM pgq_claim('f');
SELECT pgq_run_again(:again) AS third \gset
SELECT headers ->> 'run_again_of' = :'again' AS of_again, headers ->> 'h' AS h FROM pgq_ext.job WHERE job_id = :third;
SELECT pgq_purge_queue('f');
-- Cancelled, expired; headers that are no object; no id, no record
SELECT pgq_enqueue('f', '"cancelled"', headers => '[1]') AS cancelled, pgq_enqueue('f', '"expired"', headers => '"text"') AS expired \gset
SELECT pgq_cancel(:cancelled), pgq_cancel(:expired);
UPDATE pgq_ext.finished_job SET outcome = 'expired' WHERE job_id = :expired;
SELECT pgq_run_again(:cancelled) > 0 AS cancelled, pgq_run_again(:expired) > 0 AS expired;
SELECT payload, headers FROM jobs ORDER BY 1;
SELECT pgq_run_again(0), pgq_run_again((SELECT min(job_id) FROM pgq_ext.job)) AS live;
SELECT pgq_fail(job_id, lease, retry => false) FROM pgq_claim('f', 2);
SELECT pgq_run_again((SELECT min(job_id) FROM pgq_ext.dead_job)) AS dead;
DELETE FROM pgq_ext.dead_job;
SELECT pgq_run_again(NULL);
SELECT pgq_enqueue('other', '1') AS unkept \gset
SELECT pgq_ack(job_id, lease) FROM pgq_claim('other');
SELECT pgq_run_again(:unkept);
-- In the transaction of the ack; undone
SELECT pgq_enqueue('f', '1') AS job \gset
BEGIN;
SELECT pgq_ack(job_id, lease) FROM pgq_claim('f');
SAVEPOINT s;
SELECT pgq_run_again(:job) > :job AS again;
ROLLBACK TO s;
SELECT count(*) FROM jobs;
SELECT pgq_run_again(:job) > :job AS again;
ROLLBACK;
SELECT pgq_run_again(:job);
SELECT pgq_cancel(:job), pgq_purge_queue('f');
-- A unique key: a live job has it; one that has ended does not, whatever its unique_for.
SELECT pgq_enqueue('f', '"keyed"', unique_key => 'k', unique_for => '1 day') AS job \gset
SELECT pgq_ack(job_id, lease) FROM pgq_claim('f');
SELECT pgq_enqueue('f', '2', unique_key => 'k') = :job AS still_taken;
SELECT pgq_run_again(:job) AS again \gset
SELECT payload, unique_key FROM jobs;
\set SHOW_CONTEXT never
DO $$ BEGIN PERFORM pgq_run_again(job_id) FROM pgq_ext.finished_job WHERE unique_key = 'k'; EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N'); END $$;
SELECT pgq_enqueue('f', '2', unique_key => 'k') = :again AS its_key;
SELECT pgq_cancel(:again);
SELECT pgq_run_again(:job) > :again AS free;
SELECT pgq_purge_queue('f');
-- A member of a batch, and a parent: the new job is neither.
SELECT pgq_create_batch() AS batch \gset
SELECT pgq_enqueue('f', '"member"', batch => :batch) AS job \gset
SELECT pgq_enqueue('f', '"child"', after => ARRAY[:job]) AS child \gset
SELECT pgq_close_batch(:batch);
SELECT pgq_ack(job_id, lease) FROM pgq_claim('f');
SELECT job_id = :child AS child, pgq_ack(job_id, lease) FROM pgq_claim('f', wait => '60 s');
SELECT pgq_run_again(:job) > :child AS member, pgq_run_again(:child) > :child AS child;
SELECT payload, batch_id, parents, blocked FROM jobs ORDER BY 1;
SELECT total, acked FROM pgq_ext.batch WHERE batch = :batch;
SELECT pgq_purge_queue('f');
-- Deleted when the scheduler has seen the end of the batch.
DO $$ BEGIN WHILE EXISTS (SELECT FROM pgq_ext.batch WHERE state <> 'finished') LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
DELETE FROM pgq_ext.job_batch WHERE batch_id = :batch;
DELETE FROM pgq_ext.batch_note WHERE batch_id = :batch;
-- The queue is full, renamed, gone.
SELECT pgq_alter_queue('f', max_depth => 1);
SELECT pgq_run_again(:job) > 0 AS again;
SELECT pgq_run_again(:job);
SELECT pgq_alter_queue('f', max_depth => 0), pgq_rename_queue('f', 'g');
SELECT pgq_run_again(:job) > 0 AS again;
SELECT queue, count(*) FROM jobs GROUP BY 1;
INSERT INTO pgq_ext.finished_job (job_id, finished_at, enqueued_at, run_at, queue_id, priority, attempts, outcome, payload) VALUES (4503599627370495, now(), now(), now(), 987654, 0, 0, 'acked', '1');
SELECT pgq_run_again(4503599627370495);
DELETE FROM pgq_ext.finished_job WHERE queue_id = 987654;
SELECT pgq_drop_queue('g', force => true);
SELECT pgq_run_again(:job);

-- ---- rights ----
-- No right: as an unknown id. Inspect shows the record, enqueue allows the new job; pgq_retry and pgq_redrive need admin.
CREATE ROLE regress_pgq_nobody;
CREATE ROLE regress_pgq_looker;
CREATE ROLE regress_pgq_sender;
CREATE ROLE regress_pgq_both;
CREATE ROLE regress_pgq_head;
GRANT EXECUTE ON FUNCTION pgq_run_again, pgq_retry, pgq_redrive TO regress_pgq_nobody, regress_pgq_looker, regress_pgq_sender, regress_pgq_both, regress_pgq_head;
SELECT pgq_create_queue('closed', keep_finished => '1 day');
SELECT pgq_grant('closed', 'regress_pgq_looker', '{inspect}'), pgq_grant('closed', 'regress_pgq_sender', '{enqueue}'), pgq_grant('closed', 'regress_pgq_both', '{inspect,enqueue}'), pgq_grant('closed', 'regress_pgq_head', '{admin}');
SELECT pgq_enqueue('closed', '"finished"') AS finished \gset
SELECT pgq_ack(job_id, lease) FROM pgq_claim('closed');
SELECT pgq_enqueue('closed', '"dead"') AS dead \gset
SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('closed');
CREATE FUNCTION tried_as(role text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
	PERFORM set_config('role', role, true);
	EXECUTE command INTO answer;
	PERFORM set_config('role', 'none', true);
	RETURN coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT role, tried_as('regress_pgq_' || role, format('SELECT pgq_run_again(%s) > 0', :finished)) AS run_again, tried_as('regress_pgq_' || role, format('SELECT pgq_run_again(%s)', :dead)) AS dead,
	tried_as('regress_pgq_' || role, format('SELECT pgq_retry(%s, error_like => %L)', :dead, 'other')) AS retry, tried_as('regress_pgq_' || role, $$SELECT pgq_redrive('closed', error_like => 'other')$$) AS redrive
FROM unnest('{nobody,looker,sender,both,head}'::text[]) role;
SELECT pgq_drop_queue('closed', force => true);
DROP FUNCTION tried_as;
DROP OWNED BY regress_pgq_nobody, regress_pgq_looker, regress_pgq_sender, regress_pgq_both, regress_pgq_head;
DROP ROLE regress_pgq_nobody, regress_pgq_looker, regress_pgq_sender, regress_pgq_both, regress_pgq_head;

-- ---- what a filter of pgq_retry refuses ----
SELECT pgq_retry(1, error_like => '');
SELECT pgq_retry(1, error_like => '\');
SELECT pgq_retry(1, error_like => repeat('%', 1001));
SELECT pgq_retry(1, died_since => '2030-01-01 00:00:01+00', died_before => '2030-01-01 00:00+00');
SELECT pgq_retry(1, group_key => '');
SELECT pgq_retry(NULL, error_like => '%');
SELECT pgq_redrive('othr', error_like => '%');

SELECT * FROM pgq_check();
SELECT pgq_drop_queue('other', force => true);
DROP VIEW jobs;
DROP FUNCTION kill_seven, back;
