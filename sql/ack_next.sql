-- pgq_ack_next: pgq_ack_claim for one job, without arrays. What it answers to a stale lease is in stale.sql, how it runs in a query is in claim_scan.sql.
SELECT pgq_create_queue('q', lease_time => '1 h'), pgq_create_queue('open');
SELECT * FROM pgq_ack_next(NULL, NULL, 'q');
SELECT pgq_enqueue('q', to_jsonb('one ' || i)) > 0 AS enqueued FROM generate_series(1, 3) i;
SELECT job_id, lease, payload FROM pgq_ack_next(NULL, NULL, 'q') \gset
SELECT job_id AS next_job, lease AS next_lease, :'payload' AS acked, payload, attempt FROM pgq_ack_next(:job_id, :lease, 'q', '1 min', 'me') \gset
SELECT :'acked' AS acked, :'payload' AS payload, :attempt AS attempt, worker, lease_expires_at - claimed_at AS lease_time FROM pgq_ext.lease WHERE job_id = :next_job;
-- Rolled back, the second job is still in work, and the third is claimed again.
BEGIN;
SELECT payload FROM pgq_ack_next(:next_job, :next_lease, 'q');
ROLLBACK;
SELECT pgq_ack(:next_job, :next_lease);
CREATE TABLE mine AS SELECT job_id, lease, payload, attempt FROM pgq_claim('q', wait => '60 s');
SELECT payload, attempt FROM mine;
GRANT SELECT ON mine TO PUBLIC;

-- Bad input: an error, and the job keeps its lease.
CREATE FUNCTION job() RETURNS bigint LANGUAGE sql AS 'SELECT job_id FROM public.mine';
CREATE FUNCTION lease() RETURNS bigint LANGUAGE sql AS 'SELECT lease FROM public.mine';
CREATE FUNCTION answer(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text; code text; message text; detail text; hint text;
BEGIN
    EXECUTE format('SELECT count(*) FROM pgq_ack_next(%s)', arguments) INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat(code, ': ', regexp_replace(message, '\m\d+', 'N', 'g'), '. ' || nullif(detail, ''), ' (' || nullif(hint, '') || ')');
END $$;
CREATE TABLE call (n int GENERATED ALWAYS AS IDENTITY, arguments text);
INSERT INTO call (arguments) VALUES ($$NULL, 1, 'q'$$), ($$1, NULL, 'q'$$), ($$NULL, NULL, NULL$$), ($$NULL, NULL, 'nothing_like_it'$$), ($$job(), 1, 'q'$$),
    ($$job(), lease(), 'nothing_like_it'$$), ($$job(), lease(), 'q', '0'$$);
\pset format unaligned
SELECT arguments, answer(arguments) FROM call ORDER BY n;
SET default_transaction_read_only = on;
SELECT answer($$NULL, NULL, 'q'$$);
RESET default_transaction_read_only;
SELECT count(*) FROM pgq_ext.lease JOIN mine USING (job_id, lease);

-- The right to claim from the queue of the job. To a role without it there is no such job, whether there is one or not.
CREATE ROLE regress_pgq_worker;
GRANT EXECUTE ON FUNCTION pgq_ack_next TO regress_pgq_worker;
SET client_min_messages = warning;
SELECT pgq_grant('q', 'regress_pgq_worker', '{enqueue}');
SET ROLE regress_pgq_worker;
SELECT answer($$NULL, NULL, 'q'$$), answer($$NULL, NULL, 'open'$$);
SELECT answer($$job(), lease(), 'open'$$), answer($$9007199254740991, 1, 'open'$$);
-- It keeps no lock of the segments, which would keep them from being truncated.
BEGIN;
SELECT answer($$job(), lease(), 'open'$$), answer($$9007199254740991, 1, 'open'$$);
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowExclusiveLock' AND relation::regclass::text ~ '^pgq_ext\.job_\d';
COMMIT;
RESET ROLE;
SELECT count(*) FROM pgq_ext.lease JOIN mine USING (job_id, lease);
SELECT pgq_grant('q', 'regress_pgq_worker', '{claim}');
-- The right to claim from the queue of the next job: without it the job stays in work, with it the job has ended.
SELECT pgq_grant('open', 'regress_pgq_worker', '{enqueue}');
SET ROLE regress_pgq_worker;
SELECT answer($$job(), lease(), 'open'$$);
SELECT answer($$job(), lease(), 'q'$$);
SELECT answer($$job(), lease(), 'q'$$);
RESET ROLE;
\pset format aligned
SELECT * FROM pgq_check();
SELECT pgq_drop_queue(q) FROM unnest('{q,open}'::text[]) q;
DROP OWNED BY regress_pgq_worker;
DROP ROLE regress_pgq_worker;
DROP FUNCTION answer, job, lease;
DROP TABLE mine, call;
