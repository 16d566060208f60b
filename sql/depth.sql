-- How many jobs of a queue live at a time: max_depth.
SELECT pgq_create_queue('depth', max_depth => 3, backoff_base => '1 h');
CREATE FUNCTION depth() RETURNS TABLE (depth bigint, live bigint) LANGUAGE sql AS
$$SELECT s.depth, s.ready + s.scheduled + s.leased FROM pgq_ext.queue_status s WHERE s.queue = 'depth'$$;

-- All that lives counts, whatever it waits for. live is what has been committed.
SELECT * FROM depth();
SELECT pgq_enqueue('depth', '1') > 0 AS enqueued, pgq_enqueue('depth', '2', delay => '1 day') > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('depth') \gset
SELECT pgq_enqueue('depth', '3') > 0 AS enqueued;
SELECT * FROM depth();
SELECT pgq_enqueue('depth', '4');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM depth();

-- Each end of a job makes room for one. A retry, a release and a dead letter that waits do not count twice.
SELECT pgq_release(:job_id, :lease);
SELECT pgq_enqueue('depth', '4');
SELECT job_id, lease FROM pgq_claim('depth') \gset
SELECT pgq_fail(:job_id, :lease, 'again', retry_in => '0');
SELECT * FROM depth();
SELECT job_id, lease FROM pgq_claim('depth') \gset
SELECT pgq_fail(:job_id, :lease, 'no', retry => false);
SELECT * FROM depth();
SELECT pgq_enqueue('depth', '"after a death"') AS after_death \gset
SELECT pgq_enqueue('depth', '"too many"');
SELECT pgq_cancel(:after_death);
SELECT pgq_enqueue('depth', '"after a cancel"', priority => 1) > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('depth') \gset
SELECT pgq_ack(:job_id, :lease);
SELECT * FROM depth();
SELECT pgq_purge_queue('depth');
SELECT * FROM depth();

-- Several at once: all or none.
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 1}, {"payload": 2}]');
SELECT pgq_enqueue_many('depth', '[{"payload": 3}, {"payload": 4}]');
SELECT * FROM depth();
SELECT count(*) FROM pgq_enqueue_many('depth', '[]');
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 3}]');
SELECT pgq_enqueue_many('depth', '[{"payload": 4}]');
SELECT count(*) FROM pgq_enqueue_many('depth', '[]');
-- more than one batch, and one that fails in the middle
SELECT pgq_alter_queue('depth', max_depth => 2000);
SELECT count(*) FROM pgq_enqueue_many('depth', (SELECT jsonb_agg('{"payload": 1}'::jsonb) FROM generate_series(1, 1997)));
SELECT pgq_enqueue('depth', '1');
SELECT * FROM depth();
SELECT pgq_purge_queue('depth');
SELECT pgq_enqueue_many('depth', (SELECT jsonb_agg(CASE WHEN i < 1500 THEN '{"payload": 1}'::jsonb ELSE '{}' END) FROM generate_series(1, 2000) i));
SELECT * FROM depth();
SELECT pgq_alter_queue('depth', max_depth => 3);

-- A rollback, also to a savepoint, gives the room back; a failing statement inside a function, too.
BEGIN;
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]');
SELECT * FROM depth();
ROLLBACK;
SELECT * FROM depth();
BEGIN;
SELECT pgq_enqueue('depth', '"kept"') > 0 AS enqueued;
SAVEPOINT s;
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 2}, {"payload": 3}]');
SAVEPOINT full_now;
SELECT pgq_enqueue('depth', '4');
ROLLBACK TO full_now;
SELECT * FROM depth();
ROLLBACK TO s;
SELECT * FROM depth();
SAVEPOINT t;
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 2}, {"payload": 3}]');
RELEASE t;
COMMIT;
SELECT * FROM depth();
SELECT pgq_purge_queue('depth');
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		BEGIN
			PERFORM pgq_enqueue('depth', to_jsonb(i));
			IF i % 50 <> 0 THEN RAISE EXCEPTION 'undone'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
SELECT * FROM depth();
SELECT pgq_purge_queue('depth');

-- What a transaction ends itself is room for it at once, and for nobody else before it commits.
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]');
SELECT job_id, lease FROM pgq_claim('depth') \gset
BEGIN;
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_enqueue('depth', '"the next step"') > 0 AS enqueued;
SELECT * FROM depth();
SAVEPOINT s;
SELECT pgq_enqueue('depth', '"and one more"');
ROLLBACK TO s;
COMMIT;
SELECT * FROM depth();
-- with the savepoint the acknowledgement goes, and what was enqueued for it
SELECT job_id, lease FROM pgq_claim('depth') \gset
BEGIN;
SAVEPOINT s;
SELECT pgq_ack(:job_id, :lease);
SAVEPOINT t;
SELECT pgq_enqueue('depth', '"next"') > 0 AS enqueued;
ROLLBACK TO t;
SELECT pgq_enqueue('depth', '"next"') > 0 AS enqueued;
ROLLBACK TO s;
SELECT pgq_enqueue('depth', '"too many"');
ROLLBACK;
SELECT * FROM depth();
-- also in a queue that is fuller than it may be: it gets no fuller
SELECT pgq_alter_queue('depth', max_depth => 1);
BEGIN;
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_enqueue('depth', '"next"') > 0 AS enqueued;
COMMIT;
SELECT pgq_enqueue('depth', '"too many"');
SELECT * FROM depth();
SELECT pgq_alter_queue('depth', max_depth => 3);

-- Dead letters come back into a queue that has room for all of them.
SELECT pgq_purge_queue('depth');
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": "dies"}, {"payload": 2}, {"payload": 3}]');
SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('depth', 2);
SELECT max(job_id) AS dead FROM pgq_ext.dead_job \gset
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 4}]');
SELECT pgq_redrive('depth');
SELECT count(*) FROM pgq_ext.dead_job;
SELECT * FROM depth();
BEGIN;
SELECT pgq_redrive('depth', 1);
SELECT * FROM depth();
SAVEPOINT s;
SELECT pgq_retry(:dead);
ROLLBACK TO s;
SELECT pgq_enqueue('depth', '"too many"');
ROLLBACK;
SELECT * FROM depth();
SELECT pgq_retry(:dead, '1 day');
SELECT * FROM depth();
SELECT pgq_redrive('depth', 1);
SELECT pgq_redrive('depth', 0);
SELECT pgq_retry(job_id) FROM pgq_ext.dead_job;
-- One that waits already needs none.
SELECT pgq_retry(:dead);
-- Who ends a job has its room at once.
BEGIN;
SELECT pgq_cancel(:dead);
SELECT pgq_redrive('depth', 1);
COMMIT;
SELECT * FROM depth();
SELECT count(*) FROM pgq_ext.dead_job;
-- Without a limit there is room for all, which count when there is one again.
SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('depth') \g /dev/null
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 5}]');
SELECT pgq_retry(job_id) FROM pgq_ext.dead_job;
SELECT pgq_alter_queue('depth', max_depth => 0);
SELECT pgq_retry(job_id) FROM pgq_ext.dead_job;
SELECT pgq_alter_queue('depth', max_depth => 3);
-- What comes by SQL is not refused, and counts. A job that is moved to a full queue is.
SELECT pgq_enqueue('depth', '"too many"');
SELECT * FROM depth();
INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '"by hand"' FROM pgq_ext.queue WHERE queue = 'depth';
SELECT * FROM depth();
SELECT pgq_create_queue('beside'), pgq_enqueue('beside', '1') AS other \gset
SELECT pgq_update(:other, queue => 'depth');
SELECT pgq_update(min(job_id), queue => 'beside') FROM pgq_ext.job_status WHERE queue = 'depth';
SELECT * FROM depth();
UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'depth') WHERE job_id = :other;
SELECT * FROM depth();
-- What is deleted by hand.
DELETE FROM pgq_ext.job WHERE job_id = :other;
SELECT * FROM depth();
DELETE FROM pgq_ext.job WHERE queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'depth')
AND job_id <> (SELECT max(job_id) FROM pgq_ext.job);
SELECT * FROM depth();
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 1}, {"payload": 2}]');
SELECT * FROM depth();
BEGIN;
DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job);
SAVEPOINT s;
SELECT pgq_enqueue('depth', '"what it has deleted itself"') > 0 AS enqueued;
ROLLBACK TO s;
ROLLBACK;
BEGIN;
SELECT pgq_purge_queue('depth');
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": "what the purge has left room for"}, {"payload": 1}, {"payload": 2}]');
SELECT pgq_enqueue('depth', '"too many"');
ROLLBACK;
UPDATE pgq_ext.job SET segment = (segment + 1) % 8 WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job);
SELECT pgq_enqueue('depth', '"too many"');
SELECT * FROM depth();
SELECT pgq_update(job_id, queue => 'depth') FROM pgq_ext.job_status WHERE queue = 'beside';
-- a leased one that somebody moves by hand is its new queue's
SELECT job_id, lease FROM pgq_claim('depth') \gset
UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'beside') WHERE job_id = :job_id;
SELECT * FROM depth();
SELECT pgq_ack(:job_id, :lease);
SELECT * FROM depth();
-- TRUNCATE: counted anew, by the scheduler, or by who cannot wait for that
TRUNCATE pgq_ext.job;
SELECT pgq_ext.recount('depth');
SELECT * FROM depth();
SELECT pgq_enqueue('depth', '1') > 0 AS enqueued;
SELECT * FROM depth();

-- Without a limit they are counted, and nobody takes room; with one again what somebody has done himself counts as well.
SELECT pgq_alter_queue('depth', max_depth => 0);
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]');
SELECT * FROM depth();
SELECT pgq_alter_queue('depth', max_depth => 6);
BEGIN;
SELECT pgq_ack(job_id, lease) FROM pgq_claim('depth');
DELETE FROM pgq_ext.job WHERE job_id = (SELECT max(job_id) FROM pgq_ext.job);
INSERT INTO pgq_ext.job (queue_id, payload) SELECT queue_id, '"by hand"' FROM pgq_ext.queue WHERE queue = 'depth';
SELECT * FROM depth();
SELECT count(*) FROM pgq_enqueue_many('depth', '[{"payload": 5}, {"payload": 6}]');
SELECT * FROM depth();
COMMIT;
SELECT * FROM depth();
-- in any isolation level
SELECT pgq_alter_queue('depth', max_depth => 0);
SELECT pgq_alter_queue('depth', max_depth => 6);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT pgq_enqueue('depth', '6') > 0 AS enqueued;
SELECT * FROM depth();
COMMIT;
SELECT pgq_alter_queue('depth', max_depth => NULL);
SELECT s.depth, q.max_depth FROM pgq_ext.queue_status s JOIN pgq_ext.queue q USING (queue) WHERE queue = 'depth';
SELECT * FROM pgq_check();
SELECT pgq_drop_queue(queue, force => true) FROM unnest(ARRAY['depth', 'beside']) queue;
DROP FUNCTION depth;
