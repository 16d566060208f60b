-- The rest of a job's life: given back, asserted, acknowledged with the next claim. Bad arguments are in errors.sql.
SELECT pgq_create_queue('q', max_attempts => 2, backoff_base => '0', lease_time => '1 h');
CREATE TEMP VIEW status AS SELECT ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = 'q';
\set VERBOSITY sqlstate

-- Release: uncounted, and the job keeps its place; the lease is stale then.
SELECT count(pgq_enqueue('q', to_jsonb(i), 10 - i)) FROM generate_series(1, 3) i;
SELECT job_id, lease, payload, attempt FROM pgq_claim('q') \gset a_
SELECT pgq_release(:a_job_id, :a_lease);
SELECT pgq_release(:a_job_id, :a_lease), pgq_fail(:a_job_id, :a_lease), pgq_extend(:a_job_id, :a_lease);
SELECT pgq_ack(:a_job_id, :a_lease);
SELECT pgq_assert_lease(:a_job_id, :a_lease);
TABLE status;
SELECT job_id, lease, payload, attempt, lease > :a_lease AS greater FROM pgq_claim('q') \gset b_
SELECT :b_job_id = :a_job_id AS same_job, :b_payload AS payload, :b_attempt AS attempt, :'b_greater' AS greater;
-- however often
DO $$ BEGIN
    FOR i IN 1 .. 100 LOOP
        PERFORM pgq_release(job_id, lease) FROM pgq_ext.lease;
        COMMIT;
        PERFORM pgq_claim('q', wait => '10 s');
    END LOOP;
END $$;
SELECT attempts, state FROM pgq_ext.job_status WHERE state = 'leased';
SELECT handed_out, released, failed, lost FROM pgq_ext.queue_stats WHERE queue = 'q';
-- later; its last error stays
SELECT job_id, lease FROM pgq_ext.lease \gset a_
SELECT pgq_fail(:a_job_id, :a_lease, 'first');
SELECT job_id, lease, attempt, last_error FROM pgq_claim('q', wait => '60 s') \gset a_
SELECT :a_attempt AS attempt, :'a_last_error' AS last_error, pgq_release(:a_job_id, :a_lease, '1 h');
SELECT attempts, last_error, state, run_at - now() BETWEEN '59 min' AND '61 min' AS in_an_hour FROM pgq_ext.job_status WHERE job_id = :a_job_id;
TABLE status;
UPDATE pgq_ext.job SET run_at = now() WHERE job_id = :a_job_id;
-- Rolled back it is as before.
SELECT job_id, lease FROM pgq_claim('q') \gset b_
BEGIN;
SELECT pgq_release(:b_job_id, :b_lease, NULL);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT pgq_release(:b_job_id, :b_lease, '1 day');
ROLLBACK TO s;
SELECT pgq_ack(:b_job_id, :b_lease);
COMMIT;
TABLE status;
-- Claimed and given back in one transaction.
BEGIN;
SELECT payload, pgq_release(job_id, lease) FROM pgq_claim('q', 10);
SELECT count(*) FROM pgq_claim('q');
COMMIT;
TABLE status;
-- A job that is gone is none to give back.
SELECT job_id, lease FROM pgq_claim('q') \gset b_
DELETE FROM pgq_ext.job WHERE job_id = :b_job_id;
SELECT pgq_release(:b_job_id, :b_lease);
SELECT * FROM pgq_check();
SELECT pgq_purge_queue('q');

-- Assert: time does not end the lease before the transaction does.
SELECT pgq_enqueue('q', '"asserted"') > 0 AS enqueued;
BEGIN;
SELECT job_id, lease FROM pgq_claim('q', lease_time => '1 s') \gset a_
SELECT pgq_assert_lease(:a_job_id, :a_lease);
SELECT pg_sleep(1.5);
SELECT pgq_assert_lease(:a_job_id, :a_lease);
SELECT pgq_extend(:a_job_id, :a_lease, '1 h') IS NOT NULL AS extended;
COMMIT;
SELECT in_transaction FROM pgq_ext.lease;
-- It may be ended after it, and that undone.
BEGIN;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
SAVEPOINT s;
SELECT pgq_ack(:a_job_id, :a_lease);
SAVEPOINT t;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
ROLLBACK TO t;
SELECT pgq_extend(:a_job_id, :a_lease) IS NULL AS ended;
ROLLBACK TO s;
SELECT pgq_assert_lease(:a_job_id, :a_lease), pgq_extend(:a_job_id, :a_lease) IS NULL AS ended;
SELECT pgq_fail(:a_job_id, :a_lease);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
ROLLBACK TO s;
SELECT pgq_ack(:a_job_id, :a_lease);
ROLLBACK;
SELECT attempt, in_transaction FROM pgq_ext.lease;
-- What the transaction has written for a job that is not its own goes with it.
CREATE TEMP TABLE written (a int);
BEGIN;
INSERT INTO written VALUES (1);
SELECT pgq_assert_lease(:a_job_id, :a_lease + 1);
COMMIT;
SELECT count(*) FROM written;
-- A job that is gone is none to write for.
BEGIN;
DELETE FROM pgq_ext.job WHERE job_id = :a_job_id;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
ROLLBACK;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
DELETE FROM pgq_ext.job WHERE job_id = :a_job_id;
SELECT pgq_assert_lease(:a_job_id, :a_lease);
SELECT pgq_ack(:a_job_id, :a_lease);
SELECT * FROM pgq_check();

-- Acknowledge and claim: the loop of a busy worker.
SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 100) i;
CREATE TEMP TABLE done (payload jsonb);
DO $$
DECLARE
    jobs pgq_ext.claimed_job[];
BEGIN
    LOOP
        SELECT array_agg(c) INTO jobs FROM pgq_ack_claim((SELECT array_agg(j.job_id) FROM unnest(jobs) j), (SELECT array_agg(j.lease) FROM unnest(jobs) j), 'q', 7) c;
        INSERT INTO done SELECT payload FROM unnest(jobs);
        COMMIT;
        EXIT WHEN jobs IS NULL;
    END LOOP;
END $$;
SELECT count(*), count(DISTINCT payload) FROM done;
TABLE status;
SELECT * FROM pgq_ack_claim('{}', '{}', 'q');
SELECT * FROM pgq_ack_claim(NULL, NULL, 'q');
-- One that is stale, and nothing is done.
SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 4) i;
SELECT array_agg(job_id) AS ids, array_agg(lease) AS leases FROM pgq_claim('q', 2) \gset
SELECT payload FROM pgq_ack_claim(:'ids'::bigint[] || 1::bigint, :'leases'::bigint[] || 1::bigint, 'q');
SELECT payload FROM pgq_ack_claim(:'ids'::bigint[] || :'ids'::bigint[], :'leases'::bigint[] || :'leases'::bigint[], 'q');
TABLE status;
-- Undone, both halves are: what was claimed is lost, if it was returned.
BEGIN;
SELECT payload FROM pgq_ack_claim(:'ids', :'leases', 'q', 10, '1 min', 'me');
SELECT worker, lease_expires_at - claimed_at AS lease_time FROM pgq_ext.lease WHERE worker = 'me';
ROLLBACK;
SELECT count(*) AS ours FROM pgq_ext.lease WHERE lease = ANY (:'leases'::bigint[]);
DO $$ BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE state = 'lost');
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT payload, attempt FROM pgq_ack_claim(:'ids', :'leases', 'q', 10) ORDER BY 1;
SELECT * FROM pgq_ack_claim(:'ids', :'leases', 'q');
\set VERBOSITY default
SELECT * FROM pgq_ack_claim(NULL, NULL, 'nothing_like_it');
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('q', force => true);

-- ---- progress ----
SELECT pgq_create_queue('progress', max_attempts => 5, backoff_base => '0');
SELECT pgq_enqueue('progress', '1') AS job \gset
SELECT progress IS NULL AS none, lease FROM pgq_claim('progress') \gset
SELECT :'none' AS none, pgq_progress(:job, :lease, '{"done": 1}');
SELECT state, progress FROM pgq_ext.job_status WHERE job_id = :job;
BEGIN;
SELECT pgq_progress(:job, :lease, '{"done": 2}'), pgq_progress(:job, :lease, '{"done": 3}');
ROLLBACK;
SELECT progress FROM pgq_ext.job_status WHERE job_id = :job;
BEGIN;
SAVEPOINT s;
SELECT pgq_progress(:job, :lease, '{"done": 4}');
ROLLBACK TO s;
SELECT pgq_progress(:job, :lease, '{"done": 5}');
COMMIT;
-- kept over retries, and with what changes them
SELECT pgq_fail(:job, :lease, 'broken');
SELECT attempt, progress, lease FROM pgq_claim('progress', wait => '60 s') \gset
SELECT :attempt AS attempt, :'progress' AS progress, pgq_release(:job, :lease), pgq_update(:job, priority => 1);
BEGIN;
SELECT progress, lease FROM pgq_claim('progress', wait => '60 s') \gset
SELECT :'progress' AS progress, pgq_progress(:job, :lease, '6'), pgq_ack(:job, :lease);
COMMIT;
\set VERBOSITY sqlstate
SELECT pgq_progress(:job, :lease, '7');
SELECT pgq_progress(:job, :lease, NULL);
SELECT pgq_progress(NULL, 1, '1');
SELECT count(*) FROM pgq_ext.job;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('progress');
