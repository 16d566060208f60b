-- Unique keys: who has one, until when, and what becomes of who asks for it. Bad arguments are in errors.sql, races in test/isolation/specs/keys.spec and test/t/059_keys.pl.
SELECT pgq_create_queue('q', max_attempts => 2, backoff_base => '1 h');
SELECT pgq_create_queue('r');
CREATE TEMP VIEW jobs AS SELECT queue, payload, s.unique_key, state, s.attempts FROM pgq_ext.job_status s JOIN pgq_ext.job USING (job_id) ORDER BY job_id;
CREATE FUNCTION pg_temp.ask(key text, payload jsonb, until text = 'finished', conflict text = 'keep', job bigint = NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    last bigint := (SELECT last_value FROM pgq_ext.job_id_seq);
    id bigint := pgq_enqueue('q', payload, unique_key => key, unique_until => until, on_conflict => conflict);
BEGIN
    RETURN CASE WHEN id > last THEN 'new' WHEN id = job THEN 'that one' ELSE 'another one' END;
END $$;
\set VERBOSITY sqlstate

-- One job a key and queue; every request has an answer.
SELECT pgq_enqueue('q', '1', 9, unique_key => 'k') AS k \gset
SELECT pg_temp.ask('k', '2', job => :k), pg_temp.ask('K', '3'), pg_temp.ask('k ', '4');
SELECT pgq_enqueue('r', '5', unique_key => 'k') > :k AS of_another_queue;
SELECT pgq_enqueue('q', '6') > :k AS without_a_key, pgq_enqueue('q', '7') > :k AS another;
SELECT pgq_enqueue('q', '8', unique_key => 'k', on_conflict => 'error') = 0;
TABLE jobs;
SELECT bool_and(unique_hash = hashtextextended(unique_key, queue_id)) AS hashed, count(unique_hash) FROM pgq_ext.job;
-- as long as it is in work, fails, waits for its next attempt
SELECT job_id, lease FROM pgq_claim('q') \gset a_
SELECT :a_job_id = :k AS claimed, pg_temp.ask('k', '2', job => :k), pg_temp.ask('k', '2', conflict => 'replace', job => :k) AS nothing_is_replaced;
SELECT pgq_fail(:a_job_id, :a_lease);
SELECT pg_temp.ask('k', '2', job => :k);
-- until it is dead; one that lives again has the key again, whoever has it by then
SELECT pgq_retry(:k);
SELECT job_id, lease FROM pgq_claim('q') \gset a_
SELECT :a_job_id = :k AS claimed, pgq_fail(:a_job_id, :a_lease, retry => false);
SELECT pg_temp.ask('k', '9') AS dead, pgq_redrive('q') AS redriven;
SELECT payload, attempts FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE unique_key = 'k' AND queue = 'q' ORDER BY job_id;
-- cancelled, acknowledged, expired
SELECT count(pgq_cancel(job_id)) FROM pgq_ext.job WHERE unique_key = 'k';
SELECT pg_temp.ask('k', '10') AS cancelled;
SELECT pgq_purge_queue('q') > 0 AS purged;
SELECT pg_temp.ask('k', '11') AS purged;
SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
SELECT pg_temp.ask('k', '12') AS acknowledged;
SELECT pgq_purge_queue('q');
BEGIN;
SELECT pgq_enqueue('q', '13', unique_key => 'k', expires_in => '0') \gset b_
SELECT pg_temp.ask('k', '14') AS expired;
ROLLBACK;

-- unique_until => 'claimed': one that waits
SELECT pgq_enqueue('q', '1', unique_key => 'k', unique_until => 'claimed') AS k \gset
SELECT pg_temp.ask('k', '2', 'claimed', job => :k);
SELECT job_id, lease FROM pgq_claim('q') \gset a_
SELECT pg_temp.ask('k', '3', 'claimed') AS first_is_claimed;
SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE unique_key = 'k' AND queue = 'q';
-- the youngest counts; who asks until finished gets that, too
SELECT max(job_id) AS l FROM pgq_ext.job \gset
SELECT pg_temp.ask('k', '4', 'claimed', job => :l), pg_temp.ask('k', '5', job => :l);
-- one that has failed was claimed
SELECT pgq_fail(:a_job_id, :a_lease), pgq_cancel(:l);
SELECT pg_temp.ask('k', '6', job => :k) AS finished, pg_temp.ask('k', '7', 'claimed') AS claimed;
SELECT pgq_purge_queue('q');
-- one that was given back waits again
SELECT pgq_enqueue('q', '1', unique_key => 'k') AS k \gset
SELECT pgq_release(job_id, lease) FROM pgq_claim('q');
SELECT pg_temp.ask('k', '2', 'claimed', job => :k);
SELECT pgq_purge_queue('q');

-- replace: it becomes the new one, but for its id and when it was enqueued
SELECT pgq_enqueue('q', '1', unique_key => 'k', priority => 1, headers => '{"h": 1}', delay => '1 h', expires_in => '2 h', max_attempts => 7) AS k \gset
UPDATE pgq_ext.job SET attempts = 3, last_error = 'e', progress = '1' WHERE job_id = :k;
SELECT pgq_enqueue('q', '2', 5, unique_key => 'k', on_conflict => 'replace') = :k AS that_one;
SELECT payload, priority, headers, max_attempts, expires_at, attempts, last_error, progress, run_at > enqueued_at AS later, run_at <= clock_timestamp() AS due FROM pgq_ext.job WHERE job_id = :k;
-- later and later: debounce
SELECT pgq_enqueue('q', '3', unique_key => 'k', on_conflict => 'replace', delay => '1 h') = :k AS that_one;
SELECT count(*) AS nothing FROM pgq_claim('q');
SELECT payload, run_at > clock_timestamp() + interval '59 min' AS later FROM pgq_ext.job WHERE job_id = :k;
-- preserve_run_at: all but when; throttle
SELECT run_at AS before FROM pgq_ext.job WHERE job_id = :k \gset
SELECT pgq_enqueue('q', '4', 6, unique_key => 'k', on_conflict => 'preserve_run_at', headers => '{}') = :k AS that_one;
SELECT payload, priority, headers, run_at = :'before' AS same FROM pgq_ext.job WHERE job_id = :k;
SELECT pgq_purge_queue('q');
-- append: arrays, and nothing else changes
SELECT pgq_enqueue('q', '[1, 2]', 3, unique_key => 'k', on_conflict => 'append') AS k \gset
SELECT pgq_enqueue('q', '[{"n": 3}]', unique_key => 'k', on_conflict => 'append', delay => '1 h') = :k AS that_one, pgq_enqueue('q', '[]', unique_key => 'k', on_conflict => 'append') = :k AS that_one;
SELECT payload, priority, run_at <= clock_timestamp() AS due FROM pgq_ext.job WHERE job_id = :k;
SELECT pg_temp.ask('k', '{}', conflict => 'replace', job => :k);
SELECT pgq_enqueue('q', '[4]', unique_key => 'k', on_conflict => 'append') = 0;
SELECT payload, attempt FROM pgq_claim('q');
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease;

-- In the transaction that has enqueued it; undone with it.
BEGIN;
SELECT pgq_enqueue('q', '[1]', unique_key => 'k') AS k \gset
SELECT pg_temp.ask('k', '[2]', job => :k), pg_temp.ask('k', '[3]', conflict => 'replace', job => :k);
SAVEPOINT s;
SELECT pg_temp.ask('k', '[4]', conflict => 'append', job => :k);
SELECT pgq_enqueue('q', '5', unique_key => 'k', on_conflict => 'error') = 0;
ROLLBACK TO s;
SELECT pg_temp.ask('l', '5');
ROLLBACK TO s;
SELECT pg_temp.ask('l', '6'), pg_temp.ask('l', '7', 'claimed') <> 'new';
COMMIT;
TABLE jobs;
-- What has met a job holds it until then: nobody gets it, and the transaction itself can do anything with it.
BEGIN;
SELECT pg_temp.ask('k', '1', job => :k);
SELECT state, waits_for FROM pgq_ext.job_status WHERE job_id = :k;
SELECT payload FROM pgq_claim('q', 10);
SAVEPOINT s;
SELECT pg_temp.ask('k', '"r"', conflict => 'replace', job => :k), pgq_update(:k, '"u"'), pgq_retry(:k), pgq_cancel(:k);
SELECT pg_temp.ask('k', '"new"');
ROLLBACK TO s;
SELECT pgq_update(:k, '"v"');
COMMIT;
SELECT payload FROM pgq_claim('q', 10);
SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease;
-- also when that is rolled back, to a savepoint
SELECT pgq_enqueue('q', '1', unique_key => 'k') AS k \gset
BEGIN;
SAVEPOINT s;
SELECT pg_temp.ask('k', '2', job => :k), pg_temp.ask('k', '3', conflict => 'replace', job => :k);
ROLLBACK TO s;
SELECT payload FROM pgq_claim('q', 10);
-- acknowledged in this transaction it is gone for it
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease;
SELECT pg_temp.ask('k', '4');
ROLLBACK;
SELECT unique_key FROM pgq_ext.job WHERE job_id = :k;

-- Many at a time: ids in the order of the array; a key that comes again is that of the job before.
SELECT last_value AS last FROM pgq_ext.job_id_seq \gset
SELECT id - :last AS id FROM pgq_enqueue_many('r', '[{"payload": 1}, {"payload": 2, "unique_key": "x"}, {"payload": 3},
    {"payload": 4, "unique_key": "x", "on_conflict": "replace"}, {"payload": 5, "unique_key": "y"}, {"payload": 6}]') id;
SELECT payload, unique_key FROM pgq_ext.job WHERE job_id > :last ORDER BY job_id;
SELECT count(*), count(DISTINCT id) FROM pgq_enqueue_many('r', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'unique_key', (i % 700)::text)) FROM generate_series(1, 2000) i)) id;
SELECT count(*), count(DISTINCT unique_key) FROM pgq_ext.job WHERE job_id > :last + 6;
SELECT count(*) FROM pgq_enqueue_many('r', '[{"payload": 1}, {"payload": 2, "unique_key": "z"}, {"payload": 3, "unique_key": "y", "on_conflict": "error"}]');
SELECT count(*) AS none FROM pgq_ext.job WHERE unique_key = 'z';

-- unique_for: it is nobody else's before that, whatever becomes of the job
SELECT pgq_enqueue('q', '1', unique_key => 'f', unique_for => '1 h') AS f \gset
SELECT pgq_cancel(:f);
SELECT pg_temp.ask('f', '2', job => :f) AS keep, pg_temp.ask('f', '2', 'claimed', 'replace', :f) AS nothing_to_replace;
SELECT pgq_enqueue('q', '2', unique_key => 'f', on_conflict => 'error') = 0;
SELECT pgq_enqueue('r', '2', unique_key => 'f') > :f AS of_another_queue;
BEGIN;
SELECT pgq_enqueue('q', '3', unique_key => 'g', unique_for => '1 h') \gset g_
ROLLBACK;
SELECT pg_temp.ask('g', '4');
-- no longer than that
SELECT pgq_enqueue('q', '5', unique_key => 'h', unique_for => '0') IS NOT NULL AS zero, pgq_enqueue('q', '6', unique_key => 'i', unique_for => '1 us') AS i \gset
SELECT pgq_cancel(:i);
SELECT pg_temp.ask('i', '7');
SELECT job_id = :f AS f, until - now() BETWEEN '59 min' AND '1 h' AS for_an_hour, queue, unique_key FROM pgq_ext.unique_key JOIN pgq_ext.queue USING (queue_id) WHERE until > now();
UPDATE pgq_ext.unique_key SET until = now() - interval '1 s';
SELECT pg_temp.ask('f', '8') AS over;
SELECT pgq_enqueue('q', '9', unique_key => 'j', unique_for => '1 h') > 0;

-- Keys are not compressed, however large the rest of the row is; but SQL can bring one that is.
SELECT count(*), count(DISTINCT pgq_enqueue('q', to_jsonb(payload), unique_key => repeat('a', 253) || n))
FROM (SELECT n, string_agg(md5((n * i)::text), '') AS payload FROM generate_series(10, 99) n, generate_series(1, n) i GROUP BY n) p, generate_series(1, 2);
SELECT max(pg_column_size(unique_key)) = min(pg_column_size(unique_key)) AS as_they_are FROM pgq_ext.job WHERE unique_key LIKE 'aa%';
CREATE TEMP TABLE saved AS SELECT job_id, queue_id, payload, unique_key FROM pgq_ext.job WHERE unique_key LIKE 'aa%60';
SELECT pg_column_size(unique_key) < 100 AS compressed FROM saved;
DELETE FROM pgq_ext.job WHERE unique_key LIKE 'aa%60';
INSERT INTO pgq_ext.job (job_id, queue_id, payload, unique_key) TABLE saved;
SELECT pg_column_size(unique_key) < 100 AS compressed FROM pgq_ext.job WHERE unique_key LIKE 'aa%60';
SELECT pgq_enqueue('q', '1', unique_key => unique_key) = job_id AS that_one FROM saved;
SELECT pg_temp.ask(repeat('a', 252) || '160', '1') AS of_the_same_length;

-- A job that changes its queue takes its key with it.
SELECT pgq_enqueue('q', '1', unique_key => 'm') AS m \gset
SELECT pgq_update(:m, queue => 'r');
SELECT pg_temp.ask('m', '2') AS in_q, pgq_enqueue('r', '3', unique_key => 'm') = :m AS in_r;

-- Each job is where it should be.
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('r', force => true);
SELECT count(*) FROM pgq_ext.unique_key;
