-- Claims in FROM have a scan node of their own (pgq_ext.claim_scan). They return what a function scan returns.
\set VERBOSITY terse
SELECT pgq_create_queue('q'), pgq_create_queue('r');
CREATE FUNCTION pg_temp.fill(queue text, jobs int) RETURNS bigint LANGUAGE sql
RETURN (SELECT count(*) FROM pgq_enqueue_many(queue, (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, jobs) i)));
CREATE FUNCTION pg_temp.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS off, VERBOSE) ' || query LOOP
        IF line ~ 'Scan|Output|Call' THEN
            RETURN NEXT line;
        END IF;
    END LOOP;
END $$;

-- The kind of the node only.
CREATE FUNCTION pg_temp.node(query text) RETURNS SETOF text LANGUAGE sql
BEGIN ATOMIC
    SELECT substring(p, '(?:Custom|Function) Scan') FROM pg_temp.plan(query) p WHERE p ~ 'Function Scan on .*pgq_claim|Custom Scan';
END;

-- The node makes the columns that are used.
SELECT * FROM pg_temp.plan('SELECT payload, lease FROM pgq_claim(''q'', 2) WHERE attempt = 1');
SELECT * FROM pg_temp.plan('SELECT count(*) FROM pgq_claim_any(''{q}'')');
SELECT * FROM pg_temp.plan('SELECT job_id FROM pgq_ack_claim(ARRAY[1], ARRAY[1], ''q'')');
SELECT * FROM pg_temp.node('SELECT job_id FROM pgq_ack_next(1, 1, ''q'')');
-- The server's node, where the query needs what the other one does not have.
SELECT * FROM pg_temp.node('SELECT c FROM pgq_claim(''q'') c');
SELECT * FROM pg_temp.node('SELECT job_id FROM pgq_claim(''q'') WITH ORDINALITY');
SELECT * FROM pg_temp.node('SELECT job_id FROM generate_series(1, 2) i, LATERAL pgq_claim(''q'', i) c');
SELECT * FROM pg_temp.node('SELECT job_id FROM ROWS FROM (pgq_claim(''q''), generate_series(1, 2))');
-- A subquery without references is evaluated before, and is a parameter then.
SELECT * FROM pg_temp.node('SELECT job_id FROM pgq_claim((SELECT max(queue) FROM pgq_ext.queue WHERE queue < ''r'' OR now() IS NULL)) c');
-- A function that is not called as declared, and another one with the same symbol.
BEGIN;
ALTER FUNCTION pgq_claim STRICT;
SELECT * FROM pg_temp.node('SELECT job_id FROM pgq_claim(''q'')');
CREATE FUNCTION pg_temp.my_pgq_claim(text, int, interval, interval, text, boolean) RETURNS SETOF record LANGUAGE c AS '$libdir/pgq_ext', 'pgq_claim';
SELECT * FROM pg_temp.node('SELECT a FROM pg_temp.my_pgq_claim(''q'', 1, NULL, NULL, NULL, NULL) AS (a bigint)');
ROLLBACK;
SET pgq_ext.claim_scan = off;
SELECT * FROM pg_temp.node('SELECT job_id FROM pgq_claim(''q'')');
RESET pgq_ext.claim_scan;

-- All columns, and some of them in any order; conditions; no column at all.
SELECT pg_temp.fill('q', 30);
SELECT queue, payload, headers, group_key, priority, attempt, max_attempts, enqueued_at = run_at AS same, lease_expires_at > now() AS runs, last_error, progress FROM pgq_claim('q');
SELECT attempt + payload::int AS sum, payload FROM pgq_claim('q', 2);
SELECT payload FROM pgq_claim('q', 4) WHERE payload::int % 2 = 0 AND queue = 'q';
SELECT count(*) FROM pgq_claim('q', 3);
SELECT queue, leased FROM pgq_ext.queue_status ORDER BY queue;
-- A claim happens before the first row, for all rows, and only if a row is wanted.
SELECT payload FROM pgq_claim('q', 3) LIMIT 1;
SELECT payload FROM pgq_claim('q', 3) LIMIT 0;
SELECT payload FROM (SELECT WHERE false) nothing, pgq_claim('q', 3);
SELECT queue, leased FROM pgq_ext.queue_status ORDER BY queue;

-- The same rows again in a join and in a subquery; a new claim for each other argument.
SELECT i, payload FROM generate_series(1, 2) i, pgq_claim('q', 2) ORDER BY i, payload;
SELECT (SELECT payload FROM pgq_claim('q') c WHERE c.attempt >= t.i) FROM generate_series(0, 1) t(i);
SELECT (SELECT array_agg(payload) FROM pgq_claim('q', t.i) c) FROM generate_series(1, 3) t(i);
SELECT (SELECT payload FROM pgq_claim(q) c) FROM unnest('{q,r,q}'::text[]) q;
WITH taken AS (SELECT job_id, lease, payload FROM pgq_claim('q')) SELECT a.payload, b.payload FROM taken a JOIN taken b USING (job_id);

-- An outer join, whose expressions are computed below it.
SELECT pgq_purge_queue('q'), pg_temp.fill('q', 3);
SELECT i, x FROM generate_series(1, 2) i LEFT JOIN (SELECT attempt, coalesce(payload::int, 0) + 1 AS x FROM pgq_claim('q', 2)) c ON c.attempt = i ORDER BY i, x;
SELECT i, payload FROM pgq_claim('q') c FULL JOIN generate_series(1, 2) i ON c.attempt = i ORDER BY i;

-- Parameters, cursors, functions.
SELECT pgq_purge_queue('q'), pg_temp.fill('q', 30);
PREPARE take(text, int) AS SELECT payload FROM pgq_claim($1, $2);
SET plan_cache_mode = force_generic_plan;
EXECUTE take('q', 2);
EXECUTE take('r', 2);
EXECUTE take('q', 1);
EXECUTE take(NULL, 1);
EXECUTE take('q', 0);
EXECUTE take('none', 1);
RESET plan_cache_mode;
BEGIN;
DECLARE taken SCROLL CURSOR FOR SELECT payload FROM pgq_claim('q', 3);
FETCH 2 FROM taken;
FETCH BACKWARD 1 FROM taken;
FETCH ALL FROM taken;
COMMIT;
-- A cursor can go back without SCROLL, as with a function scan.
BEGIN;
DECLARE taken CURSOR FOR SELECT payload FROM pgq_claim('q', 3);
FETCH 2 FROM taken;
FETCH PRIOR FROM taken;
FETCH PRIOR FROM taken;
FETCH ALL FROM taken;
FETCH PRIOR FROM taken;
FETCH ABSOLUTE 2 FROM taken;
FETCH FIRST FROM taken;
COMMIT;
DO $$
DECLARE
    job record;
BEGIN
    FOR job IN SELECT job_id, lease, payload FROM pgq_claim('q', 2) LOOP
        RAISE NOTICE 'job %', job.payload;
        PERFORM pgq_ack(job.job_id, job.lease);
    END LOOP;
END $$;
CREATE VIEW pg_temp.next_job AS SELECT job_id, lease, payload FROM pgq_claim('q');
SELECT payload FROM pg_temp.next_job;
SELECT payload AS before, job_id, lease FROM pgq_claim('q') \gset
SELECT payload::int = :before + 1 AS next FROM pgq_ack_claim(ARRAY[:job_id], ARRAY[:lease], 'q');
\set VERBOSITY sqlstate
SELECT payload FROM pgq_ack_claim(ARRAY[:job_id], ARRAY[:lease], 'q');
\set VERBOSITY terse
UPDATE pgq_ext.job SET priority = 1 FROM pgq_claim('q') c WHERE job.job_id = c.job_id;
SELECT payload FROM pgq_claim('q') FOR UPDATE;

-- More rows than work_mem has room for.
SELECT count(*) FROM pgq_enqueue_many('r', (SELECT jsonb_agg(jsonb_build_object('payload', repeat('x', 1000) || i, 'headers', CASE i % 2 WHEN 0 THEN '{"even": true}'::jsonb END)) FROM generate_series(1, 300) i));
SET work_mem = '64kB';
SELECT count(*), count(DISTINCT payload), count(headers), bool_and(lease_expires_at > now()) FROM pgq_claim('r', 300);
SELECT count(*) FROM pgq_enqueue_many('r', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'headers', jsonb_build_object('long', repeat('x', 1000)))) FROM generate_series(1, 300) i));
BEGIN;
DECLARE taken CURSOR FOR SELECT payload, length(headers::text) FROM pgq_claim('r', 290);
MOVE 250 FROM taken;
FETCH BACKWARD 2 FROM taken;
MOVE LAST FROM taken;
FETCH PRIOR FROM taken;
FETCH RELATIVE -280 FROM taken;
FETCH NEXT FROM taken;
FETCH ABSOLUTE 288 FROM taken;
MOVE FORWARD ALL FROM taken;
FETCH PRIOR FROM taken;
COMMIT;
SELECT (SELECT count(*) FROM pgq_claim('r', t.i) c) FROM generate_series(1, 3) t(i);
RESET work_mem;

-- Rights, and a type that was altered.
CREATE ROLE regress_pgq_nobody;
SET ROLE regress_pgq_nobody;
SELECT job_id FROM pgq_claim('q');
EXPLAIN SELECT job_id FROM pgq_claim('q');
RESET ROLE;
DROP ROLE regress_pgq_nobody;
BEGIN;
PREPARE again AS SELECT payload FROM pgq_claim('q');
ALTER TYPE pgq_ext.claimed_job ADD ATTRIBUTE later int;
SELECT payload IS NULL AS none, later FROM pgq_claim('q');
EXECUTE again;
ALTER TYPE pgq_ext.claimed_job DROP ATTRIBUTE headers;
EXECUTE again;
ROLLBACK;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue(queue, force => true) FROM pgq_ext.queue ORDER BY queue;
