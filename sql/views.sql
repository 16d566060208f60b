-- What people see: one job in each state, and counters that count nothing that was undone.
SELECT pgq_create_queue('empty'), pgq_create_queue('q', max_attempts => 5, backoff_base => '1 day', backoff_max => '1 day', backoff_jitter => 0, lease_time => '1 h');
SELECT queue, ready, scheduled, leased, dead, oldest_ready_age, waiting_claims, last_claim_at, paused FROM pgq_ext.queue_status ORDER BY 1;
SELECT queue, enqueued, handed_out, acked, failed, lost, dead_lettered, stats_since <= clock_timestamp() AS since FROM pgq_ext.queue_stats ORDER BY 1;

SELECT clock_timestamp() AS before \gset
SELECT pgq_enqueue('q', '"ready"', -1) > 0, pgq_enqueue('q', '"scheduled"', 7, '1 day', max_attempts => 2) > 0, pgq_enqueue('q', '"leased"', 1) > 0,
       pgq_enqueue('q', '"backing off"', 2) > 0, pgq_enqueue('q', '"dead"', 3) > 0, pgq_enqueue('q', '"acked"', 4) > 0, pgq_enqueue('q', '"lost"', 5) > 0;
BEGIN;
SELECT pgq_enqueue('q', '"undone"') > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q');
ROLLBACK;
SELECT payload, CASE payload WHEN '"acked"' THEN pgq_ack(job_id, lease)::text WHEN '"dead"' THEN pgq_fail(job_id, lease, 'hopeless', retry => false)
    ELSE pgq_fail(job_id, lease, 'try again') END AS answer
FROM pgq_claim('q', 3, worker => 'w1');
BEGIN;
SELECT job_id, payload FROM pgq_claim('q', worker => 'w2') \gset
SELECT queue, group_key, attempt, worker, pid = pg_backend_pid() AS pid, claimed_at BETWEEN :'before' AND clock_timestamp() AS claimed_at,
       lease_expires_at - claimed_at AS lease_time, session_bound, in_transaction
FROM pgq_ext.lease WHERE job_id = :job_id;
COMMIT;
-- the scheduler writes down what was lost
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN EXISTS (SELECT FROM pgq_ext.job WHERE payload = '"lost"' AND attempts = 1) AND NOT EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE state = 'lost');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT payload, s.state, s.waits_for, s.priority, s.attempts, s.max_attempts, s.group_key, s.unique_key, s.expires_at, s.worker, s.lease_expires_at > clock_timestamp() AS held,
       s.run_at > clock_timestamp() + interval '23 h' AS tomorrow, s.last_error
FROM pgq_ext.job_status s JOIN pgq_ext.job USING (job_id) ORDER BY job_id;
SELECT queue, ready, scheduled, leased, dead, oldest_ready_age BETWEEN '0' AND clock_timestamp() - :'before' AS age, waiting_claims,
       last_claim_at BETWEEN :'before' AND clock_timestamp() AS last_claim, paused
FROM pgq_ext.queue_status ORDER BY 1;
SELECT queue, in_transaction, worker FROM pgq_ext.lease;
SELECT queue, enqueued, handed_out, acked, failed, lost, dead_lettered FROM pgq_ext.queue_stats ORDER BY 1;

-- Ready is what a claim can get, in a transaction that began long before, too.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease;
SELECT pgq_enqueue('q', '"mine"') > 0 AS enqueued;
SELECT state, count(*) FROM pgq_ext.job_status GROUP BY 1 ORDER BY 1;
ROLLBACK;
SELECT state, count(*) FROM pgq_ext.job_status GROUP BY 1 ORDER BY 1;
SELECT payload FROM pgq_claim('q', 10);
SELECT ready, scheduled, leased, dead, oldest_ready_age FROM pgq_ext.queue_status WHERE queue = 'q';

-- None can be written through.
\set VERBOSITY sqlstate
DELETE FROM pgq_ext.lease;
UPDATE pgq_ext.job_status SET priority = 1;
\set VERBOSITY default
SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('empty');
SELECT count(*) FROM pgq_ext.lease_entries();
SELECT count(*) FROM pgq_ext.queue_entries();

-- ---- segments ----
-- New rows go to one of them; rows that were put elsewhere by hand are counted where they are.
SELECT pgq_create_queue('s'), pgq_enqueue('s', '1') > 0, pgq_enqueue('s', '2') > 0;
SELECT parent, count(*), count(*) FILTER (WHERE state = 'current') AS current, bool_and(relation = format('%s_%s', parent, segment)::regclass) AS relations,
       sum(live_rows) AS live_rows, max(live_rows) FILTER (WHERE state = 'current') AS in_current,
       bool_and(size = pg_total_relation_size(relation)) AS sizes, bool_and((age IS NULL) = (live_rows = 0)) AS ages
FROM pgq_ext.segment GROUP BY 1 ORDER BY 1 DESC;
BEGIN;
SELECT segment AS current, (segment + 1) % 8 AS next FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.job'::regclass \gset
UPDATE pgq_ext.job SET segment = :next WHERE payload = '2';
SELECT state, live_rows, held_by FROM pgq_ext.segment WHERE segment IN (:current, :next) ORDER BY 1;
ROLLBACK;
SELECT count(*) FROM pgq_ext.rotation_blocker JOIN pg_stat_activity USING (pid) WHERE kind = 'snapshot' AND backend_type = 'client backend';
SELECT pgq_drop_queue('s', force => true);

-- ---- capacity ----
SELECT name, used <= peak AS peaked, peak <= bound AS bounded, bound = current_setting(guc)::bigint AS as_set, guc, entry_bytes > 0 AS has_cost
FROM pgq_ext.capacity;
SELECT used AS leases_before FROM pgq_ext.capacity WHERE name = 'leases' \gset
SELECT pgq_create_queue('bounds');
SELECT count(pgq_enqueue('bounds', '1')) FROM generate_series(1, 7);
SELECT count(*) FROM pgq_claim('bounds', 5);
SELECT used - :leases_before AS leases, peak >= used AS peak FROM pgq_ext.capacity WHERE name = 'leases';
SELECT pgq_drop_queue('bounds', force => true);
SELECT used - :leases_before AS leases, peak >= :leases_before + 5 AS peak FROM pgq_ext.capacity WHERE name = 'leases';
SELECT * FROM pgq_check();
