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

-- By the argument of pgq_enqueue.
SELECT pgq_enqueue('batch_q', '"single"', batch => :other) AS single, pgq_enqueue('batch_q', '"none"', batch => NULL) AS none
\gset
SELECT payload, batch_id = :other AS in_other FROM pgq_ext.job WHERE job_id IN (:single, :none) ORDER BY job_id;
SELECT what, n FROM pgq_ext.batch_note WHERE batch_id = :other;
SELECT pgq_enqueue('batch_q', '1', batch => 0);
SELECT pgq_enqueue('batch_q', '1', batch => -1);
SELECT pgq_enqueue('batch_q', '1', batch => 9223372036854775807);
SELECT pgq_enqueue('batch_nowhere', '1', batch => :other);
SELECT pgq_enqueue('batch_q', NULL, batch => :other);
-- One note a call, however many jobs it has, with unique keys and without.
BEGIN;
SELECT count(*) FROM pgq_enqueue_many('batch_q', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'batch', CASE WHEN i % 2 = 0 THEN :batch ELSE :other END)
    || CASE WHEN i % 3 = 0 THEN jsonb_build_object('unique_key', i::text) ELSE '{}' END) FROM generate_series(1, 1200) i));
SELECT what, n, count(*) FROM pgq_ext.batch_note WHERE n > 10 GROUP BY batch_id, what, n ORDER BY batch_id;
SELECT count(*) AS tags_kept FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 20546;
ROLLBACK;

-- ---- with a unique key ----
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'plain', 'unique_key', 'plain'), jsonb_build_object('payload', 'member', 'unique_key', 'member', 'batch', :batch)));
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', 'member', 'batch', :batch))) AS same_batch;
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', 'member'))) AS no_batch;
DO $$ BEGIN
    PERFORM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', 'member', 'unique_key', k, 'on_conflict', 'replace', 'batch', b)))
    FROM (SELECT min(batch_id) AS b FROM pgq_ext.job_batch) x, (VALUES ('plain')) v (k);
EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', regexp_replace(regexp_replace(SQLERRM, 'job \d+', 'job N'), 'batch \d+', 'batch N'); END $$;
SELECT sum(n) FROM pgq_ext.batch_note WHERE batch_id = :batch;
-- A job with the key that is no member, or of another batch: 23505, whatever on_conflict says. One that is a member is met.
SELECT set_config('batch.batch', :'batch', false) IS NOT NULL AND set_config('batch.other', :'other', false) IS NOT NULL AS ok;
CREATE FUNCTION pg_temp.meet(key text, how text, batch text, till text = 'finished') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgq_enqueue('batch_q', jsonb_build_array(how), unique_key => key, on_conflict => how, unique_until => till, batch => current_setting(batch)::bigint);
    RETURN 'met';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || regexp_replace(regexp_replace(SQLERRM, 'job \d+', 'job N'), 'batch \d+', 'batch N');
END $$;
SELECT count(*) FROM pgq_enqueue_many('batch_q', jsonb_build_array(jsonb_build_object('payload', '[1]'::jsonb, 'unique_key', 'array', 'batch', :batch),
    jsonb_build_object('payload', '[1]'::jsonb, 'unique_key', 'no array of a batch'), jsonb_build_object('payload', 1, 'unique_key', 'over', 'unique_for', '1 day')));
SELECT pgq_cancel(job_id) FROM pgq_ext.job WHERE unique_key = 'over';
SELECT how, pg_temp.meet('no array of a batch', how, 'batch.batch') AS no_member, pg_temp.meet('array', how, 'batch.other') AS of_another,
    pg_temp.meet('over', how, 'batch.batch') AS of_an_ended_one, pg_temp.meet('array', how, 'batch.batch') AS of_this_one
FROM unnest('{keep,replace,preserve_run_at,append,error}'::text[]) how;
SELECT payload, batch_id = :batch AS still_a_member FROM pgq_ext.job WHERE unique_key = 'array';
SELECT payload, batch_id FROM pgq_ext.job WHERE unique_key = 'no array of a batch';
SELECT pg_temp.meet('new', 'keep', 'batch.batch');
SELECT batch_id = :batch AS in_batch FROM pgq_ext.job WHERE unique_key = 'new';
-- A job in work is met, unless only waiting jobs count.
SELECT count(*) FROM pgq_claim('batch_q', 100);
SELECT pg_temp.meet('array', 'replace', 'batch.batch') AS in_work, pg_temp.meet('array', 'keep', 'batch.other') AS of_another,
    pg_temp.meet('array', 'keep', 'batch.other', 'claimed') AS of_another_that_waits;
SELECT count(*), count(*) FILTER (WHERE batch_id = :other) AS of_other FROM pgq_ext.job WHERE unique_key = 'array';

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

-- After the close: with a member in hand, in this transaction.
SELECT pgq_create_queue('batch_w', max_attempts => 2, backoff_base => '1 hour', backoff_max => '1 day');
SELECT pgq_create_batch() AS closed
\gset
SELECT count(*) FROM pgq_enqueue_many('batch_w', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'batch', :closed)) FROM generate_series(1, 4) i));
SELECT pgq_enqueue('batch_w', '"no member"', priority => -1) AS plain
\gset
SELECT pgq_close_batch(:closed), set_config('batch.closed', :'closed', false) IS NOT NULL AS ok;
CREATE FUNCTION pg_temp.add() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgq_enqueue('batch_w', '"added"', priority => -2, batch => current_setting('batch.closed')::bigint);
    RETURN 'added';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '\d+', 'N');
END $$;
\set VERBOSITY default
DO $$ BEGIN
    PERFORM pgq_enqueue('batch_w', '1', batch => current_setting('batch.closed')::bigint);
EXCEPTION WHEN OTHERS THEN
    DECLARE detail text; hint text;
    BEGIN
        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RAISE NOTICE '%', detail || ' ' || hint;
    END;
END $$;
\set VERBOSITY terse
BEGIN;
SAVEPOINT s;
SELECT payload, pg_temp.add() FROM pgq_claim('batch_w');
ROLLBACK TO s;
SELECT pg_temp.add() AS undone;
SELECT job_id AS job, lease FROM pgq_claim('batch_w', session_bound => true)
\gset
SELECT pg_temp.add() AS claimed;
COMMIT;
SELECT pg_temp.add() AS claimed_before;
BEGIN;
SAVEPOINT s;
SELECT pgq_assert_lease(:job, :lease), pg_temp.add() AS asserted;
ROLLBACK TO s;
SELECT pg_temp.add() AS undone;
SAVEPOINT s;
SELECT pgq_assert_lease(:job, :lease);
RELEASE s;
SELECT pg_temp.add() AS asserted;
COMMIT;
BEGIN;
SELECT pgq_progress(:job, :lease, '1'), pg_temp.add() AS progress_is_no_assertion, pgq_assert_lease(:job, :lease), pg_temp.add() AS asserted;
ROLLBACK;
BEGIN;
SELECT pgq_release(:job, :lease), pg_temp.add() AS released;
ROLLBACK;
SELECT pgq_fail(:job, :lease), pg_temp.add() AS failed;
SELECT pgq_fail(job_id, lease, retry => false), pg_temp.add() AS dead FROM pgq_claim('batch_w');
SELECT job_id AS job, lease FROM pgq_claim('batch_w')
\gset
SELECT pgq_fail(:job, :lease + 1), pg_temp.add() AS stale;
SELECT pgq_ack(:job, :lease), pg_temp.add() AS acked;
SELECT pg_temp.add() AS acked_before;
-- A job of no batch, or of another one, does not count.
SELECT payload, pg_temp.add() FROM pgq_claim('batch_w');
BEGIN;
SELECT pgq_enqueue('batch_w', '"of another"', priority => 9, batch => :other) IS NOT NULL AS enqueued;
COMMIT;
SELECT payload, pg_temp.add() FROM pgq_claim('batch_w');
SELECT sum(n), (SELECT count(*) FROM pgq_ext.job WHERE batch_id = :closed) AS live, (SELECT count(*) FROM pgq_ext.dead_job WHERE batch_id = :closed) AS dead
FROM pgq_ext.batch_note WHERE batch_id = :closed AND what = 1;
-- Nobody adds to a finished batch.
UPDATE pgq_ext.job_batch SET finished_at = now() WHERE batch_id = :closed;
SELECT pg_temp.add() AS finished FROM pgq_claim('batch_w');
UPDATE pgq_ext.job_batch SET finished_at = NULL WHERE batch_id = :closed;

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

-- A worker may add to the batch of its job, without being a member of the role that has created the batch.
REVOKE regress_pgq_mate FROM regress_pgq_eve;
GRANT EXECUTE ON FUNCTION pgq_enqueue, pgq_claim, pgq_ack TO regress_pgq_eve;
SELECT pgq_grant('batch_w', 'regress_pgq_eve', '{enqueue,claim}');
SET ROLE regress_pgq_eve;
SELECT pg_temp.add() AS no_right;
SELECT job_id AS job, lease, pg_temp.add() AS in_hand FROM pgq_claim('batch_w')
\gset
SELECT :'in_hand' AS in_hand, pg_temp.add() AS in_the_next_transaction;
SELECT pgq_ack(:job, :lease), pg_temp.add() AS acked;
-- Nor does it learn by a unique key which jobs are members.
SELECT pg_temp.meet('array', 'keep', 'batch.batch');
SELECT pg_temp.meet('no array of a batch', 'keep', 'batch.batch');
RESET ROLE;

SELECT count(*) FROM pgq_check();
SELECT pgq_drop_queue('batch_q', force => true), pgq_drop_queue('batch_w', force => true), pgq_drop_queue('batch_done');
UPDATE pgq_ext.job_batch SET pending = false;
DELETE FROM pgq_ext.job_batch;
DELETE FROM pgq_ext.batch_note;
DROP OWNED BY regress_pgq_eve, regress_pgq_mate;
DROP ROLE regress_pgq_eve, regress_pgq_mate;
