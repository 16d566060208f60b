-- What queues count: jobs unless they were rolled back, calls whatever becomes of them; and how long jobs wait and take.
-- Under load, prepared and after crashes: test/t/069_latency.pl.
SELECT pgq_create_queue('q', max_depth => 4, lease_time => '1 h', backoff_base => '1 h', backoff_max => '1 h'), pgq_create_queue('other'), pgq_create_queue('g', fair => true);
CREATE TEMP VIEW jobs AS
SELECT enqueued, deduplicated, handed_out, acked, failed, released, cancelled, lost, dead_lettered, expired, uncounted
FROM pgq_ext.queue_stats WHERE queue = 'q';
CREATE TEMP VIEW calls AS
SELECT queue, claims, empty_claims, stale_calls, rejected, ghosts FROM pgq_ext.queue_stats WHERE queue <> 'g' ORDER BY queue;
CREATE TEMP VIEW phases AS
SELECT phase, count, sum_seconds BETWEEN 0 AND 3600 AS sum FROM pgq_ext.queue_latency WHERE queue = 'q' AND le_seconds = 'Infinity' ORDER BY phase DESC;
\set VERBOSITY sqlstate

-- Nothing has happened: there are counters, and all boundaries, but no percentiles.
SELECT * FROM jobs;
SELECT * FROM calls;
SELECT wait_p50, wait_p95, run_p50, run_p95, total_p50, total_p95 FROM pgq_ext.queue_stats WHERE queue = 'q';
SELECT queue, phase, count(*), min(le_seconds), max(le_seconds), sum(count), sum(sum_seconds) FROM pgq_ext.queue_latency GROUP BY 1, 2 ORDER BY 1, 2;
SELECT string_agg(le_seconds::text, ' ' ORDER BY le_seconds) FROM pgq_ext.queue_latency WHERE queue = 'q' AND phase = 'run';

-- ---- calls ----
SELECT count(*) FROM pgq_claim('q');
SELECT count(*) FROM pgq_claim('q', 5, wait => '1 ms');
SELECT count(*) FROM pgq_claim_any('{q,other,q}');
SELECT pgq_enqueue('other', '0') > 0 AS enqueued;
-- both are looked at by the first, of which one has nothing, and one by the second
SELECT count(*) FROM pgq_claim_any('{q,other}', wait => '1 s');
SELECT pgq_enqueue('other', '1') > 0 AS enqueued;
SELECT count(*) FROM pgq_claim_any('{other,q}');
SELECT * FROM calls;
BEGIN;
SELECT count(*) FROM pgq_claim('q');
ROLLBACK;
-- paused is as good as empty; without a queue nothing is counted
SELECT pgq_pause_queue('other');
SELECT count(*) FROM pgq_claim('other');
SELECT pgq_resume_queue('other');
SELECT count(*) FROM pgq_claim('nowhere');
SELECT count(*) FROM pgq_ack_claim('{}', '{}', 'q');
SELECT * FROM calls;
-- refused, once a call
SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 4) i;
SELECT pgq_enqueue('q', '5');
SELECT pgq_enqueue_many('q', '[{"payload": 5}, {"payload": 6}]');
BEGIN;
SAVEPOINT s;
SELECT pgq_enqueue('q', '5');
ROLLBACK;
SELECT * FROM calls;

-- ---- stale: each verb, and the queue of a job that is gone, too ----
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_ack_many(ARRAY[:job_id], ARRAY[:lease]);
SELECT pgq_fail(:job_id, :lease);
SELECT pgq_release(:job_id, :lease);
SELECT pgq_extend(:job_id, :lease);
SELECT pgq_assert_lease(:job_id, :lease);
SELECT pgq_progress(:job_id, :lease, '1');
SELECT pgq_ack_claim(ARRAY[:job_id], ARRAY[:lease], 'q');
SELECT * FROM calls;
-- with a lease of somebody else, in a transaction that is rolled back
SELECT job_id, lease FROM pgq_claim('q') \gset
BEGIN;
SELECT pgq_release(:job_id, :lease - 1);
ROLLBACK;
-- nobody knows of which queue a job was that has never been in work
SELECT pgq_extend(:job_id + 100000, 1), pgq_release(-1, 1);
-- a lease is current until its job is cancelled
BEGIN;
SELECT pgq_cancel(:job_id);
SELECT pgq_extend(:job_id, :lease);
ROLLBACK;
SELECT * FROM calls;

-- ---- ghosts: the row is gone, a hint of it is there ----
DELETE FROM pgq_ext.job WHERE payload = '3';
SELECT payload FROM pgq_claim('q');
SELECT * FROM calls;

-- ---- jobs ----
SELECT pgq_purge_queue('q') > 0 AS purged;
SELECT pgq_drop_queue('q', force => true), pgq_create_queue('q', max_attempts => 2, lease_time => '1 h', backoff_base => '0', backoff_jitter => 0);
SELECT * FROM jobs;
SELECT * FROM phases;
-- deduplicated: at commit, and not if that was rolled back
SELECT pgq_enqueue('q', '1', unique_key => 'k') AS k \gset
SELECT pgq_enqueue('q', '1', unique_key => 'k') = :k AS same, pgq_enqueue('q', '2', unique_key => 'k', on_conflict => 'replace') = :k AS replaced;
SELECT pgq_enqueue('q', '1', unique_key => 'k', on_conflict => 'error');
BEGIN;
SELECT pgq_enqueue('q', '1', unique_key => 'k') = :k AS same;
SAVEPOINT s;
SELECT pgq_enqueue('q', '1', unique_key => 'k') = :k AS same;
ROLLBACK TO s;
SAVEPOINT t;
SELECT pgq_enqueue('q', '1', unique_key => 'k') = :k AS same;
RELEASE t;
SELECT deduplicated FROM jobs;
COMMIT;
BEGIN;
SELECT pgq_enqueue('q', '1', unique_key => 'k') = :k AS same;
ROLLBACK;
SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 1, "unique_key": "k"}, {"payload": 1, "unique_key": "l"}, {"payload": 1, "unique_key": "l"}]');
SELECT enqueued, deduplicated FROM jobs;
SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE unique_key = 'l';

-- ---- how long ----
-- in one transaction: nothing before it is committed
BEGIN;
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT * FROM phases;
SELECT pgq_ack(:job_id, :lease);
SELECT * FROM phases;
COMMIT;
SELECT * FROM phases;
-- undone as a whole, and to a savepoint: neither its wait nor its run
SELECT pgq_enqueue('q', '"undone"') > 0 AS enqueued;
BEGIN;
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_ack(:job_id, :lease);
ROLLBACK;
SELECT * FROM phases;
SELECT count(*) FROM pgq_claim('q', wait => '60 s');
SELECT * FROM phases;
SELECT count(pgq_enqueue('q', to_jsonb(i))) FROM generate_series(1, 3) i;
BEGIN;
SAVEPOINT s;
SELECT job_id, lease FROM pgq_claim('q') \gset
ROLLBACK TO s;
SELECT job_id, lease FROM pgq_claim('q') \gset
SAVEPOINT t;
SELECT pgq_fail(:job_id, :lease);
ROLLBACK TO t;
COMMIT;
SELECT * FROM phases;
-- its end, in each way; of those that come back the wait counts again, the total is of acks only
SELECT pgq_release(:job_id, :lease);
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_fail(:job_id, :lease, retry_in => '0');
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_cancel(:job_id);
SELECT * FROM phases;
SELECT handed_out, acked, failed, released, cancelled FROM jobs;
-- a time that somebody has written, of long ago and of the future, does no harm
SELECT pgq_purge_queue('q') > 0 AS purged;
SELECT pgq_enqueue('q', '"old"', priority => 2) > 0, pgq_enqueue('q', '"new"', priority => 1) > 0;
UPDATE pgq_ext.job SET enqueued_at = '1900-01-01', run_at = '1900-01-01' WHERE payload = '"old"';
UPDATE pgq_ext.job SET enqueued_at = clock_timestamp() + interval '1 day' WHERE payload = '"new"';
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q', 2);
SELECT phase, h.le_seconds, i.count - h.count AS longer, trunc(i.sum_seconds / 1000) AS thousands
FROM pgq_ext.queue_latency h JOIN pgq_ext.queue_latency i USING (queue, phase)
WHERE queue = 'q' AND i.le_seconds = 'Infinity' AND h.le_seconds > 30000 AND h.le_seconds < 'Infinity' ORDER BY phase;
-- cumulative, and of late: everything was
SELECT bool_and(count >= before) AS grows FROM (SELECT count, lag(count, 1, 0::bigint) OVER (PARTITION BY queue, phase ORDER BY le_seconds) AS before FROM pgq_ext.queue_latency) l;
SELECT wait_p50 >= '0' AND wait_p50 <= wait_p95 AND run_p50 >= '0' AND run_p50 <= run_p95 AND total_p50 <= total_p95 AS ordered FROM pgq_ext.queue_stats WHERE queue = 'q';

-- a queue that comes into the slot has counted nothing
SELECT pgq_drop_queue('q', force => true), pgq_create_queue('q');
SELECT * FROM jobs;
SELECT * FROM phases;
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('q'), pgq_drop_queue('other', force => true), pgq_drop_queue('g');
