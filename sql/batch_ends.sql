-- Batches: the notes that the ends of members leave, and what SQL may do to members and batches.
\set VERBOSITY terse
SELECT pgq_create_queue('ends_q', max_attempts => 1, keep_dead => '1 year'), pgq_create_queue('ends_kept', max_attempts => 1, keep_finished => '1 day'), pgq_create_queue('ends_drop');

-- Members are added by name of the batch; the notes of a batch are shown in the order in which they were written.
CREATE TABLE ends_batch (name text PRIMARY KEY, batch_id bigint NOT NULL);
CREATE FUNCTION ends_id(name text) RETURNS bigint LANGUAGE sql AS 'SELECT batch_id FROM ends_batch b WHERE b.name = $1';
CREATE FUNCTION ends_add(queue text, name text, n int, options jsonb = '{}') RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO ends_batch VALUES (name, pgq_create_batch()) ON CONFLICT DO NOTHING;
    SELECT count(*) FROM pgq_enqueue_many(queue, (SELECT jsonb_agg(options || jsonb_build_object('payload', name, 'batch', ends_id(name))) FROM generate_series(1, n)));
$$;
CREATE FUNCTION ends_notes(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s', (ARRAY['added', 'dead', 'cancelled', 'expired', 'purged', 'dropped', 'deleted', 'dead letter deleted'])[what], n), ', ' ORDER BY n.ctid)
    FROM pgq_ext.batch_note n WHERE batch_id = ends_id(name)
$$;
CREATE FUNCTION ends_jobs(name text) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT job_id FROM pgq_ext.job WHERE batch_id = ends_id(name) ORDER BY job_id';
CREATE FUNCTION ends_dead(name text) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT job_id FROM pgq_ext.dead_job WHERE batch_id = ends_id(name) ORDER BY job_id';

-- ---- an ack, a retry and a change leave no note; a death, a cancel and an expiry do ----
SELECT ends_add('ends_q', 'acked', 3);
SELECT count(pgq_ack(job_id, lease)) FROM pgq_claim('ends_q');
SELECT count(*) FROM pgq_claim('ends_q', 2) c, LATERAL pgq_ack_many(ARRAY[c.job_id], ARRAY[c.lease]) a;
SELECT ends_notes('acked');

SELECT ends_add('ends_q', 'retried', 1, '{"max_attempts": 9}');
SELECT pgq_fail(job_id, lease, 'again', retry_in => '1 h') FROM pgq_claim('ends_q');
SELECT pgq_update(j, priority => 1), pgq_retry(j) FROM ends_jobs('retried') j;
SELECT ends_notes('retried');
SELECT pgq_cancel(j) FROM ends_jobs('retried') j;
SELECT ends_notes('retried') AS cancelled;

SELECT ends_add('ends_q', 'dead', 2);
SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('ends_q', 2);
SELECT ends_notes('dead');

SELECT ends_add('ends_q', 'in_work', 1);
SELECT pgq_cancel(job_id) FROM pgq_claim('ends_q');
SELECT ends_notes('in_work') AS cancelled_in_work;

-- With records of finished jobs.
SELECT ends_add('ends_kept', 'kept', 3);
SELECT pgq_ack(job_id, lease) FROM pgq_claim('ends_kept');
SELECT pgq_cancel(min(j)) FROM ends_jobs('kept') j;
SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('ends_kept');
SELECT ends_notes('kept');
SELECT outcome, batch_id = ends_id('kept') AS in_batch FROM pgq_ext.finished_job ORDER BY job_id;

-- A new dead letter replaces an older one of the same id, which may belong to another batch.
SELECT ends_add('ends_q', 'older', 1), ends_add('ends_q', 'newer', 1);
SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('ends_q', 2);
INSERT INTO pgq_ext.job (job_id, queue_id, payload, batch_id) SELECT d.job_id, queue_id, '"again"', ends_id('newer') FROM pgq_ext.dead_job d WHERE batch_id = ends_id('older');
SELECT pgq_fail(job_id, lease, 'broken again') FROM pgq_claim('ends_q');
SELECT ends_notes('older') AS older, ends_notes('newer') AS newer, count(*) FROM ends_dead('older');

-- ---- dead letters that come back, or are deleted ----
SELECT pgq_retry(min(j)) FROM ends_dead('dead') j;
SELECT ends_notes('dead') AS revived;
SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('ends_q');
SELECT count(*) FROM ends_dead('newer');
BEGIN;
SELECT pgq_redrive('ends_q') > 2 AS redriven;
SELECT ends_notes('dead') AS dead, ends_notes('newer') AS newer, ends_notes('older') AS older;
ROLLBACK;
SELECT pgq_cancel(min(j)) FROM ends_dead('dead') j;
SELECT ends_notes('dead') AS cancelled;
DELETE FROM pgq_ext.dead_job WHERE batch_id = ends_id('newer');
SELECT ends_notes('newer') AS deleted_by_sql;

-- ---- purge and drop: one note a batch ----
SELECT ends_add('ends_q', 'purged', 5), ends_add('ends_q', 'purged too', 2), ends_add('ends_q', 'purged', 4), count(pgq_enqueue('ends_q', '1')) FROM generate_series(1, 3);
SELECT job_id, lease FROM pgq_claim('ends_q')
\gset
BEGIN;
SELECT pgq_purge_queue('ends_q');
SELECT ends_notes('purged') AS purged, ends_notes('purged too') AS too;
ROLLBACK;
SELECT ends_notes('purged') AS undone;
SELECT pgq_purge_queue('ends_q');
SELECT ends_notes('purged') AS purged, ends_notes('purged too') AS too;
SELECT pgq_ack(:job_id, :lease);

SELECT ends_add('ends_drop', 'dropped', 3);
SELECT pgq_fail(job_id, lease, 'broken', retry => false) FROM pgq_claim('ends_drop');
SELECT pgq_drop_queue('ends_drop', force => true);
SELECT ends_notes('dropped');

-- ---- SQL ----
SELECT ends_add('ends_q', 'sql', 10);
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
DELETE FROM pgq_ext.job WHERE job_id IN (SELECT j FROM ends_jobs('sql') j LIMIT 2);
SELECT ends_notes('sql');
-- At the end of the transaction, without what was rolled back to a savepoint.
BEGIN;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
SAVEPOINT a;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
SAVEPOINT b;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
RELEASE b;
ROLLBACK TO a;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
RELEASE a;
-- What a statement of the extension writes in a savepoint is undone with it, and nothing else.
SAVEPOINT c;
SELECT ends_add('ends_q', 'purged in savepoint', 1);
SELECT pgq_purge_queue('ends_q') > 1 AS purged;
ROLLBACK TO c;
SELECT ends_notes('sql') AS before_commit;
COMMIT;
SELECT ends_notes('sql') AS after_commit, count(*) AS jobs FROM ends_jobs('sql');
BEGIN;
DELETE FROM pgq_ext.job WHERE batch_id = ends_id('sql');
ROLLBACK;
SELECT ends_notes('sql') AS undone;
-- A failed statement of the extension leaves nothing behind that the next one takes for its own.
BEGIN;
SAVEPOINT a;
SELECT pgq_purge_queue('nowhere');
ROLLBACK TO a;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
COMMIT;
SELECT ends_notes('sql');
-- A move to another partition is no end, neither of a job nor of a dead letter.
UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE batch_id = ends_id('sql');
UPDATE pgq_ext.dead_job SET segment = 8 + (segment - 7) % 4 WHERE batch_id = ends_id('dead');
UPDATE pgq_ext.job SET priority = 7 WHERE batch_id = ends_id('sql');
SELECT ends_notes('sql') AS jobs, ends_notes('dead') AS dead_letters;
-- The batch of a job stays as it is.
UPDATE pgq_ext.job SET batch_id = 1 WHERE batch_id = ends_id('sql');
UPDATE pgq_ext.job SET batch_id = NULL, segment = (segment + 1) % 8 WHERE batch_id = ends_id('sql');
SELECT count(*) FROM ends_jobs('sql');
-- Changes of another server: its notes come, too.
SET session_replication_role = replica;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT min(j) FROM ends_jobs('sql') j);
RESET session_replication_role;
SELECT ends_notes('sql') AS replicated;
-- A million small batches need no million statements.
BEGIN;
CREATE TEMP TABLE many ON COMMIT DROP AS SELECT pgq_create_batch() AS batch_id FROM generate_series(1, 1000);
INSERT INTO pgq_ext.job (queue_id, payload, batch_id) SELECT queue_id, '1', batch_id FROM many, generate_series(1, 3), pgq_ext.queue WHERE queue = 'ends_q';
DELETE FROM pgq_ext.job j USING many m WHERE j.batch_id = m.batch_id;
COMMIT;
SELECT n, count(*) FROM pgq_ext.batch_note WHERE what = 7 AND n = 3 AND batch_id NOT IN (SELECT batch_id FROM ends_batch) GROUP BY n;
-- TRUNCATE names no rows.
SELECT ends_add('ends_q', 'settled', 1);
UPDATE pgq_ext.job_batch SET pending = false WHERE batch_id = ends_id('settled');
TRUNCATE pgq_ext.job;
SELECT ends_notes('sql') AS pending, ends_notes('settled') AS settled;
TRUNCATE pgq_ext.dead_job;
SELECT ends_notes('sql') AS pending, ends_notes('settled') AS settled;

-- ---- rows of batches ----
-- A batch that SQL inserts counts as restored, and its maker is found by name.
INSERT INTO pgq_ext.job_batch (batch_id, restored, maker, maker_name) VALUES (65536, false, 1, current_user), (65537, false, 1, 'nobody');
SELECT batch_id, restored, maker = current_user::regrole AS mine, maker IS NULL AS nobodys FROM pgq_ext.job_batch WHERE batch_id BETWEEN 65536 AND 65537 ORDER BY 1;
SELECT restored, maker = current_user::regrole AS mine FROM pgq_ext.job_batch WHERE batch_id = ends_id('sql');
UPDATE pgq_ext.job_batch SET maker = NULL, metadata = '1' WHERE batch_id = 65536;
SELECT restored, maker = current_user::regrole AS mine FROM pgq_ext.job_batch WHERE batch_id = 65536;
UPDATE pgq_ext.job_batch SET batch_id = 65538 WHERE batch_id = 65536;
-- It is kept while it can still get a callback, or has members.
DELETE FROM pgq_ext.job_batch WHERE batch_id = 65536;
TRUNCATE pgq_ext.job_batch;
UPDATE pgq_ext.job_batch SET pending = false;
DELETE FROM pgq_ext.job_batch WHERE batch_id = 65536;
INSERT INTO pgq_ext.job (queue_id, payload, batch_id) SELECT queue_id, '1', 65537 FROM pgq_ext.queue WHERE queue = 'ends_q';
DELETE FROM pgq_ext.job_batch WHERE batch_id = 65537;
TRUNCATE pgq_ext.job_batch;
SELECT pgq_fail(job_id, lease, 'broken') FROM pgq_claim('ends_q');
DELETE FROM pgq_ext.job_batch WHERE batch_id = 65537;
TRUNCATE pgq_ext.job_batch;
DELETE FROM pgq_ext.dead_job;
DELETE FROM pgq_ext.job_batch WHERE batch_id = 65537;
TRUNCATE pgq_ext.job_batch;

SELECT count(*) FROM pgq_check();
SELECT pgq_drop_queue('ends_q', force => true), pgq_drop_queue('ends_kept', force => true);
TRUNCATE pgq_ext.batch_note;
DROP FUNCTION ends_dead, ends_jobs, ends_notes, ends_add, ends_id;
DROP TABLE ends_batch;
