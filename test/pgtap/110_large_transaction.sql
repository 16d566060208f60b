-- One transaction enqueues a million jobs, far more than the window holds (protocol: large-transactions-shed): served in exact order; or gone, if it rolls back.
\set ON_ERROR_ROLLBACK off
SELECT * FROM no_plan();
-- A job that is just being moved to another segment goes out a little later; here nothing is moved.
ALTER SYSTEM SET pgq_ext.segment_size = '1TB';
SELECT * FROM ok(pg_reload_conf(), 'no rotation');
SELECT * FROM lives_ok($$SELECT pgq_create_queue('large', lease_time => '1 day'), pgq_create_queue('small')$$, 'queues');

BEGIN;
SELECT count(pgq_enqueue('large', to_jsonb(i), i % 3)) AS n FROM generate_series(1, 1000000) i \gset
ROLLBACK;
SELECT is(:n, 1000000, 'a million calls');
SELECT is_empty($$SELECT * FROM pgq_claim('large', 10)$$, 'rolled back: nothing');
SELECT is((SELECT ready FROM pgq_ext.queue_status WHERE queue = 'large'), 0::bigint, 'rolled back: no row');

-- In chunks, some of them in subtransactions, some of those undone; another queue in between; some jobs not due yet.
BEGIN;
CREATE FUNCTION pg_temp.chunk(c int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('payload', c * 10000 + i, 'priority', hashint4(c * 10000 + i) & 3,
                                        'run_at', '2020-01-01'::timestamptz + (hashint4(-(c * 10000 + i)) & 65535) * interval '1 us'))
    FROM generate_series(1, 10000) i
$$;
DO $$
BEGIN
    FOR c IN 1 .. 100 LOOP
        PERFORM count(*) FROM pgq_enqueue_many('large', pg_temp.chunk(c));
        BEGIN
            PERFORM pgq_enqueue('small', to_jsonb(c)), pgq_enqueue('large', to_jsonb(-c), 5, delay => '1 day');
            IF c % 10 = 0 THEN
                PERFORM count(*) FROM pgq_enqueue_many('large', pg_temp.chunk(-c));
                RAISE EXCEPTION 'undone';
            END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
COMMIT;
SELECT is((SELECT array_agg(payload) FROM pgq_claim('small', 1000)), (SELECT array_agg(to_jsonb(c)) FROM generate_series(1, 100) c WHERE c % 10 > 0),
          'the other queue');
SELECT results_eq($$SELECT ready, scheduled FROM pgq_ext.queue_status WHERE queue = 'large'$$, 'VALUES (1000000::bigint, 90::bigint)', 'a million jobs');

CREATE TEMP TABLE got (n serial, job_id bigint, lease bigint, priority int, run_at timestamptz, payload int);
CREATE PROCEDURE pg_temp.drain() LANGUAGE plpgsql AS $$
DECLARE
    acked bigint;
BEGIN
    LOOP
        INSERT INTO got (job_id, lease, priority, run_at, payload)
        SELECT job_id, lease, priority, run_at, (payload #>> '{}')::int FROM pgq_claim('large', 10000);
        EXIT WHEN NOT FOUND;
        SELECT count(*) INTO acked FROM pgq_ack_many((SELECT array_agg(l.job_id) FROM got l WHERE n > (SELECT max(n) - 10000 FROM got)),
                                                     (SELECT array_agg(l.lease) FROM got l WHERE n > (SELECT max(n) - 10000 FROM got)));
        ASSERT acked = 10000;
        COMMIT;
    END LOOP;
END $$;
CALL pg_temp.drain();
SELECT results_eq('SELECT count(*), count(DISTINCT job_id), min(payload), max(payload), count(DISTINCT payload) FROM got',
                  'VALUES (1000000::bigint, 1000000::bigint, 10001, 1010000, 1000000::bigint)', 'each job once');
SELECT is((SELECT count(*) FROM (SELECT n, row_number() OVER (ORDER BY priority DESC, run_at, job_id) AS due FROM got) g WHERE n <> due), 0::bigint, 'in exact order');
SELECT results_eq($$SELECT ready, scheduled, leased FROM pgq_ext.queue_status WHERE queue = 'large'$$, 'VALUES (0::bigint, 90::bigint, 0::bigint)', 'what is not due remains');
SELECT lives_ok($$SELECT pgq_drop_queue('large', force => true), pgq_drop_queue('small', force => true)$$, 'dropped');
ALTER SYSTEM RESET pgq_ext.segment_size;
SELECT * FROM ok(pg_reload_conf(), 'rotation again');
SELECT * FROM finish();
