-- The queue option undo_rolled_back_claims: a rollback of a claim gives its jobs back at once, and counts no attempt.
SELECT pgq_create_queue('undo', undo_rolled_back_claims => true, backoff_base => '1 hour', log_attempts => 'all', keep_finished => '1 day');
SELECT pgq_create_queue('count', backoff_base => '1 hour');
SELECT queue, undo_rolled_back_claims FROM pgq_ext.queue WHERE queue IN ('undo', 'count') ORDER BY 1 DESC;
SELECT count(pgq_enqueue(q, to_jsonb(q || n), priority => -n)) FROM unnest(ARRAY['undo', 'count']) q, generate_series(1, 3) n;

-- A rollback, a failed statement, and a rollback to a savepoint. The order of jobs stays as it was.
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo', 2);
ROLLBACK;
SELECT payload, attempt, 1 / (attempt - attempt) FROM pgq_claim('undo', 2);
BEGIN;
SAVEPOINT s;
SELECT payload, attempt FROM pgq_claim('undo');
ROLLBACK TO s;
SELECT payload, attempt FROM pgq_claim('undo');
SAVEPOINT s;
SELECT payload, attempt FROM pgq_claim('undo');
RELEASE s;
ROLLBACK;
DO $$
DECLARE
    payloads text := '';
BEGIN
    FOR i IN 1 .. 3 LOOP
        BEGIN
            payloads := payloads || (SELECT payload FROM pgq_claim('undo'));
            RAISE EXCEPTION 'no';
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
    RAISE NOTICE '%', payloads;
END $$;
SELECT payload, attempt FROM pgq_claim('undo'), pgq_ack(job_id, lease);
SELECT handed_out, acked, uncounted, lost FROM pgq_ext.queue_stats WHERE queue = 'undo';
SELECT outcome FROM pgq_ext.attempt a JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'undo';

-- All that the transaction did with the job is undone, too. Its lease is stale.
SELECT job_id, lease FROM pgq_claim('undo') \gset
BEGIN;
SELECT payload, pgq_progress(job_id, lease, '1'), pgq_ack(job_id, lease) FROM pgq_claim('undo');
ROLLBACK;
SELECT progress FROM pgq_ext.job WHERE job_id = :job_id;
BEGIN;
SELECT job_id AS undone_job, lease AS undone_lease, pgq_extend(job_id, lease, '1 day') IS NOT NULL AS extended FROM pgq_claim('undo') \gset
ROLLBACK;
\set VERBOSITY sqlstate
SELECT pgq_ack(:undone_job, :undone_lease);
\set VERBOSITY default
SELECT pgq_release(:undone_job, :undone_lease), pgq_fail(:undone_job, :undone_lease), pgq_extend(:undone_job, :undone_lease);
-- A lease whose claim was committed is as good as ever.
SELECT pgq_release(:job_id, :lease);

-- pgq_claim_any: each queue has its own rule.
BEGIN;
SELECT queue, payload, attempt FROM pgq_claim_any('{undo,count}', 4);
ROLLBACK;
SELECT queue, payload, attempt FROM pgq_claim_any('{undo,count}', 4);
SELECT queue, handed_out, uncounted FROM pgq_ext.queue_stats WHERE queue IN ('undo', 'count') ORDER BY 1 DESC;
SELECT pgq_purge_queue('count'), pgq_purge_queue('undo');
SELECT count(pgq_ack(job_id, lease)) FROM pgq_ext.lease WHERE queue = 'undo';

-- pgq_ack_claim and pgq_ack_next at the limit of concurrency: the slot goes back to the first job.
SELECT pgq_alter_queue('undo', concurrency => 1);
SELECT count(pgq_enqueue('undo', to_jsonb(n), priority => -n)) FROM generate_series(1, 3) n;
SELECT job_id, lease FROM pgq_claim('undo') \gset
BEGIN;
SELECT payload, attempt FROM pgq_ack_claim(ARRAY[:job_id]::bigint[], ARRAY[:lease]::bigint[], 'undo');
ROLLBACK;
SELECT count(*) FROM pgq_claim('undo');
BEGIN;
SAVEPOINT s;
SELECT payload, attempt FROM pgq_ack_next(:job_id, :lease, 'undo');
ROLLBACK TO s;
SELECT payload, attempt FROM pgq_ack_next(:job_id, :lease, 'undo');
COMMIT;
SELECT count(*) FROM pgq_claim('undo');
SELECT payload, attempt FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id), pgq_ack(job_id, lease) ORDER BY payload;
SELECT payload, attempt FROM pgq_claim('undo'), pgq_ack(job_id, lease);
SELECT pgq_alter_queue('undo', concurrency => 0);

-- Groups: fifo, group_concurrency and fair; a group's rate counts each start.
SELECT pgq_alter_queue('undo', fifo => true);
SELECT count(pgq_enqueue('undo', to_jsonb(g || n), group_key => g)) FROM generate_series(1, 2) n, unnest(ARRAY['a', 'b']) g;
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo', 9);
SELECT count(*) FROM pgq_claim('undo', 9);
ROLLBACK;
SELECT payload, attempt FROM pgq_claim('undo', 9), pgq_ack(job_id, lease);
SELECT pgq_alter_queue('undo', fifo => false, group_concurrency => 1);
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo', 9);
ROLLBACK;
SELECT payload, attempt FROM pgq_claim('undo', 9), pgq_ack(job_id, lease);
SELECT pgq_alter_queue('undo', group_concurrency => 0, fair => true);
SELECT count(pgq_enqueue('undo', to_jsonb(g || n), group_key => g)) FROM unnest(ARRAY['a', 'b']) g, generate_series(1, 2) n;
BEGIN;
SELECT attempt, count(*) FROM pgq_claim('undo', 3) GROUP BY 1;
ROLLBACK;
SELECT attempt, count(*) FROM pgq_claim('undo', 9), pgq_ack(job_id, lease) GROUP BY 1;
SELECT pgq_alter_queue('undo', fair => false, group_rate_limit => 2, rate_period => '1 day');
SELECT count(pgq_enqueue('undo', to_jsonb(n), group_key => 'c')) FROM generate_series(1, 3) n;
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo', 1);
ROLLBACK;
SELECT payload, attempt FROM pgq_claim('undo', 9), pgq_ack(job_id, lease);
SELECT count(*) FROM pgq_claim('undo', 9);
SELECT pgq_alter_queue('undo', group_rate_limit => 0), pgq_purge_queue('undo');

-- Values. A job that may fail once does not become a dead letter by a rollback.
SELECT count(pgq_enqueue('undo', '"live"', max_attempts => 1));
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo');
ROLLBACK;
SELECT pgq_alter_queue('undo', undo_rolled_back_claims => NULL);
SELECT undo_rolled_back_claims FROM pgq_ext.queue WHERE queue = 'undo';
\set VERBOSITY sqlstate
UPDATE pgq_ext.queue SET undo_rolled_back_claims = NULL WHERE queue = 'undo';
\set VERBOSITY default
SELECT pgq_alter_queue('undo', undo_rolled_back_claims => false);
SELECT undo_rolled_back_claims FROM pgq_ext.queue WHERE queue = 'undo';
SELECT pgq_alter_queue('undo', undo_rolled_back_claims => true);

-- SQL deletes, changes or moves the row while it is claimed, in the same transaction or not at all.
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo');
DELETE FROM pgq_ext.job WHERE payload = '"live"';
ROLLBACK;
SELECT payload, attempt FROM pgq_claim('undo'), pgq_release(job_id, lease);
BEGIN;
SELECT payload, attempt FROM pgq_claim('undo');
UPDATE pgq_ext.job SET queue_id = (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'count') WHERE payload = '"live"';
ROLLBACK;
SELECT queue, payload, attempt FROM pgq_claim_any('{count,undo}'), pgq_ack(job_id, lease);

SELECT pgq_ext.add_queue_columns();
SELECT pgq_check();
SELECT pgq_drop_queue('undo', force => true), pgq_drop_queue('count', force => true);
