-- What is written of attempts and finished jobs: by the options of the queue, with the end of the row, once. Bad options are in errors.sql.
SELECT pgq_create_queue('all', log_attempts => 'all', keep_finished => '1 day', backoff_base => '0', max_attempts => 2, lease_time => '1 h');
SELECT pgq_create_queue('failed', backoff_base => '0', lease_time => '1 h');
SELECT pgq_create_queue('none', log_attempts => 'none', backoff_base => '0', lease_time => '1 h');
CREATE VIEW ended AS
SELECT q.queue, a.attempt, a.outcome, a.worker, a.reason, a.error,
       a.claimed_at <= a.ended_at AND a.ended_at <= clock_timestamp() AND a.claimed_at > now() - interval '1 h' AS times
FROM pgq_ext.attempt a JOIN pgq_ext.queue q USING (queue_id) ORDER BY a.ended_at, a.job_id;
CREATE VIEW finished AS
SELECT q.queue, f.outcome, f.payload, f.headers, f.result, f.worker, f.priority, f.attempts, f.max_attempts, f.last_error,
       f.enqueued_at <= f.finished_at AND f.finished_at <= clock_timestamp() AS times
FROM pgq_ext.finished_job f JOIN pgq_ext.queue q USING (queue_id) ORDER BY f.finished_at, f.job_id;

-- Each way in which an attempt ends, by each setting.
CREATE PROCEDURE one_of_each(q text) LANGUAGE plpgsql AS $$
DECLARE
    j pgq_ext.claimed_job;
BEGIN
    PERFORM pgq_enqueue(q, '"acked"', 5, headers => '{"h": 1}'), pgq_enqueue(q, '"failed"', 4), pgq_enqueue(q, '"released"', 3),
            pgq_enqueue(q, '"dead"', 2), pgq_enqueue(q, '"no retry"', 1, max_attempts => 7);
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, worker => 'ada');
    PERFORM pgq_ack(j.job_id, j.lease, '{"sum": 3}');
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, worker => 'bob');
    PERFORM pgq_fail(j.job_id, j.lease, 'first');
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, wait => '60 s', worker => 'eve');
    PERFORM pgq_ack(j.job_id, j.lease);
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, worker => '');
    PERFORM pgq_release(j.job_id, j.lease, '1 day');
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, worker => 'dan');
    PERFORM pgq_fail(j.job_id, j.lease);
    COMMIT;
    UPDATE pgq_ext.job SET max_attempts = 2 WHERE job_id = j.job_id;
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, wait => '60 s', worker => 'dan');
    PERFORM pgq_fail(j.job_id, j.lease, 'second');
    COMMIT;
    SELECT * INTO j FROM pgq_claim(q, worker => 'dan');
    PERFORM pgq_fail(j.job_id, j.lease, 'for good', retry => false);
END $$;
CALL one_of_each('all');
CALL one_of_each('failed');
CALL one_of_each('none');
SELECT * FROM ended;
SELECT * FROM finished;
SELECT a.job_id = f.job_id AS same_job, a.lease > 0 AND a.lease < 9007199254740992 AS lease FROM pgq_ext.attempt a JOIN pgq_ext.finished_job f USING (job_id)
WHERE a.outcome = 'acked' AND f.payload = '"acked"';
SELECT queue, payload, reason, last_error FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) ORDER BY 1, 2;
DELETE FROM pgq_ext.attempt;
DELETE FROM pgq_ext.finished_job;
SELECT pgq_purge_queue('all'), pgq_purge_queue('failed'), pgq_purge_queue('none');
-- What is purged is no record's.
SELECT count(*) FROM pgq_ext.finished_job;

-- Undone, nothing was written; a savepoint's end is not the transaction's.
SELECT pgq_enqueue('all', '1') > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('all', worker => 'w') \gset
BEGIN;
SELECT pgq_ack(:job_id, :lease, '"undone"');
ROLLBACK;
SELECT count(*) FROM pgq_ext.attempt;
BEGIN;
SAVEPOINT s;
SELECT pgq_ack(:job_id, :lease, '"undone"');
SELECT outcome FROM ended;
ROLLBACK TO s;
SAVEPOINT t;
SELECT pgq_fail(:job_id, :lease, 'undone');
ROLLBACK TO t;
SAVEPOINT u;
SELECT pgq_release(:job_id, :lease);
ROLLBACK TO u;
SELECT pgq_ack(:job_id, :lease, '"kept"');
COMMIT;
SELECT queue, attempt, outcome, error FROM ended;
SELECT result, attempts FROM finished;
-- A stale answer writes nothing.
\set VERBOSITY sqlstate
SELECT pgq_ack(:job_id, :lease, '"stale"');
\set VERBOSITY default
SELECT pgq_fail(:job_id, :lease, 'stale'), pgq_release(:job_id, :lease);
SELECT count(*) FROM pgq_ext.attempt;
-- Nor an answer for a row that is gone.
SELECT pgq_enqueue('all', '1') > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('all', worker => 'w') \gset
DELETE FROM pgq_ext.job WHERE job_id = :job_id;
SELECT pgq_fail(:job_id, :lease, 'gone');
SELECT count(*) FROM pgq_ext.attempt;
TRUNCATE pgq_ext.attempt, pgq_ext.finished_job;

-- In bulk, and with the next claim; claimed and acknowledged in one transaction.
SELECT count(pgq_enqueue('all', to_jsonb(i))) FROM generate_series(1, 1000) i;
WITH c AS MATERIALIZED (SELECT array_agg(job_id) AS ids, array_agg(lease) AS leases FROM pgq_claim('all', 900))
SELECT count(*) FROM c, pgq_ack_many(c.ids, c.leases);
SELECT job_id, lease FROM pgq_claim('all') \gset
SELECT count(*) FROM pgq_ack_claim(ARRAY[:job_id], ARRAY[:lease], 'all', 99);
BEGIN;
SELECT count(pgq_ack(job_id, lease, to_jsonb(job_id))) FROM pgq_ext.lease;
COMMIT;
SELECT outcome, count(*), count(DISTINCT job_id) FROM pgq_ext.attempt GROUP BY 1;
SELECT outcome, count(*), count(DISTINCT payload), count(result), bool_and(result IS NULL OR result = to_jsonb(job_id)) AS results FROM pgq_ext.finished_job GROUP BY 1;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM pgq_ext.finished_job a, LATERAL (SELECT FROM pgq_ext.finished_job f WHERE f.job_id = a.job_id) b;
SELECT count(*) FROM pgq_ext.attempt a, LATERAL (SELECT FROM pgq_ext.attempt f WHERE f.job_id = a.job_id AND f.lease = a.lease) b;
RESET enable_seqscan;
RESET enable_bitmapscan;
TRUNCATE pgq_ext.attempt, pgq_ext.finished_job;

-- A batch of more than is written at once, on several pages, of rows that are not all alike: undone with a savepoint, or by what fails at its end, then done.
SELECT count(pgq_enqueue('all', to_jsonb(i), headers => CASE WHEN i % 3 = 0 THEN to_jsonb(-i) END)), count(pgq_enqueue('none', 'null')) FROM generate_series(1, 2500) i;
CREATE TEMP TABLE many AS SELECT job_id, lease, payload FROM pgq_claim('all', 2500, worker => 'm') UNION ALL SELECT job_id, lease, payload FROM pgq_claim('none', 2500);
BEGIN;
SELECT count(*) FROM pgq_ack_many((SELECT array_agg(job_id ORDER BY job_id) FROM many WHERE payload <= '100'), (SELECT array_agg(lease ORDER BY job_id) FROM many WHERE payload <= '100'));
SAVEPOINT s;
SELECT count(*) FROM pgq_ack_many((SELECT array_agg(job_id ORDER BY job_id) FROM many), (SELECT array_agg(lease ORDER BY job_id) FROM many));
SELECT (SELECT count(*) FROM pgq_ext.attempt) AS attempts, (SELECT count(*) FROM pgq_ext.finished_job) AS finished,
       (SELECT count(DISTINCT (tableoid, (ctid::text::point)[0])) > 20 FROM pgq_ext.attempt) AS pages;
ROLLBACK TO s;
SELECT (SELECT count(*) FROM pgq_ext.attempt) AS attempts, (SELECT count(*) FROM pgq_ext.finished_job) AS finished;
\set VERBOSITY sqlstate
SELECT count(*) FROM pgq_ack_claim((SELECT array_agg(job_id ORDER BY job_id) || 1::bigint FROM many WHERE payload > '100'), (SELECT array_agg(lease ORDER BY job_id) || 1::bigint FROM many WHERE payload > '100'), 'all');
\set VERBOSITY default
ROLLBACK TO s;
SELECT (SELECT count(*) FROM pgq_ext.attempt) AS attempts, (SELECT count(*) FROM pgq_ext.finished_job) AS finished;
SELECT count(*) FROM pgq_ack_claim((SELECT array_agg(job_id ORDER BY job_id) FROM many WHERE payload > '100'), (SELECT array_agg(lease ORDER BY job_id) FROM many WHERE payload > '100'), 'all');
COMMIT;
SELECT count(*), count(DISTINCT a.job_id) AS jobs, bool_and(a.outcome = 'acked' AND a.worker = 'm' AND a.lease = m.lease AND a.claimed_at <= a.ended_at) AS right
FROM pgq_ext.attempt a LEFT JOIN many m USING (job_id);
SELECT count(*), count(DISTINCT f.job_id) AS jobs, bool_and(f.outcome = 'acked' AND f.worker = 'm' AND f.payload = m.payload AND f.enqueued_at <= f.finished_at
       AND f.headers IS NOT DISTINCT FROM CASE WHEN f.payload::int % 3 = 0 THEN to_jsonb(-f.payload::int) END) AS right
FROM pgq_ext.finished_job f LEFT JOIN many m USING (job_id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(a.*), count(f.*) FROM many m LEFT JOIN LATERAL (SELECT FROM pgq_ext.attempt a WHERE a.job_id = m.job_id AND a.lease = m.lease) a ON true
LEFT JOIN LATERAL (SELECT FROM pgq_ext.finished_job f WHERE f.job_id = m.job_id) f ON true;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT * FROM pgq_check();
TRUNCATE pgq_ext.attempt, pgq_ext.finished_job;
DROP TABLE many;

-- What is stored outside of its row comes along whole.
CREATE TEMP TABLE large AS SELECT jsonb_agg(md5(i::text)) AS value FROM generate_series(1, 5000) i;
SELECT pgq_enqueue('all', value, headers => value) > 0 AS enqueued FROM large;
SELECT pgq_ack(job_id, lease, (SELECT value FROM large)) FROM pgq_claim('all');
SELECT payload = value AS payload, headers = value AS headers, result = value AS result FROM pgq_ext.finished_job, large;
SELECT count(pgq_enqueue('all', value)) FROM large, generate_series(1, 5);
WITH c AS MATERIALIZED (SELECT array_agg(job_id) AS ids, array_agg(lease) AS leases FROM pgq_claim('all', 5))
SELECT count(*) FROM c, pgq_ack_many(c.ids, c.leases);
SELECT count(*) FROM pgq_ext.finished_job, large WHERE payload = value;

-- Options are followed from the commit on; kept for no time is not written.
SELECT pgq_alter_queue('all', log_attempts => 'none', keep_finished => '0');
TRUNCATE pgq_ext.attempt, pgq_ext.finished_job;
SELECT pgq_enqueue('all', '1') > 0 AS enqueued;
SELECT pgq_ack(job_id, lease, '"not kept"') FROM pgq_claim('all');
SELECT pgq_alter_queue('all', log_attempts => 'all', keep_attempts => '0');
SELECT pgq_enqueue('all', '1') > 0 AS enqueued;
SELECT pgq_fail(job_id, lease) FROM pgq_claim('all');
SELECT (SELECT count(*) FROM pgq_ext.attempt) AS attempts, (SELECT count(*) FROM pgq_ext.finished_job) AS finished;
SELECT log_attempts, keep_attempts, keep_finished FROM pgq_ext.queue WHERE queue = 'all';
SELECT pgq_alter_queue('all', keep_attempts => '1 h', keep_finished => '2 h');
SELECT pgq_ack(job_id, lease, 'null') FROM pgq_claim('all', wait => '60 s', worker => 'w');
SELECT queue, attempt, outcome FROM ended;
SELECT result, last_error FROM finished;

-- An index that somebody has added has its entries, too; what it forbids fails.
SELECT segment AS attempts FROM pgq_ext.segment WHERE state = 'current' AND parent = 'pgq_ext.attempt'::regclass \gset
CREATE UNIQUE INDEX mine ON pgq_ext.attempt_:attempts ((lower(worker)));
SELECT count(pgq_enqueue('all', '1')) FROM generate_series(1, 2);
SELECT pgq_ack(job_id, lease) FROM pgq_claim('all', worker => 'X');
SET enable_seqscan = off;
SELECT count(*) FROM pgq_ext.attempt_:attempts WHERE lower(worker) = 'x';
RESET enable_seqscan;
SELECT job_id, lease FROM pgq_claim('all', worker => 'x') \gset
\set VERBOSITY sqlstate
SELECT pgq_ack(:job_id, :lease);
\set VERBOSITY default
DROP INDEX pgq_ext.mine;
SELECT pgq_ack(:job_id, :lease);
-- A job that somebody has brought back may end once more.
INSERT INTO pgq_ext.job (job_id, queue_id, payload) SELECT job_id, queue_id, '"again"' FROM pgq_ext.finished_job WHERE job_id = :job_id;
SELECT pgq_ack(job_id, lease) FROM pgq_claim('all', wait => '60 s');
SELECT payload FROM pgq_ext.finished_job WHERE job_id = :job_id ORDER BY finished_at;

-- Records are no job's: a queue that has no other is dropped, and they are with it, also by hand.
SELECT * FROM pgq_check();
SELECT count(*) > 0 AS records FROM pgq_ext.attempt;
SELECT pgq_drop_queue('all', force => true);
SELECT (SELECT count(*) FROM pgq_ext.attempt) AS attempts, (SELECT count(*) FROM pgq_ext.finished_job) AS finished;
SELECT pgq_enqueue('failed', '1') > 0 AS enqueued;
SELECT pgq_fail(job_id, lease, 'last') FROM pgq_claim('failed');
DELETE FROM pgq_ext.dead_job;
SELECT pgq_purge_queue('failed');
SELECT count(*) FROM pgq_ext.attempt;
DELETE FROM pgq_ext.queue WHERE queue = 'failed';
SELECT count(*) FROM pgq_ext.attempt;
INSERT INTO pgq_ext.attempt (job_id, lease, claimed_at, ended_at, queue_id, attempt, outcome) VALUES (1, 1, now(), now(), 0, 1, 'acked');
SELECT * FROM pgq_check();
DELETE FROM pgq_ext.attempt;
DROP VIEW ended, finished;
DROP PROCEDURE one_of_each;
SELECT pgq_drop_queue('none', force => true);
