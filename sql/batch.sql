-- Batches: creating and closing them, and adding members.
\set VERBOSITY terse
SELECT pgq_create_queue('batch_q'), pgq_create_queue('batch_done');

-- ---- create ----
SELECT pgq_create_batch('{"queue": "batch_done", "payload": 1, "priority": 5}', on_finish => '{"queue": "batch_done", "payload": null}', metadata => '"any"') AS batch
\gset
SELECT batch_id = :batch AS is_it, closed_at, finished_at, pending, maker = current_user::regrole AS is_mine, maker_name = current_user AS has_my_name, on_success, on_failure, on_finish, metadata
FROM pgq_ext.job_batch WHERE batch_id = :batch;
SELECT pgq_create_batch() AS other
\gset
SELECT :other <> :batch AS differs, :other / 65536 - :batch / 65536 AS apart, :other BETWEEN 1 AND 9007199254740991 AS is_safe;

-- Callbacks are checked as jobs are.
SELECT pgq_create_batch('1');
SELECT pgq_create_batch('[]');
SELECT pgq_create_batch(on_failure => '{"payload": 1}');
SELECT pgq_create_batch(on_failure => '{"queue": 1, "payload": 1}');
SELECT pgq_create_batch(on_finish => '{"queue": "batch_done"}');
SELECT pgq_create_batch('{"queue": "nowhere", "payload": 1}');
SELECT pgq_create_batch('{"queue": "batch_done", "payload": 1, "prio": 1}');
SELECT pgq_create_batch('{"queue": "batch_done", "payload": 1, "batch": 1}');
SELECT pgq_create_batch('{"queue": "batch_done", "payload": 1, "unique_key": "k"}');
SELECT pgq_create_batch('{"queue": "batch_done", "payload": 1, "priority": "high"}');
SELECT count(*) FROM pgq_ext.job_batch;

-- ---- members ----
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 1, 'batch', :batch), jsonb_build_object('payload', 2, 'batch', :batch),
    jsonb_build_object('payload', 3, 'batch', :other), jsonb_build_object('payload', 4), jsonb_build_object('payload', 5, 'batch', null)));
SELECT payload, batch_id = :batch AS in_batch, batch_id = :other AS in_other FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'batch_q' ORDER BY job_id;
SELECT batch_id = :batch AS in_batch, what, n FROM pgq_ext.batch_note ORDER BY batch_id;
SELECT count(*) AS tags_kept FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 20546;
-- Undone with the transaction, or the savepoint.
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 6, 'batch', :batch)));
SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = :batch;
SELECT count(*) AS tags_kept FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 20546;
ROLLBACK TO s;
SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = :batch;
COMMIT;
SELECT count(*) FROM pgq_ext.job WHERE batch_id = :batch;
-- A batch of this transaction.
BEGIN;
SELECT pgq_create_batch() AS mine
\gset
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 7, 'batch', :mine)));
SELECT pgq_close_batch(:mine);
DO $$ BEGIN
    PERFORM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 8, 'batch', (SELECT max(batch_id) FROM pgq_ext.job_batch))));
EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N'); END $$;
ROLLBACK;

-- Bad values.
SELECT pgq_enqueue_many('batch_q', '[{"payload": 1, "batch": "7"}]');
SELECT pgq_enqueue_many('batch_q', '[{"payload": 1, "batch": 1.5}]');
SELECT pgq_enqueue_many('batch_q', '[{"payload": 1, "batch": 10000000000000000000000}]');
SELECT pgq_enqueue_many('batch_q', '[{"payload": 1, "batch": 1}]');
SELECT pgq_schedule('batch_s', '@yearly', 'batch_q', options => '{"batch": 1}');

-- ---- with a unique key ----
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'plain', 'unique_key', 'plain'), jsonb_build_object('payload', 'member', 'unique_key', 'member', 'batch', :batch)));
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', 'member', 'batch', :batch))) AS same_batch;
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', 'member'))) AS no_batch;
DO $$ BEGIN
    PERFORM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', k, 'on_conflict', 'replace', 'batch', b)))
    FROM (SELECT min(batch_id) AS b FROM pgq_ext.job_batch) x, (VALUES ('plain')) v (k);
EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', regexp_replace(regexp_replace(SQLERRM, 'job \d+', 'job N'), 'batch \d+', 'batch N'); END $$;
SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = :batch;

-- ---- close ----
SELECT pgq_close_batch(:batch);
SELECT closed_at IS NOT NULL AS closed, closed_at AS at FROM pgq_ext.job_batch WHERE batch_id = :batch
\gset
SELECT pgq_close_batch(:batch);
SELECT closed_at = :'at' AS as_before FROM pgq_ext.job_batch WHERE batch_id = :batch;
DO $$ BEGIN
    PERFORM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 1, 'batch', (SELECT batch_id FROM pgq_ext.job_batch WHERE closed_at IS NOT NULL))));
EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N'); END $$;
SELECT pgq_close_batch(1);
SELECT pgq_close_batch(NULL);

-- ---- rights ----
CREATE ROLE regress_pgq_eve;
CREATE ROLE regress_pgq_mate;
GRANT EXECUTE ON FUNCTION pgq_create_batch, pgq_close_batch, pgq_enqueue_many TO regress_pgq_eve, regress_pgq_mate;
SET ROLE regress_pgq_mate;
SELECT pgq_create_batch() AS mates
\gset
RESET ROLE;
SELECT format('%s', :other) = :'other' AS ok;
SET ROLE regress_pgq_eve;
SELECT set_config('batch.mates', :'mates', false) IS NOT NULL AS ok;
DO $$ BEGIN
    PERFORM pgq_close_batch(current_setting('batch.mates')::bigint);
EXCEPTION WHEN undefined_object THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N'); END $$;
DO $$ BEGIN
    PERFORM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 1, 'batch', current_setting('batch.mates')::bigint)));
EXCEPTION WHEN undefined_object THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N'); END $$;
RESET ROLE;
GRANT regress_pgq_mate TO regress_pgq_eve;
SET ROLE regress_pgq_eve;
SELECT pgq_close_batch(:mates);
SELECT * FROM pgq_ext.job_batch;
RESET ROLE;

SELECT count(*) FROM pgq_check();
SELECT pgq_drop_queue('batch_q', force => true), pgq_drop_queue('batch_done');
UPDATE pgq_ext.job_batch SET pending = false;
DELETE FROM pgq_ext.job_batch;
DELETE FROM pgq_ext.batch_note;
DROP OWNED BY regress_pgq_eve, regress_pgq_mate;
DROP ROLE regress_pgq_eve, regress_pgq_mate;
