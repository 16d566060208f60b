-- Queue work is part of the transaction: each verb, undone by each kind of rollback. Assertions stand outside of the transactions they judge.
\set ON_ERROR_ROLLBACK off
SELECT * FROM no_plan();
SELECT * FROM lives_ok($$SELECT pgq_create_queue('tx', backoff_base => '0', lease_time => '1 day')$$, 'queue');
CREATE TABLE business (note text);

CREATE FUNCTION pg_temp.add(payload text) RETURNS bigint LANGUAGE sql AS $$ SELECT pgq_enqueue('tx', to_jsonb($1)) $$;
CREATE FUNCTION pg_temp.state() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', ready, scheduled, leased, dead) FROM pgq_ext.queue_status WHERE queue = 'tx' $$;
-- The next job and which attempt it is, acknowledged. A lost one comes as soon as the scheduler has counted it.
CREATE FUNCTION pg_temp.next() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    SELECT * INTO c FROM pgq_claim('tx', wait => '60 s');
    IF NOT FOUND THEN RETURN 'nothing'; END IF;
    PERFORM pgq_ack(c.job_id, c.lease);
    RETURN format('%s, attempt %s', c.payload #>> '{}', c.attempt);
END $$;
-- All is done: no job, no lease, nothing that could still come back.
CREATE FUNCTION pg_temp.done(what text) RETURNS text LANGUAGE sql AS $$
    SELECT is((SELECT count(*) FROM pgq_ext.job) || ' jobs, ' || (SELECT count(*) FROM pgq_ext.lease_entries()) || ' leases, ' ||
              (SELECT count(*) FROM pgq_claim('tx', 100)) || ' claimed', '0 jobs, 0 leases, 0 claimed', what || ': nothing is left') $$;

-- ---- enqueue ----
BEGIN;
SELECT pg_temp.add('a') AS id \gset
SELECT count(*) AS own FROM pgq_claim('tx', 10) \gset
COMMIT;
SELECT is(:own, 0, 'the transaction itself does not see what it enqueued');
SELECT is(pg_temp.next(), 'a, attempt 1', 'after the commit it is there');
BEGIN;
SELECT pg_temp.add('undone') AS id \gset
ROLLBACK;
SELECT pg_temp.done('rollback of enqueue');
BEGIN;
SELECT pg_temp.add('kept 1') AS id \gset
SAVEPOINT a;
SELECT pg_temp.add('undone') AS id \gset
SAVEPOINT b;
SELECT pg_temp.add('undone too') AS id \gset
RELEASE b;
ROLLBACK TO a;
SELECT pg_temp.add('kept 2') AS id \gset
SAVEPOINT c;
SELECT pg_temp.add('kept 3') AS id \gset
RELEASE c;
COMMIT;
SELECT is(pg_temp.next(), 'kept 1, attempt 1', 'enqueued around savepoints: 1');
SELECT is(pg_temp.next(), 'kept 2, attempt 1', 'enqueued around savepoints: 2');
SELECT is(pg_temp.next(), 'kept 3, attempt 1', 'enqueued around savepoints: 3');
SELECT pg_temp.done('savepoints around enqueue');
BEGIN;
SAVEPOINT a;
SELECT pg_temp.add('undone') AS id \gset
RELEASE a;
ROLLBACK;
SELECT pg_temp.done('subtransaction of enqueue commits, transaction rolls back');

-- ---- claim ----
SELECT pg_temp.add('b') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
ROLLBACK;
SELECT is(pgq_extend(:job_id, :lease), NULL, 'the lease of a claim that was rolled back is stale at once');
SELECT throws_ok(format('SELECT pgq_ack(%s, %s)', :job_id, :lease), 'PQ001', NULL, 'and cannot be acknowledged');
SELECT is(pg_temp.next(), 'b, attempt 2', 'rollback of claim: counted, and the lease of a day is not waited for');
SELECT pg_temp.add('c') AS id \gset
BEGIN;
SAVEPOINT a;
SELECT job_id, lease FROM pgq_claim('tx') \gset
ROLLBACK TO a;
SELECT pg_temp.add('d') AS id \gset
COMMIT;
SELECT set_eq('SELECT pg_temp.next() FROM generate_series(1, 2)', ARRAY['c, attempt 2', 'd, attempt 1'],
              'rollback to savepoint of claim: counted; the rest of that transaction is kept');
SELECT pg_temp.add('e') AS id \gset
BEGIN;
SAVEPOINT a;
SELECT job_id, lease FROM pgq_claim('tx') \gset
RELEASE a;
COMMIT;
SELECT is(pg_temp.state(), '0 0 1 0', 'claimed in a subtransaction, committed: leased');
BEGIN;
SAVEPOINT a;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK TO a;
SELECT pgq_fail(:job_id, :lease, 'x') AS answer \gset
ROLLBACK;
SELECT is(:'answer'::text, 'retry', 'an ack that was undone leaves the lease as it was');
SELECT lives_ok(format('SELECT pgq_ack(%s, %s)', :job_id, :lease), 'so does a fail');
SELECT pg_temp.add('f') AS id \gset
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT job_id, lease FROM pgq_claim('tx') \gset
RELEASE b;
RELEASE a;
ROLLBACK;
SELECT is(pg_temp.next(), 'f, attempt 2', 'subtransactions of claim commit, transaction rolls back: counted');
SELECT pg_temp.done('claim');

-- ---- ack ----
SELECT pg_temp.add('g') AS id \gset
SELECT job_id, lease FROM pgq_claim('tx') \gset
BEGIN;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK;
SELECT is(pg_temp.state(), '0 0 1 0', 'rollback of ack: still leased');
BEGIN;
SAVEPOINT a;
SELECT pgq_ack(:job_id, :lease);
RELEASE a;
ROLLBACK;
SELECT is(pg_temp.state(), '0 0 1 0', 'subtransaction of ack commits, transaction rolls back: still leased');
BEGIN;
SAVEPOINT a;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK TO a;
SELECT pgq_ack(:job_id, :lease);
SAVEPOINT b;
ROLLBACK TO b;
COMMIT;
SELECT is(pg_temp.state(), '0 0 0 0', 'ack, undone, ack again, committed: done');
SELECT pg_temp.add('h') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
SELECT pgq_ack(:job_id, :lease);
ROLLBACK;
SELECT is(pg_temp.next(), 'h, attempt 2', 'rollback of claim and ack: counted');
SELECT pg_temp.add('i') AS id \gset
BEGIN;
SAVEPOINT a;
SELECT job_id, lease FROM pgq_claim('tx') \gset
SAVEPOINT b;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK TO b;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK TO a;
COMMIT;
SELECT is(pg_temp.next(), 'i, attempt 2', 'rollback to a savepoint before claim and ack: counted');
SELECT count(pg_temp.add(i::text)) FROM generate_series(1, 6) i \g /dev/null
BEGIN;
SELECT array_agg(job_id ORDER BY job_id) AS jobs, array_agg(lease ORDER BY job_id) AS leases FROM pgq_claim('tx', 6) \gset
COMMIT;
BEGIN;
SELECT count(*) AS first FROM pgq_ack_many((:'jobs'::bigint[])[1:2], (:'leases'::bigint[])[1:2]) \gset
SAVEPOINT a;
SELECT count(*) AS second FROM pgq_ack_many(:'jobs', :'leases') \gset
ROLLBACK TO a;
SELECT count(*) AS third FROM pgq_ack_many((:'jobs'::bigint[])[2:4], (:'leases'::bigint[])[2:4]) \gset
COMMIT;
SELECT is(ARRAY[:first, :second, :third], ARRAY[2, 4, 2], 'ack of many around a savepoint: each job once');
SELECT results_eq(format('SELECT * FROM pgq_ack_many(%L, %L)', :'jobs', :'leases'), (:'jobs'::bigint[])[5:6], 'those that were undone can still be acknowledged');
SELECT pg_temp.done('ack');

-- ---- fail ----
SELECT pg_temp.add('j') AS id \gset
SELECT job_id, lease FROM pgq_claim('tx') \gset
BEGIN;
SELECT pgq_fail(:job_id, :lease, 'undone', retry => false) AS answer \gset
ROLLBACK;
SELECT is(pg_temp.state(), '0 0 1 0', 'rollback of fail: still leased, no dead letter');
BEGIN;
SAVEPOINT a;
SELECT pgq_fail(:job_id, :lease, 'undone') AS answer \gset
ROLLBACK TO a;
SAVEPOINT a;
SELECT pgq_fail(:job_id, :lease, 'undone', retry => false) AS answer \gset
RELEASE a;
ROLLBACK;
SELECT is((SELECT concat(attempts, last_error) FROM pgq_ext.job), '0', 'its row is as it was');
BEGIN;
SELECT pgq_fail(:job_id, :lease, 'kept') AS answer \gset
SELECT count(*) AS own FROM pgq_claim('tx') \gset
SAVEPOINT a;
ROLLBACK TO a;
COMMIT;
SELECT is(:own, 0, 'the transaction that failed a job does not get it again');
SELECT is((SELECT last_error FROM pgq_ext.job), 'kept', 'committed: kept');
SELECT is(pg_temp.next(), 'j, attempt 2', 'and tried again');
SELECT pg_temp.add('k') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
SELECT pgq_fail(:job_id, :lease, 'first') AS answer \gset
COMMIT;
SELECT is(pg_temp.next(), 'k, attempt 2', 'claimed and failed in one transaction: one attempt');
SELECT pg_temp.add('l') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
SELECT pgq_fail(:job_id, :lease, 'first', retry => false) AS answer \gset
ROLLBACK;
SELECT is(pg_temp.next(), 'l, attempt 2', 'claimed and failed for good, rolled back: one attempt');
SELECT pg_temp.done('fail');

-- ---- with the business data of its transaction ----
SELECT pg_temp.add('m') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
INSERT INTO business VALUES ('undone');
SELECT pgq_ack(:job_id, :lease);
SELECT pg_temp.add('follow-up') AS id \gset
ROLLBACK;
SELECT is_empty('TABLE business', 'claim, change, ack: vanish together');
BEGIN;
SELECT job_id, lease, attempt FROM pgq_claim('tx', wait => '60 s') \gset
INSERT INTO business VALUES ('kept');
SELECT pgq_ack(:job_id, :lease);
SELECT pg_temp.add('follow-up') AS id \gset
COMMIT;
SELECT is(:attempt, 2, 'the second attempt');
SELECT results_eq('TABLE business', ARRAY['kept'], 'claim, change, ack: commit together');
SELECT is(pg_temp.next(), 'follow-up, attempt 1', 'and so does the follow-up');
SELECT pg_temp.done('business');

-- ---- PL/pgSQL: exception blocks are subtransactions ----
SELECT pg_temp.add('n') AS id \gset
DO $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    SELECT * INTO STRICT c FROM pgq_claim('tx');
    BEGIN
        PERFORM pgq_ack(c.job_id, c.lease);
        PERFORM pg_temp.add('undone');
        BEGIN
            PERFORM pg_temp.add('undone too');
            RAISE EXCEPTION 'inner';
        EXCEPTION WHEN raise_exception THEN
            PERFORM pg_temp.add('undone with the outer');
        END;
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        PERFORM pg_temp.add('from the handler');
        PERFORM pgq_fail(c.job_id, c.lease, SQLERRM);
    END;
END $$;
SELECT is((SELECT concat_ws(' ', attempts, last_error) FROM pgq_ext.job WHERE payload = '"n"'), '1 division by zero', 'the handler fails the job that its block acknowledged');
SELECT is(pg_temp.next(), 'from the handler, attempt 1', 'nested blocks: what the handler did is kept');
SELECT is(pg_temp.next(), 'n, attempt 2', 'nested blocks: and the job comes again');
SELECT pg_temp.done('nested blocks');
-- a stale ack that is caught; a claim that its block loses
SELECT pg_temp.add('o') AS id \gset
DO $$
DECLARE
    c pgq_ext.claimed_job;
    again bool := true;
BEGIN
    BEGIN
        SELECT * INTO STRICT c FROM pgq_claim('tx');
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN NULL;
    END;
    BEGIN
        INSERT INTO business VALUES ('stale');
        PERFORM pgq_ack(c.job_id, c.lease);
    EXCEPTION WHEN SQLSTATE 'PQ001' THEN
        INSERT INTO business VALUES ('caught');
    END;
END $$;
SELECT results_eq('TABLE business', ARRAY['kept', 'caught'], 'a stale ack takes the writes of its block with it, and can be caught');
SELECT is(pg_temp.next(), 'o, attempt 2', 'a claim is lost with its block');
-- an error in a function, not caught within
SELECT pg_temp.add('p') AS id \gset
CREATE FUNCTION pg_temp.work() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    SELECT * INTO STRICT c FROM pgq_claim('tx');
    INSERT INTO business VALUES ('undone');
    PERFORM pgq_ack(c.job_id, c.lease);
    RAISE EXCEPTION 'the work failed';
END $$;
SELECT throws_ok('SELECT pg_temp.work()', 'P0001', 'the work failed', 'an error in a function after claim and ack');
SELECT is(pg_temp.next(), 'p, attempt 2', 'counts as an attempt');
-- a loop of blocks that fail one after the other
SELECT count(pg_temp.add(i::text)) FROM generate_series(1, 100) i \g /dev/null
DO $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    FOR c IN SELECT * FROM pgq_claim('tx', 100) LOOP
        BEGIN
            INSERT INTO business VALUES (c.payload);
            PERFORM pgq_ack(c.job_id, c.lease);
            IF (c.payload #>> '{}')::int % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
        EXCEPTION WHEN raise_exception THEN
            PERFORM pgq_fail(c.job_id, c.lease, SQLERRM, retry => false);
        END;
    END LOOP;
END $$;
SELECT is((SELECT count(*) FROM business WHERE note ~ '[13579]"$'), 50::bigint, 'half of the jobs are done');
SELECT is(pg_temp.state(), '0 0 0 50', 'the other half are dead letters');
SELECT is((SELECT count(*) FROM pgq_ext.dead_job WHERE last_error = 'even' AND (payload #>> '{}')::int % 2 = 0), 50::bigint, 'with their error');

-- ---- procedures: several transactions in one call ----
SELECT count(pg_temp.add(i::text)) FROM generate_series(1, 10) i \g /dev/null
CREATE PROCEDURE pg_temp.worker() LANGUAGE plpgsql AS $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    TRUNCATE business;
    LOOP
        SELECT * INTO c FROM pgq_claim('tx');
        EXIT WHEN NOT FOUND;
        COMMIT; -- the lease outlives the transaction that claimed it
        INSERT INTO business VALUES (c.payload #>> '{}');
        PERFORM pgq_ack(c.job_id, c.lease);
        IF c.payload = '"7"' AND c.attempt = 1 THEN
            ROLLBACK;
            PERFORM pgq_fail(c.job_id, c.lease, 'seven', '1 day');
        END IF;
        COMMIT;
    END LOOP;
END $$;
CALL pg_temp.worker();
SELECT results_eq('SELECT note::int FROM business ORDER BY 1', ARRAY[1, 2, 3, 4, 5, 6, 8, 9, 10], 'a procedure commits job after job');
SELECT is(pg_temp.state(), '0 1 0 50', 'the one it rolled back it has failed');
SELECT is(pgq_purge_queue('tx'), 1::bigint, 'purged');
CREATE PROCEDURE pg_temp.producer() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 10 LOOP
        PERFORM pg_temp.add(i::text);
        IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$;
CALL pg_temp.producer();
SELECT results_eq($$SELECT payload #>> '{}', pgq_ack(job_id, lease)::text FROM pgq_claim('tx', 100)$$,
                  $$VALUES ('1', ''), ('2', ''), ('4', ''), ('5', ''), ('7', ''), ('8', ''), ('10', '')$$, 'a procedure that commits and rolls back');

-- ---- isolation levels ----
CREATE PROCEDURE pg_temp.round() LANGUAGE plpgsql AS $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    TRUNCATE business;
    PERFORM pg_temp.add('round');
    COMMIT;
    SELECT * INTO c FROM pgq_claim('tx');
    INSERT INTO business VALUES (c.payload #>> '{}');
    PERFORM pgq_ack(c.job_id, c.lease);
    ROLLBACK;
    SELECT * INTO c FROM pgq_claim('tx', wait => '60 s');
    BEGIN
        PERFORM pgq_ack(c.job_id, c.lease), 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        INSERT INTO business VALUES (format('%s, attempt %s, %s', c.payload #>> '{}', c.attempt, current_setting('transaction_isolation')));
        PERFORM pgq_ack(c.job_id, c.lease);
    END;
    COMMIT;
END $$;
SET default_transaction_isolation = 'read uncommitted';
CALL pg_temp.round();
SELECT results_eq('TABLE business', ARRAY['round, attempt 2, read uncommitted'], 'READ UNCOMMITTED');
SET default_transaction_isolation = 'read committed';
CALL pg_temp.round();
SELECT results_eq('TABLE business', ARRAY['round, attempt 2, read committed'], 'READ COMMITTED');
SET default_transaction_isolation = 'repeatable read';
CALL pg_temp.round();
SELECT results_eq('TABLE business', ARRAY['round, attempt 2, repeatable read'], 'REPEATABLE READ');
SET default_transaction_isolation = 'serializable';
CALL pg_temp.round();
SELECT results_eq('TABLE business', ARRAY['round, attempt 2, serializable'], 'SERIALIZABLE');
RESET default_transaction_isolation;
SELECT pg_temp.done('isolation levels');
-- a transaction that turns read-only keeps what it had done, and can do no more
SELECT pg_temp.add('q') AS id \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('tx') \gset
SELECT pgq_ack(:job_id, :lease);
SELECT pg_temp.add('r') AS id \gset
SET TRANSACTION READ ONLY;
DO $$ BEGIN PERFORM pg_temp.add('refused'); EXCEPTION WHEN read_only_sql_transaction THEN NULL; END $$;
COMMIT;
SELECT is(pg_temp.next(), 'r, attempt 1', 'READ ONLY after the work');
SELECT pg_temp.done('read-only');

-- ---- queues ----
BEGIN;
SELECT pgq_create_queue('born') AND pgq_enqueue('born', '1') > 0 AS created \gset
SELECT count(*) AS own FROM pgq_claim('born') \gset
COMMIT;
SELECT is(:own, 0, 'a queue, created and filled in one transaction: not yet');
SELECT results_eq($$SELECT payload FROM pgq_claim('born')$$, ARRAY['1'::jsonb], 'and then');
BEGIN;
SELECT pgq_drop_queue('born', force => true) \g /dev/null
ROLLBACK;
SELECT lives_ok($$SELECT pgq_ack(job_id, lease), pgq_enqueue('born', '2') FROM pgq_ext.lease$$, 'the rollback of a drop changes nothing');
SELECT results_eq($$SELECT payload FROM pgq_claim('born')$$, ARRAY['2'::jsonb], 'nor does it stop the queue');
BEGIN;
SELECT pgq_create_queue('unborn') AND pgq_enqueue('unborn', '1') > 0 AS created \gset
ROLLBACK;
SELECT throws_ok($$SELECT pgq_enqueue('unborn', '1')$$, '42704', NULL, 'the queue of a transaction that rolled back');
SELECT lives_ok($$SELECT pgq_drop_queue('born', force => true)$$, 'dropped with a job in work');

-- ---- many savepoints ----
BEGIN;
DO $$
BEGIN
    FOR i IN 1 .. 10000 LOOP
        BEGIN
            PERFORM pgq_enqueue('tx', to_jsonb(i));
            IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
COMMIT;
SELECT results_eq($$SELECT count(*), bool_and((payload #>> '{}')::int % 2 = 1) FROM pgq_claim('tx', 10000)$$, 'VALUES (5000::bigint, true)', '10000 subtransactions of enqueue, half of them undone');
DO $$
DECLARE
    l record;
BEGIN
    FOR l IN SELECT job_id, lease, row_number() OVER (ORDER BY job_id) AS n FROM pgq_ext.lease LOOP
        BEGIN
            PERFORM pgq_ack(l.job_id, l.lease);
            IF l.n % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
SELECT is(pg_temp.state(), '0 0 2500 50', '5000 subtransactions of ack, half of them undone');
SELECT is((SELECT count(*) FROM pgq_ack_many((SELECT array_agg(job_id ORDER BY job_id) FROM pgq_ext.lease), (SELECT array_agg(lease ORDER BY job_id) FROM pgq_ext.lease))), 2500::bigint, 'and the rest');
-- one within the other, undone from the middle
CREATE FUNCTION pg_temp.nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgq_enqueue('tx', to_jsonb(depth));
    IF depth = 200 THEN RAISE EXCEPTION 'deep enough'; END IF;
    BEGIN
        PERFORM pg_temp.nest(depth + 1);
    EXCEPTION WHEN raise_exception THEN
        IF depth <> 100 THEN RAISE; END IF;
    END;
END $$;
SELECT lives_ok('SELECT pg_temp.nest(1)', '200 subtransactions, one in the other');
SELECT results_eq($$SELECT count(*), max((payload #>> '{}')::int) FROM pgq_claim('tx', 10000)$$, 'VALUES (100::bigint, 100)', 'the outer half remains');
SELECT lives_ok($$SELECT pgq_drop_queue('tx', force => true)$$, 'dropped');
DROP TABLE business;
SELECT * FROM finish();
