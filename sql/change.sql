-- pgq_cancel, pgq_update, pgq_retry, pgq_redrive: what is done to jobs by their ids.
SET timezone = 'UTC';
SELECT pgq_create_queue('change', backoff_base => '1 h', backoff_jitter => 0), pgq_create_queue('other');
CREATE FUNCTION state_of(job bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', queue, state, priority, attempts, max_attempts, last_error) FROM pgq_ext.job_status WHERE job_id = $1
$$;
CREATE VIEW counts AS
	SELECT enqueued, handed_out, acked, failed, released, cancelled, lost, dead_lettered, uncounted FROM pgq_ext.queue_stats WHERE queue = 'change';

-- ---- cancel: waiting ----
SELECT pgq_enqueue('change', '1') AS ready, pgq_enqueue('change', '2', delay => '1 h') AS scheduled \gset
SELECT pgq_cancel(:ready), pgq_cancel(:scheduled), pgq_cancel(:ready), pgq_cancel(0);
SELECT count(*) FROM pgq_claim('change', 10);
SELECT ready, scheduled, leased FROM pgq_ext.queue_status WHERE queue = 'change';
SELECT * FROM counts;
-- undone
SELECT pgq_enqueue('change', '3') AS job \gset
BEGIN;
SELECT pgq_cancel(:job), pgq_cancel(:job);
ROLLBACK;
SELECT state_of(:job);
BEGIN;
SAVEPOINT s;
SELECT pgq_cancel(:job);
ROLLBACK TO s;
SELECT pgq_cancel(:job);
COMMIT;
SELECT state_of(:job);
-- its own transaction's
BEGIN;
SELECT pgq_enqueue('change', '4') AS own \gset
SELECT pgq_cancel(:own), pgq_cancel(:own);
COMMIT;
SELECT count(*) FROM pgq_claim('change', 10);

-- ---- cancel: leased ----
SELECT pgq_enqueue('change', '5') AS job \gset
SELECT lease FROM pgq_claim('change') \gset
SELECT pgq_cancel(:job), pgq_cancel(:job);
SELECT pgq_extend(:job, :lease), pgq_fail(:job, :lease, 'late'), pgq_release(:job, :lease);
\set VERBOSITY sqlstate
SELECT pgq_ack(:job, :lease);
\set VERBOSITY default
SELECT * FROM counts;
-- undone, and nobody was told: the lease goes on
SELECT pgq_enqueue('change', '6') AS job \gset
SELECT lease FROM pgq_claim('change') \gset
BEGIN;
SELECT pgq_cancel(:job);
ROLLBACK;
SELECT pgq_extend(:job, :lease) IS NOT NULL AS extended, pgq_release(:job, :lease);
-- undone, and its worker was told: it is lost
SELECT lease FROM pgq_claim('change') \gset
BEGIN;
SELECT pgq_cancel(:job);
SELECT pgq_extend(:job, :lease);
ROLLBACK;
SELECT pgq_release(:job, :lease);
SELECT pgq_retry(:job);
SELECT state_of(:job);
SELECT attempt, lease FROM pgq_claim('change', wait => '10 s') \gset
SELECT :attempt AS attempt, pgq_cancel(:job);
-- in the transaction of its claim, before and after it has been answered
SELECT pgq_enqueue('change', '7') AS job \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('change') \gset
SELECT pgq_cancel(:job_id), pgq_cancel(:job_id);
COMMIT;
SELECT pgq_enqueue('change', '8') AS job \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('change') \gset
SELECT pgq_ack(:job_id, :lease), pgq_cancel(:job_id);
COMMIT;
SELECT pgq_enqueue('change', '9') AS job \gset
BEGIN;
SELECT job_id, lease FROM pgq_claim('change') \gset
SELECT pgq_fail(:job_id, :lease, 'failed'), pgq_cancel(:job_id);
COMMIT;
BEGIN;
SELECT pgq_enqueue('change', '10') AS job \gset
COMMIT;
BEGIN;
SELECT job_id, lease FROM pgq_claim('change') \gset
SELECT pgq_cancel(:job_id);
ROLLBACK;
SELECT pgq_cancel(:job_id) IN ('ready', 'scheduled') AS lost;
SELECT handed_out - acked - failed - released - cancelled - lost - uncounted AS in_hand FROM counts;

-- ---- update ----
SELECT pgq_enqueue('change', '{"n": 1}', headers => '{"h": 1}') AS job \gset
SELECT pgq_update(:job, payload => '{"n": 2}', priority => 7, max_attempts => 3);
SELECT state_of(:job);
SELECT pgq_update(:job), pgq_update(0, payload => '1');
SELECT pgq_update(:job, run_at => '2100-01-01', headers => '{}');
SELECT state_of(:job);
SELECT pgq_update(:job, run_at => '2000-01-01');
SELECT payload, headers, priority, run_at, max_attempts, lease FROM pgq_claim('change') \gset
SELECT :'payload' AS payload, :'headers' AS headers, :priority AS priority, :'run_at' AS run_at, :max_attempts AS max_attempts;
-- a leased one not
SELECT pgq_update(:job, priority => 1), pgq_retry(:job);
SELECT pgq_release(:job, :lease);
-- twice in a transaction, and undone
BEGIN;
SELECT pgq_update(:job, priority => 1);
SAVEPOINT s;
SELECT pgq_update(:job, priority => 2, run_at => '2100-01-01');
ROLLBACK TO s;
SELECT pgq_update(:job, max_attempts => 4);
COMMIT;
SELECT state_of(:job);
BEGIN;
SELECT pgq_update(:job, priority => 9);
ROLLBACK;
SELECT state_of(:job);
-- to another queue
SELECT pgq_update(:job, queue => 'other');
SELECT state_of(:job);
SELECT count(*) FROM pgq_claim('change');
SELECT queue, priority, pgq_ack(job_id, lease) FROM pgq_claim('other');
SELECT pgq_update(:job, queue => 'other');

-- ---- retry ----
SELECT pgq_enqueue('change', '1', delay => '1 h') AS job \gset
SELECT pgq_retry(:job, '2 h'), pgq_retry(:job), pgq_retry(:job);
SELECT lease FROM pgq_claim('change') \gset
SELECT pgq_fail(:job, :lease, 'first');
SELECT state_of(:job);
SELECT pgq_retry(:job);
SELECT attempt, last_error, lease FROM pgq_claim('change') \gset
SELECT :attempt AS attempt, :'last_error' AS last_error;
SELECT pgq_fail(:job, :lease, 'second', retry => false);
SELECT attempts, reason, last_error FROM pgq_ext.dead_job WHERE job_id = :job;
-- a dead one lives
BEGIN;
SELECT pgq_retry(:job), pgq_retry(:job);
ROLLBACK;
SELECT count(*) FROM pgq_ext.dead_job WHERE job_id = :job;
SELECT pgq_retry(:job, '1 h');
SELECT state_of(:job);
SELECT pgq_retry(:job);
SELECT job_id = :job AS same, attempt, lease FROM pgq_claim('change') \gset
SELECT :'same' AS same, :attempt AS attempt, pgq_fail(:job, :lease, 'third', retry => false);
SELECT pgq_cancel(:job), pgq_cancel(:job), pgq_retry(:job);

-- ---- redrive ----
SELECT count(pgq_enqueue('change', to_jsonb(n), priority => n)) FROM generate_series(1, 5) n;
SELECT count(pgq_fail(job_id, lease, 'no', retry => false)) FROM pgq_claim('change', 10);
SELECT pgq_redrive('change', 2), pgq_redrive('change', 0), pgq_redrive('other');
SELECT payload, attempt FROM pgq_claim('change', 10);
SELECT count(pgq_retry(job_id)) FROM pgq_ext.dead_job WHERE payload::int > 2;
SELECT pgq_redrive('change'), pgq_redrive('change');
SELECT payload, attempt FROM pgq_claim('change', 10);

-- ---- what cannot be ----
SELECT pgq_cancel(NULL);
SELECT pgq_retry(NULL);
SELECT pgq_retry(1, '-1 s');
SELECT pgq_update(NULL);
SELECT pgq_update(1, run_at => 'infinity');
SELECT pgq_update(1, max_attempts => 0);
SELECT pgq_update(1, queue => 'nowhere');
SELECT pgq_update(1, group_key => '');
SELECT pgq_update(1, group_key => repeat('g', 256));
-- Due when it was enqueued, by a clock that was ahead: it is ready, whoever asks.
INSERT INTO pgq_ext.job (job_id, queue_id, payload, run_at, enqueued_at)
SELECT 4503599627370495, queue_id, '1', now() + '1 h', now() + '1 h' FROM pgq_ext.queue WHERE queue = 'change';
SELECT state FROM pgq_ext.job_status WHERE job_id = 4503599627370495;
SELECT pgq_cancel(4503599627370495);
SELECT pgq_redrive(NULL);
SELECT pgq_redrive('nowhere');
SELECT pgq_redrive('change', -1);
SELECT * FROM pgq_check();
SELECT pgq_drop_queue('change', force => true), pgq_drop_queue('other', force => true);
DROP VIEW counts;
DROP FUNCTION state_of;
