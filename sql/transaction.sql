-- Statements and transactions that fail at top level. What ends well, and all that savepoints can undo: test/pgtap/100_transaction.sql.
SELECT pgq_create_queue('q', backoff_base => '0', lease_time => '1 day');
CREATE TABLE business (job_id bigint);
\set VERBOSITY sqlstate

-- A statement that fails after the claim in it has returned: the job was handed out, the attempt counts, and the lease of a day is not waited for.
SELECT pgq_enqueue('q', '1') > 0 AS enqueued;
SELECT 1 / (job_id - job_id) FROM pgq_claim('q');
SELECT attempt, last_error, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s');

-- The same in a function, and in one that meets the error long after the claim.
SELECT pgq_enqueue('q', '2') > 0 AS enqueued;
DO $$
DECLARE
    c pgq_ext.claimed_job;
BEGIN
    SELECT * INTO STRICT c FROM pgq_claim('q');
    INSERT INTO business VALUES (c.job_id);
    PERFORM pgq_ack(c.job_id, c.lease);
    RAISE EXCEPTION 'the work failed';
END $$;
SELECT attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s');
TABLE business;

-- A claim that is cancelled before it has returned handed nothing out: at once back, uncounted. Many large payloads take their time to read.
SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', (SELECT string_agg(md5((i * 1000 + j)::text), '') FROM generate_series(1, 200) j))) FROM generate_series(1, 5000) i));
BEGIN;
SET LOCAL statement_timeout = '5 ms';
SELECT count(payload) FROM pgq_claim('q', 5000);
ROLLBACK;
SELECT queue, ready, scheduled, leased FROM pgq_ext.queue_status;
SELECT count(*), min(attempt), max(attempt) FROM pgq_claim('q', 5000);
SELECT count(*) FROM (SELECT array_agg(job_id ORDER BY job_id) AS jobs, array_agg(lease ORDER BY job_id) AS leases FROM pgq_ext.lease) l, pgq_ack_many(jobs, leases);

-- A transaction that ends in an error: what it enqueued is gone, what it acknowledged or failed is still its own.
SELECT pgq_enqueue('q', to_jsonb(i)) > 0 AS enqueued FROM generate_series(3, 4) i;
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT job_id AS job2, lease AS lease2 FROM pgq_claim('q') \gset
BEGIN;
INSERT INTO business VALUES (:job_id);
SELECT pgq_enqueue('q', '"undone"') > 0 AS enqueued;
SELECT pgq_ack(:job_id, :lease), pgq_fail(:job2, :lease2, 'undone', retry => false);
SELECT 1 / 0;
SELECT pgq_enqueue('q', '"refused"');
COMMIT;
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status;
SELECT pgq_ack(:job_id, :lease), pgq_fail(:job2, :lease2, 'done', retry => false);
TABLE business;

-- A deferred constraint refuses the commit itself.
ALTER TABLE business ADD UNIQUE (job_id) DEFERRABLE INITIALLY DEFERRED;
SELECT pgq_enqueue('q', '5') > 0 AS enqueued;
BEGIN;
INSERT INTO business SELECT job_id FROM pgq_claim('q'), generate_series(1, 2);
SELECT pgq_ack(job_id, lease) FROM pgq_ext.lease;
SELECT pgq_enqueue('q', '"undone"') > 0 AS enqueued;
COMMIT;
SELECT payload, attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', 10, '60 s');

-- Prepared: not to be seen until it is committed, and undone if it is not; more in test/t/009_prepared.pl.
SELECT pgq_enqueue('q', '6') > 0 AS enqueued;
BEGIN;
SELECT queue, ready FROM pgq_ext.queue_status;
PREPARE TRANSACTION 'pgq looked';
COMMIT PREPARED 'pgq looked';
BEGIN;
SELECT pgq_enqueue('q', '7') > 0 AS enqueued;
PREPARE TRANSACTION 'pgq worked';
SELECT queue, ready, leased FROM pgq_ext.queue_status;
ROLLBACK PREPARED 'pgq worked';
BEGIN;
SELECT payload FROM pgq_claim('q');
PREPARE TRANSACTION 'pgq worked';
SELECT queue, ready, leased FROM pgq_ext.queue_status;
ROLLBACK PREPARED 'pgq worked';
SELECT payload, attempt FROM pgq_claim('q', 10, '60 s');
-- The end comes from elsewhere and later; creating, dropping and purging a queue cannot wait for it.
BEGIN;
SELECT pgq_purge_queue('q');
PREPARE TRANSACTION 'pgq purged';

-- A session that ends with its transaction open, and one that ends with a lease it had for good.
BEGIN;
SELECT pgq_ack(job_id, lease), pgq_enqueue('q', '"undone"') > 0 AS enqueued FROM pgq_ext.lease;
\c
SELECT queue, ready, scheduled, leased FROM pgq_ext.queue_status;
SELECT attempt, pgq_ack(job_id, lease) FROM pgq_ext.lease;
SELECT pgq_enqueue('q', '8') > 0 AS enqueued;
BEGIN;
SELECT payload, attempt FROM pgq_claim('q');
\c
SELECT payload, attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s');

SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status;
SELECT pgq_drop_queue('q', force => true);
DROP TABLE business;
