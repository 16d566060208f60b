-- How a job ends: acknowledged, retried with backoff, dead. Stale leases change nothing. Bad arguments are in errors.sql.
SELECT pgq_create_queue('q', max_attempts => 3, backoff_base => '0', lease_time => '1 h');
CREATE TEMP TABLE mine (LIKE pgq_ext.lease);
ALTER TABLE mine DROP COLUMN queue, DROP COLUMN worker;
CREATE FUNCTION pg_temp.claim(n int = 1) RETURNS bigint LANGUAGE sql AS $$
    TRUNCATE mine;
    INSERT INTO mine (job_id, lease, attempt) SELECT job_id, lease, attempt FROM pgq_claim('q', n, '60 s');
    SELECT count(*) FROM mine $$;
CREATE TEMP VIEW status AS SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = 'q';

-- Ack: the job is gone, and a second end of the same lease is stale, in the same transaction too.
SELECT pgq_enqueue('q', to_jsonb(i)) > 0 AS enqueued FROM generate_series(1, 3) i;
SELECT pg_temp.claim(2);
-- Leases of one millisecond may be the same number, one in a thousand; the third one's is not.
DO $$ BEGIN PERFORM pg_sleep(0.01); END $$;
INSERT INTO mine (job_id, lease, attempt) SELECT job_id, lease, attempt FROM pgq_claim('q');
\set VERBOSITY sqlstate
SELECT job_id, lease FROM mine ORDER BY 1 LIMIT 1 \gset
SELECT pgq_ack(:job_id, :lease, NULL);
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_fail(:job_id, :lease, 'too late'), pgq_fail(:job_id, :lease, 'too late', retry => false), pgq_extend(:job_id, :lease);
SELECT job_id, lease FROM mine ORDER BY 1 OFFSET 1 LIMIT 1 \gset
BEGIN;
SELECT pgq_ack(:job_id, :lease), pgq_fail(:job_id, :lease);
SAVEPOINT s;
SELECT pgq_ack(:job_id, :lease);
ROLLBACK TO s;
COMMIT;
-- a lease is good for its own job only, and only as it is
SELECT job_id AS job2, lease AS lease2 FROM mine ORDER BY 1 OFFSET 2 LIMIT 1 \gset
SELECT pgq_ack(:job_id, :lease2);
SELECT pgq_ack(:job2, :lease);
SELECT pgq_ack(:job2, :lease2 + 1);
SELECT pgq_ack(:job2, -:lease2);
SELECT pgq_fail(:job2, :lease2 - 1), pgq_extend(:job2, :lease2 - 1, '7 days');
TABLE status;
SELECT lease = :lease2 AS still_the_same FROM pgq_ext.lease;
-- a stale ack takes the writes of its transaction with it
CREATE TEMP TABLE done (job_id bigint);
BEGIN;
INSERT INTO done VALUES (:job_id);
SELECT pgq_ack(:job_id, :lease);
COMMIT;
SELECT count(*) FROM done;
\set VERBOSITY default
SELECT pgq_ack(:job2, :lease2);
TABLE status;

-- Ack many: the ids that were current, in their order; the others are left out, and a lease counts once.
SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 1000) i));
SELECT pg_temp.claim(1000);
SELECT * FROM pgq_ack_many('{}', '{}');
SELECT array_agg(a ORDER BY n) = (SELECT array_agg(job_id ORDER BY job_id) FROM mine WHERE job_id % 10 > 1) AS in_order
FROM pgq_ack_many((SELECT array_agg(CASE job_id % 10 WHEN 0 THEN -job_id ELSE job_id END ORDER BY job_id) FROM mine),
                  (SELECT array_agg(CASE job_id % 10 WHEN 1 THEN lease + 1000000 ELSE lease END ORDER BY job_id) FROM mine)) WITH ORDINALITY a (a, n);
TABLE status;
SELECT count(*), count(DISTINCT a) FROM pgq_ack_many((SELECT array_agg(job_id ORDER BY job_id) || array_agg(job_id ORDER BY job_id) FROM mine),
                                                           (SELECT array_agg(lease ORDER BY job_id) || array_agg(lease ORDER BY job_id) FROM mine)) a;
TABLE status;

-- Fail: another attempt, until they are used up; then a dead letter with the last error and all that the job was.
SELECT pgq_enqueue('q', '{"n": 1}', 5, headers => '{"h": 1}') > 0 AS enqueued;
SELECT pg_temp.claim();
SELECT attempt, pgq_fail(job_id, lease, 'first error') FROM mine;
SELECT state, waits_for, attempts, max_attempts, last_error FROM pgq_ext.job_status;
SELECT pg_temp.claim();
SELECT attempt, pgq_fail(job_id, lease, NULL, NULL, NULL) FROM mine;
SELECT payload, headers, priority, attempt, max_attempts FROM pgq_claim('q', wait => '60 s');
SELECT attempt, pgq_fail(job_id, lease, 'last error') FROM pgq_ext.lease;
SELECT * FROM pgq_claim('q');
SELECT attempts, max_attempts, priority, reason, last_error, headers, payload, died_at >= enqueued_at AS died_later FROM pgq_ext.dead_job;
TABLE status;
SELECT pgq_enqueue('q', '2') > 0, pgq_enqueue('q', '3', max_attempts => 1) > 0, pgq_enqueue('q', '4') > 0, pgq_enqueue('q', '5') > 0;
SELECT pg_temp.claim(4);
SELECT pgq_fail(job_id, lease, CASE WHEN n < 4 THEN 'error ' || n END, retry => n <> 1) FROM (SELECT *, row_number() OVER (ORDER BY ctid) AS n FROM mine) m WHERE n < 4;
SELECT payload, attempts, max_attempts, reason, last_error FROM pgq_ext.dead_job ORDER BY job_id;
-- any text will do for an error, of which 8 kB are kept
SELECT pgq_fail(job_id, lease, repeat(U&'\00fc \+01f680', 100000), '0') FROM mine ORDER BY ctid DESC LIMIT 1;
SELECT payload, attempt, CASE WHEN length(last_error) > 100 THEN last_error = left(repeat(U&'\00fc \+01f680', 100000), length(last_error)) END AS its_head,
       octet_length(last_error) BETWEEN 8185 AND 8192 AS is_clipped, pgq_ack(job_id, lease)
FROM pgq_claim('q', 10, '60 s');
SELECT pgq_drop_queue('q', force => true);

-- Backoff doubles from base to max; retry_in goes before it; both count from the call. No job comes before its time.
SELECT pgq_create_queue('q', backoff_base => '100 ms', backoff_max => '500 ms', backoff_jitter => 0, max_attempts => 10);
SELECT pgq_enqueue('q', '1') > 0 AS enqueued;
CREATE FUNCTION pg_temp.fail(expected interval, retry_in interval = NULL) RETURNS TABLE (attempt int, answer text, as_expected boolean, due boolean) LANGUAGE plpgsql AS $$
DECLARE
    c pgq_ext.claimed_job;
    before timestamptz;
BEGIN
    SELECT * INTO c FROM pgq_claim('q', wait => '60 s');
    attempt := c.attempt;
    due := clock_timestamp() >= c.run_at;
    before := clock_timestamp();
    answer := pgq_fail(c.job_id, c.lease, 'no', retry_in);
    as_expected := run_at BETWEEN before + expected AND clock_timestamp() + expected FROM pgq_ext.job;
    RETURN NEXT;
END $$;
SELECT * FROM pg_temp.fail('100 ms');
SELECT * FROM pg_temp.fail('200 ms');
SELECT * FROM pg_temp.fail('400 ms');
SELECT * FROM pg_temp.fail('500 ms');
SELECT * FROM pg_temp.fail('0', retry_in => '0');
SELECT * FROM pg_temp.fail('500 ms');
SELECT * FROM pg_temp.fail('1 day', retry_in => '1 day');
SELECT state, waits_for, attempts FROM pgq_ext.job_status;
SELECT count(*) FROM pgq_claim('q');
TABLE status;
SELECT pgq_drop_queue('q', force => true);
-- jitter: up to half of it more or less, and not the same for all
SELECT pgq_create_queue('q', backoff_base => '1000 s', backoff_jitter => 0.5);
SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg('{"payload": 0}'::jsonb) FROM generate_series(1, 300)));
SELECT clock_timestamp() AS before \gset
SELECT count(pgq_fail(job_id, lease)) FROM pgq_claim('q', 300);
SELECT clock_timestamp() AS after \gset
SELECT count(*), min(run_at) >= :'before'::timestamptz + '500 s' AND max(run_at) <= :'after'::timestamptz + '1500 s' AS in_range,
       min(run_at) < :'before'::timestamptz + '800 s' AND max(run_at) > :'after'::timestamptz + '1200 s' AS spread FROM pgq_ext.job;
SELECT pgq_drop_queue('q', force => true);
-- a backoff of centuries is no error
SELECT pgq_create_queue('q', backoff_base => '1000 years', backoff_max => '1000 years', backoff_jitter => 1);
SELECT pgq_enqueue('q', '1') > 0 AS enqueued;
SELECT pgq_fail(job_id, lease) FROM pgq_claim('q');
SELECT pgq_drop_queue('q', force => true);

-- Extend: from now, at once, up to max_runtime from the claim; not undone by rollback. An end that is later stays.
SELECT pgq_create_queue('q', lease_time => '10 min', max_runtime => '1 h');
SELECT pgq_enqueue('q', '1') > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('q') \gset
CREATE FUNCTION pg_temp.extended(job_id bigint, lease bigint, lease_time interval = NULL) RETURNS interval LANGUAGE plpgsql AS $$
DECLARE
    before timestamptz := clock_timestamp();
    ends timestamptz := pgq_extend(job_id, lease, lease_time);
BEGIN
    RETURN (SELECT i FROM unnest('{10 min,20 min,59 min}'::interval[]) i WHERE ends BETWEEN before + i AND clock_timestamp() + i)
        FROM pgq_ext.lease l WHERE lease_expires_at = ends;
END $$;
-- (by two clocks, so an end is not the same to the microsecond)
CREATE FUNCTION pg_temp.keeps_its_end(job_id bigint, lease bigint, lease_time interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    before timestamptz := lease_expires_at FROM pgq_ext.lease l WHERE l.lease = keeps_its_end.lease;
BEGIN
    RETURN pgq_extend(job_id, lease, lease_time) BETWEEN before - interval '10 s' AND before + interval '10 s';
END $$;
-- the default is what the claim asked for, or the last extension, also if its end was no later
SELECT pg_temp.extended(:job_id, :lease), pg_temp.extended(:job_id, :lease, '20 min'), pg_temp.extended(:job_id, :lease);
SELECT pgq_alter_queue('q', lease_time => '1 min');
SELECT pg_temp.extended(:job_id, :lease);
SELECT pg_temp.keeps_its_end(:job_id, :lease, '2 min'), pg_temp.keeps_its_end(:job_id, :lease, NULL);
BEGIN;
SAVEPOINT s;
SELECT pg_temp.extended(:job_id, :lease, '59 min');
ROLLBACK TO s;
SELECT pg_temp.keeps_its_end(:job_id, :lease, '1 s');
ROLLBACK;
SELECT lease_expires_at > clock_timestamp() + '58 min' AS not_undone FROM pgq_ext.lease;
SELECT round(extract(epoch FROM pgq_extend(:job_id, :lease, '7 days') - claimed_at)) AS capped FROM pgq_ext.lease;
-- a max_runtime that is lowered shortens nothing either
SELECT pgq_alter_queue('q', max_runtime => '30 min');
SELECT pg_temp.keeps_its_end(:job_id, :lease, '59 min');
SELECT pgq_alter_queue('q', max_runtime => '1 s');
SELECT pg_sleep(1.1);
SELECT pgq_extend(:job_id, :lease, '59 min') IS NULL AS used_up, lease_expires_at > clock_timestamp() + '58 min' AS as_it_was FROM pgq_ext.lease;
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_extend(:job_id, :lease) IS NULL AS stale;

SELECT queue, enqueued, handed_out, acked, failed, lost, dead_lettered FROM pgq_ext.queue_stats;
SELECT pgq_drop_queue('q');

-- A job that somebody deletes by hand: its worker learns it when it asks for more time, once that is committed.
SELECT pgq_create_queue('gone');
SELECT pgq_enqueue('gone', '1') > 0, pgq_enqueue('gone', '2') > 0;
SELECT job_id, lease FROM pgq_claim('gone') \gset
BEGIN;
DELETE FROM pgq_ext.job WHERE job_id = :job_id;
SELECT pgq_extend(:job_id, :lease) > clock_timestamp() AS still_mine;
ROLLBACK;
SELECT pgq_extend(:job_id, :lease) > clock_timestamp() AS still_mine;
DELETE FROM pgq_ext.job WHERE job_id = :job_id;
SELECT count(*) FROM pgq_ext.lease WHERE queue = 'gone';
SELECT pgq_extend(:job_id, :lease), pgq_extend(:job_id, :lease, '1 day');
SELECT pgq_fail(:job_id, :lease);
-- ... also when all of them go
SELECT job_id, lease FROM pgq_claim('gone') \gset
SELECT pgq_extend(:job_id, :lease) > clock_timestamp() AS still_mine;
TRUNCATE pgq_ext.job;
SELECT pgq_extend(:job_id, :lease), pgq_extend(:job_id, :lease);

-- A row that the same statement has changed.
SELECT pgq_enqueue('gone', to_jsonb(i)) > 0 AS enqueued FROM generate_series(3, 5) i;
WITH c AS MATERIALIZED (SELECT * FROM pgq_claim('gone')),
     u AS (UPDATE pgq_ext.job j SET priority = 7 FROM c WHERE j.job_id = c.job_id RETURNING c.job_id, c.lease)
SELECT pgq_ack(job_id, lease) FROM u;
SELECT job_id, lease FROM pgq_claim('gone') \gset
WITH u AS (UPDATE pgq_ext.job SET priority = 9 WHERE job_id = :job_id RETURNING job_id) SELECT pgq_fail(job_id, :lease, retry_in => '0') FROM u;
SELECT payload, attempt, priority, pgq_ack(job_id, lease) FROM pgq_claim('gone', 10) ORDER BY payload;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('gone');
