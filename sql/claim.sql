-- Which job is next, what a claim returns, and how long the lease is. Bad arguments are in errors.sql.
SELECT pgq_create_queue('a', lease_time => '1 h'), pgq_create_queue('b'), pgq_create_queue('c');

-- In order: priority (high first), run_at, job_id; whatever the order of arrival, and however many are claimed at a time.
CREATE TEMP TABLE job (n int, job_id bigint, priority int, run_at timestamptz);
INSERT INTO job
SELECT i, pgq_enqueue('a', to_jsonb(i), priority, run_at => run_at), priority, run_at
FROM generate_series(1, 5000) i, LATERAL (SELECT
        (ARRAY[-2147483648, -1, 0, 0, 0, 1, 2147483647])[1 + (hashint4(i) & 3) + (hashint4(-i) & 3)] AS priority,
        timestamptz '2020-01-01' + (hashint4(i) & 63) * interval '1 us' AS run_at) r;
CREATE FUNCTION pg_temp.drain(queue text, batch int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE IF NOT EXISTS got (nth serial, job_id bigint, lease bigint, batch int);
    LOOP
        INSERT INTO got (job_id, lease, batch) SELECT c.job_id, c.lease, $2 FROM pgq_claim($1, $2) c;
        EXIT WHEN NOT FOUND;
    END LOOP;
    RETURN count(pgq_ack_many) FROM pgq_ack_many((SELECT array_agg(job_id ORDER BY nth) FROM got), (SELECT array_agg(lease ORDER BY nth) FROM got));
END $$;
SELECT count(*) FROM pgq_claim('a', 3);
SELECT pgq_ack(l.job_id, lease) FROM pgq_ext.lease l;
DELETE FROM job WHERE job_id NOT IN (SELECT job_id FROM pgq_ext.job);
SELECT pg_temp.drain('a', 700);
-- tokens grow in the order of hand-out, but for their last ten bits, and stay below 2^53
SELECT count(*), count(DISTINCT priority) AS priorities,
       array_agg(got.job_id ORDER BY nth) = array_agg(got.job_id ORDER BY priority DESC, run_at, got.job_id) AS in_order,
       array_agg(lease >> 10 ORDER BY nth) = array_agg(lease >> 10 ORDER BY lease) AS tokens_grow, max(lease) < 2::bigint ^ 53 AS tokens_fit
FROM got JOIN job USING (job_id);
DROP TABLE got;

-- A late comer of higher priority goes first; among equals by run_at: the one that has waited for its delay is due since run_at, not since it was enqueued.
SELECT pgq_enqueue('a', '"third"') > 0, pgq_enqueue('a', '"fourth"') > 0, pgq_enqueue('a', '"second"', 5, run_at => '2020-01-02') > 0,
       pgq_enqueue('a', '"first"', 5, run_at => '2020-01-01') > 0, pgq_enqueue('a', '"not due"', 9, '1 h') > 0;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('a', 2);
SELECT pgq_enqueue('a', '"urgent"', 1) > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('a');
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('a', 10000);
SELECT payload FROM pgq_claim('a', 10000);
SELECT pgq_purge_queue('a');

-- pgq_claim_any: queues in the order of the array, each by its own order, as many as there are, no queue twice.
SELECT pgq_enqueue(q, to_jsonb(q || i), i) > 0 AS enqueued FROM unnest('{a,b,c}'::text[]) q, generate_series(1, 3) i;
SELECT payload, queue, pgq_ack(job_id, lease) FROM pgq_claim_any('{c,a}', 2);
SELECT payload, queue, pgq_ack(job_id, lease) FROM pgq_claim_any('[5:8]={c,c,a,c}', 2);
SELECT payload, queue, pgq_ack(job_id, lease) FROM pgq_claim_any('{a,b}', 100);
SELECT payload, queue, pgq_ack(job_id, lease) FROM pgq_claim_any('{a,b,c}', 100, '100 ms');
SELECT payload, queue, pgq_ack(job_id, lease) FROM pgq_claim_any(array_fill('a'::text, '{32}'));

-- NULL for each optional argument means its default: one job, no waiting, the queue's lease time, the name of the application.
SET application_name = 'my worker';
SELECT pgq_enqueue('a', to_jsonb(i)) > 0 AS enqueued FROM generate_series(1, 2) i;
CREATE TEMP TABLE mine AS SELECT * FROM pgq_claim('a', NULL, NULL, NULL, NULL, NULL);
SELECT mine.payload, l.queue, l.group_key, l.attempt, l.worker, l.pid = pg_backend_pid() AS pid, l.claimed_at <= clock_timestamp() AS claimed_at,
       l.lease_expires_at - l.claimed_at AS lease_time, l.session_bound, l.in_transaction, mine.lease_expires_at - l.lease_expires_at AS same
FROM mine JOIN pgq_ext.lease l USING (job_id, lease);
SELECT pgq_ack(job_id, lease) FROM mine;

-- The lease runs from the hand-out, for the time asked for; a label that is too long is cut at a character.
BEGIN;
SELECT pg_sleep(0.01), clock_timestamp() AS before \gset
TRUNCATE mine;
INSERT INTO mine SELECT * FROM pgq_claim('a', 10, NULL, '7 days', repeat('w', 62) || U&'\00fc');
SELECT payload, mine.lease_expires_at - interval '7 days' BETWEEN :'before' AND clock_timestamp() AS seven_days, octet_length(l.worker), l.in_transaction
FROM mine JOIN pgq_ext.lease l USING (job_id);
COMMIT;
SELECT in_transaction, attempt FROM pgq_ext.lease;
SELECT pgq_ack(job_id, lease) FROM mine;
SELECT pgq_drop_queue('b', force => true), pgq_create_queue('b', lease_time => '1 h', max_runtime => '10 s');
SELECT pgq_enqueue('b', '1') > 0, pgq_enqueue('b', '2') > 0, pgq_enqueue('b', '3') > 0;
TRUNCATE mine;
INSERT INTO mine SELECT * FROM pgq_claim('b');
INSERT INTO mine SELECT * FROM pgq_claim('b', lease_time => '9 s', worker => '');
INSERT INTO mine SELECT * FROM pgq_claim('b', lease_time => '11 s', worker => 'other');
SELECT payload, l.worker, lease_expires_at - l.claimed_at AS lease_time FROM mine JOIN pgq_ext.lease l USING (job_id, lease, lease_expires_at) ORDER BY mine.ctid;

-- A lease of the shortest time that nobody ends does end: the attempt counts, and says so. Not while an open transaction uses it.
SELECT pgq_drop_queue('b', force => true), pgq_create_queue('b', max_attempts => 2, backoff_base => '0', lease_time => '1 s');
SELECT pgq_enqueue('b', '1') > 0 AS enqueued;
SELECT job_id, lease, attempt FROM pgq_claim('b') \gset
SELECT attempt, last_error, job_id = :job_id AS same_job, lease > :lease AS new_lease FROM pgq_claim('b', wait => '60 s', lease_time => '1 h');
\set VERBOSITY sqlstate
SELECT pgq_ack(:job_id, :lease);
\set VERBOSITY default
SELECT pgq_fail(:job_id, :lease), pgq_extend(:job_id, :lease), ARRAY(SELECT pgq_ack_many(ARRAY[:job_id], ARRAY[:lease])) AS ack_many;
SELECT pgq_extend(job_id, l.lease, '1 s') > clock_timestamp() + '50 min' AS not_shortened, pgq_release(job_id, l.lease) FROM pgq_ext.lease l WHERE job_id = :job_id;
SELECT attempt FROM pgq_claim('b', lease_time => '1 s');
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN EXISTS (SELECT FROM pgq_ext.dead_job) AND NOT EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE state = 'lost');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT attempts, reason, last_error, payload FROM pgq_ext.dead_job;
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status ORDER BY 1;
SELECT pgq_enqueue('b', '2') > 0 AS enqueued;
BEGIN;
SELECT job_id, lease, lease_expires_at, attempt FROM pgq_claim('b', lease_time => '1 s') \gset
SELECT pg_sleep(extract(epoch FROM :'lease_expires_at' - clock_timestamp()) + 1.5);
SELECT clock_timestamp() > lease_expires_at AS late, in_transaction FROM pgq_ext.lease WHERE job_id = :job_id;
SELECT pgq_ack(:job_id, :lease);
COMMIT;
SELECT count(*) FROM pgq_ext.job WHERE job_id = :job_id;

-- Waiting: for as long as asked when nothing comes, not at all when there is a job. Shorter when the statement would be cancelled before: see test/t/004_waiting.pl.
SELECT clock_timestamp() AS before \gset
SELECT count(*) FROM pgq_claim('c', wait => '300 ms');
SELECT clock_timestamp() - :'before' >= '300 ms' AS waited;
SELECT waiting_claims FROM pgq_ext.queue_status;
-- also for a job that comes back by itself
SELECT pgq_enqueue('c', '"again"') > 0 AS enqueued;
SELECT pgq_fail(job_id, lease, 'not yet', '300 ms') FROM pgq_claim('c', wait => '60 s');
SELECT payload, attempt, last_error, pgq_ack(job_id, lease) FROM pgq_claim_any('{a,b,c}', wait => '60 s');

-- A claim hands out all that it was asked for, no matter how much of it the query reads.
SELECT pgq_drop_queue(q, force => true), pgq_create_queue(q) FROM unnest('{a,b,c}'::text[]) q;
SELECT count(*) FROM pgq_enqueue_many('c', (SELECT jsonb_agg('{"payload": 0}'::jsonb) FROM generate_series(1, 20)));
SELECT payload FROM pgq_claim('c', 3) LIMIT 1;
SELECT (pgq_claim('c', 2)).priority LIMIT 1;
SELECT queue, ready, leased FROM pgq_ext.queue_status ORDER BY 1;
SELECT queue, enqueued, handed_out, acked, failed, lost, dead_lettered FROM pgq_ext.queue_stats ORDER BY 1;
SELECT pgq_drop_queue(q, force => true), pgq_create_queue(q) FROM unnest('{a,b,c}'::text[]) q;

-- The bound of leases: fewer jobs than asked for; an error that names the setting if there is none because of it, and never a false "empty".
SHOW pgq_ext.max_leases;
SELECT count(*) FROM pgq_enqueue_many('a', (SELECT jsonb_agg('{"payload": 0}'::jsonb) FROM generate_series(1, 33000)));
SELECT count(*) FROM pgq_claim('a', 10000);
SELECT count(*) FROM pgq_claim('a', 10000);
SELECT count(*) FROM pgq_claim_any('{b,a}', 10000);
SELECT count(*) FROM pgq_claim('a', 10000);
SELECT count(*) FROM pgq_claim('a', 10000);
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM pgq_claim_any('{b,a}');
-- an empty queue is still just empty, and with one lease free again one job goes out
SELECT count(*) FROM pgq_claim('b');
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease ORDER BY job_id LIMIT 1;
SELECT count(*), min(attempt) FROM pgq_claim('a', 10000);
SELECT queue, ready, leased FROM pgq_ext.queue_status ORDER BY 1;
SELECT pgq_drop_queue(q, force => true) FROM unnest('{a,b,c}'::text[]) q;

-- Nothing to claim from, and nothing to acknowledge, as array_agg() says it: no error.
SELECT * FROM pgq_claim_any('{}');
SELECT * FROM pgq_claim_any('{}', wait => '1 ms');
SELECT pgq_ack_many(array_agg(job_id), array_agg(lease)) FROM pgq_claim_any('{}');
SELECT pgq_ack_many('{}', '{}');
