-- Queues: create, drop, purge, and what a name may look like. Bad arguments are in errors.sql.
SELECT pgq_create_queue('q');
SELECT pgq_create_queue('q', if_not_exists => true);
SELECT pgq_create_queue('q');
\echo :LAST_ERROR_SQLSTATE

-- The defaults of the interface, and NULL for each option means the same.
SELECT pgq_create_queue('nulls', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT pgq_create_queue('options', lease_time => '7 days', max_runtime => '30 days', max_attempts => 2147483647, concurrency => 2147483647,
                        max_depth => 9223372036854775807,
                        backoff_base => '0', backoff_max => '1000 years', backoff_jitter => 1, log_attempts => 'all', keep_attempts => '0',
                        keep_finished => '1000 years', keep_dead => '1000 years', notify => false,
                        if_not_exists => true, rate_limit => 2147483647, rate_period => '1000 years', group_rate_limit => 2147483647, group_concurrency => 1, fifo => true);
SELECT pgq_create_queue('groups', group_concurrency => 2147483647);
SELECT queue, lease_time, max_runtime, max_attempts, backoff_base, backoff_max, backoff_jitter, concurrency, rate_limit, rate_period, group_rate_limit, group_concurrency, fifo, max_depth, log_attempts, keep_attempts,
       keep_finished, keep_dead, notify, paused
FROM pgq_ext.queue WHERE queue IN ('q', 'nulls', 'options', 'groups') ORDER BY 1;
-- fifo is one at a time, whatever is set first.
SELECT pgq_alter_queue('groups', fifo => true);
SELECT pgq_alter_queue('options', group_concurrency => 2);
UPDATE pgq_ext.queue SET fifo = true WHERE queue = 'groups';
SELECT pgq_alter_queue('groups', fifo => true, group_concurrency => 0), pgq_alter_queue('options', group_concurrency => 2, fifo => false);
SELECT queue, group_concurrency, fifo FROM pgq_ext.queue WHERE queue IN ('groups', 'options') ORDER BY 1;
SELECT pgq_drop_queue(queue) FROM unnest(ARRAY['nulls', 'options', 'groups']) queue;

-- Names are bytes, 1 to 59 of them, and nothing in them is special: each goes once through all that takes a name.
CREATE TEMP TABLE name (n serial, queue text COLLATE "C");
INSERT INTO name (queue) VALUES ('1'), (repeat('n', 59)), (repeat(U&'\00fc', 29) || 'x'), (repeat(U&'\+01f680', 14)), ('Case'), ('case'),
    ('o''brien'), ('"quoted"'), ('semi;colon--'), ('back\slash'), ('%s%n'), ('$1'), ('NULL'), ('pgq_ext.job'), ('{a,b}'), ('*');
SELECT octet_length(queue), char_length(queue), pgq_create_queue(queue) FROM name ORDER BY n;
SELECT n, pgq_enqueue(queue, to_jsonb(queue)) > 0 AS enqueued FROM name ORDER BY n;
SELECT n, c.queue = name.queue AND c.payload = to_jsonb(name.queue) AS claimed, pgq_ack(job_id, lease) AS acked
FROM name, pgq_claim_any(ARRAY[name.queue]) c ORDER BY n;
SELECT count(*) FROM name JOIN pgq_ext.queue_status USING (queue) WHERE (ready, scheduled, leased, dead) = (0, 0, 0, 0);
SELECT n, pgq_purge_queue(queue) AS purged, pgq_drop_queue(queue) AS dropped FROM name ORDER BY n;
SELECT count(*) FROM pgq_ext.queue_status JOIN name USING (queue);

-- Drop: a queue with anything in it is not dropped by accident.
SELECT pgq_enqueue('q', '"waits"', priority => 1) > 0, pgq_enqueue('q', '"scheduled"', delay => '1 day') > 0;
SELECT pgq_drop_queue('q');
\echo :LAST_ERROR_SQLSTATE
SELECT pgq_drop_queue('q', if_exists => true);
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_drop_queue('q', NULL, NULL);
SELECT pgq_fail(:job_id, :lease, 'no good', retry => false), pgq_purge_queue('q');
-- a dead letter alone is something, too
SELECT pgq_drop_queue('q');
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status WHERE queue = 'q';
SELECT pgq_drop_queue('q', force => true);
SELECT count(*) FROM pgq_ext.dead_job;
SELECT pgq_drop_queue('q');
\echo :LAST_ERROR_SQLSTATE
SELECT pgq_drop_queue('q', if_exists => true), pgq_drop_queue('q', if_exists => true, force => true);

-- Force takes jobs in work away from their workers, and a new queue of that name knows nothing of the old one.
SELECT pgq_create_queue('q'), pgq_enqueue('q', '"old, in work"') > 0 AS enqueued, pgq_enqueue('q', '"old"') > 0 AS enqueued;
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_drop_queue('q', force => true);
SELECT pgq_create_queue('q', max_attempts => 3);
\set VERBOSITY sqlstate
SELECT pgq_ack(:job_id, :lease);
\set VERBOSITY default
SELECT pgq_fail(:job_id, :lease), pgq_extend(:job_id, :lease);
SELECT payload FROM pgq_claim('q', 10);
SELECT pgq_enqueue('q', '"new"') > 0 AS enqueued;
SELECT payload, attempt, max_attempts FROM pgq_claim('q', 10);
SELECT count(*) FROM pgq_ext.job;
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status;
SELECT pgq_drop_queue('q', force => true);

-- Purge: jobs that wait, ready or not, are deleted; jobs in work and dead letters stay.
SELECT pgq_create_queue('q'), pgq_create_queue('other');
SELECT count(pgq_enqueue('q', to_jsonb(i), priority => -i)) FROM generate_series(1, 5) i;
SELECT pgq_enqueue('q', '6', delay => '1 day') > 0, pgq_enqueue('other', '7') > 0;
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
SELECT pgq_fail(:job_id, :lease, retry => false);
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
BEGIN;
SELECT pgq_purge_queue('q');
SELECT count(*) FROM pgq_claim('q', 10);
ROLLBACK;
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status ORDER BY 1;
SELECT pgq_purge_queue('q');
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status ORDER BY 1;
SELECT pgq_purge_queue('q');
SELECT count(*) FROM pgq_claim('q', 10);
SELECT pgq_ack(:job_id, :lease);
-- and the queue works on, also for what was put back by the rollback of a purge
SELECT pgq_enqueue('q', '8') > 0 AS enqueued;
BEGIN;
SELECT pgq_enqueue('q', '"mine"') > 0 AS enqueued;
SELECT pgq_purge_queue('q');
ROLLBACK;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
BEGIN;
SELECT pgq_enqueue('q', '9') > 0 AS enqueued;
SELECT pgq_purge_queue('q');
SELECT pgq_enqueue('q', '10') > 0 AS enqueued;
COMMIT;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);

-- All of it is part of the transaction. Within it a dropped queue is gone, and its name is free.
SELECT pgq_enqueue('q', '11') > 0, pgq_enqueue('q', '12') > 0;
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
BEGIN;
SELECT pgq_drop_queue('q', force => true);
SELECT pgq_drop_queue('q', if_exists => true);
SELECT pgq_create_queue('q', max_attempts => 7);
SELECT pgq_enqueue('q', '"new"') > 0 AS enqueued;
SELECT pgq_claim('q', 10);
ROLLBACK;
SELECT payload, max_attempts, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
SELECT pgq_extend(:job_id, :lease) > clock_timestamp() AS still_mine, pgq_ack(:job_id, :lease);
BEGIN;
SELECT pgq_drop_queue('q', force => true);
SELECT pgq_create_queue('q', max_attempts => 7);
SELECT pgq_enqueue('q', '"new"') > 0 AS enqueued;
COMMIT;
SELECT payload, max_attempts, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
BEGIN;
SELECT pgq_drop_queue('q', force => true);
SELECT pgq_enqueue('q', '13');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
SELECT pgq_drop_queue('q', force => true);
SELECT * FROM pgq_claim('q');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN;
SELECT pgq_create_queue('mine');
SAVEPOINT s;
SELECT pgq_create_queue('nested_queue'), pgq_enqueue('nested_queue', '1') > 0 AS enqueued;
ROLLBACK TO s;
SELECT pgq_create_queue('nested_queue'), pgq_enqueue('nested_queue', '2') > 0 AS enqueued;
ROLLBACK TO s;
SELECT pgq_enqueue('nested_queue', '3');
ROLLBACK;
SELECT pgq_enqueue('mine', '4');
-- jobs in work, in this transaction, when the queue goes
SELECT pgq_enqueue('q', to_jsonb(i)) > 0 AS enqueued FROM generate_series(14, 17) i;
BEGIN;
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
SELECT pgq_ack(:job_id, :lease);
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
SELECT pgq_fail(:job_id, :lease, 'later');
SELECT job_id, lease, payload FROM pgq_claim('q') \gset
SELECT pgq_enqueue('q', '18') > 0 AS enqueued;
SAVEPOINT s;
SELECT pgq_drop_queue('q', force => true);
ROLLBACK TO s;
SELECT pgq_ack(:job_id, :lease);
SELECT pgq_drop_queue('q', force => true);
COMMIT;
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status ORDER BY 1;
SELECT count(*) FROM pgq_ext.job WHERE payload <> '7';
SELECT pgq_drop_queue('other', force => true);
SELECT count(*) FROM pgq_ext.job;

-- Altered: what is given, at once when it is committed, and not at all if it is not.
SELECT pgq_create_queue('altered', lease_time => '1 min', max_attempts => 3);
SELECT pgq_enqueue('altered', '1') > 0 AS enqueued;
SELECT pgq_alter_queue('altered', lease_time => '2 min', notify => false);
SELECT lease_time, max_attempts, notify FROM pgq_ext.queue WHERE queue = 'altered';
SELECT c.lease_expires_at - claimed_at AS lease_time FROM pgq_claim('altered') c JOIN pgq_ext.lease USING (job_id);
SELECT pgq_release(job_id, lease) FROM pgq_ext.lease;
BEGIN;
SELECT pgq_alter_queue('altered', lease_time => '3 min');
ROLLBACK;
BEGIN;
SELECT pgq_alter_queue('altered', max_attempts => 4);
SAVEPOINT s;
SELECT pgq_alter_queue('altered', lease_time => '4 min', max_attempts => 5);
ROLLBACK TO s;
SELECT pgq_alter_queue('altered', backoff_base => '5 s');
COMMIT;
SELECT lease_time, max_attempts, backoff_base FROM pgq_ext.queue WHERE queue = 'altered';
SELECT c.lease_expires_at - claimed_at AS lease_time, c.max_attempts FROM pgq_claim('altered') c JOIN pgq_ext.lease USING (job_id);
SELECT pgq_release(job_id, lease) FROM pgq_ext.lease;
SELECT pgq_alter_queue('altered');
-- the last one counts
BEGIN;
SELECT pgq_alter_queue('altered', lease_time => '5 min');
SELECT pgq_alter_queue('altered', lease_time => '6 min');
COMMIT;
SELECT c.lease_expires_at - claimed_at AS lease_time FROM pgq_claim('altered') c JOIN pgq_ext.lease USING (job_id);
SELECT pgq_release(job_id, lease) FROM pgq_ext.lease;
-- Paused: nothing goes out; what is in work goes on, what is new is taken.
SELECT pgq_pause_queue('altered');
SELECT count(*) FROM pgq_claim('altered');
SELECT paused FROM pgq_ext.queue_status WHERE queue = 'altered';
SELECT waits_for FROM pgq_ext.job_status WHERE queue = 'altered';
SELECT pgq_enqueue('altered', '2') > 0 AS enqueued;
SELECT pgq_pause_queue('altered'), pgq_alter_queue('altered', lease_time => '1 min');
SELECT count(*) FROM pgq_claim('altered', 10, '10 ms');
BEGIN;
SELECT pgq_resume_queue('altered');
SELECT count(*) FROM pgq_claim('altered');
COMMIT;
SELECT count(*) FROM pgq_claim('altered', 10);
-- Made, altered and paused in one.
BEGIN;
SELECT pgq_create_queue('made'), pgq_alter_queue('made', lease_time => '7 min'), pgq_pause_queue('made'), pgq_enqueue('made', '1') > 0;
COMMIT;
SELECT count(*) FROM pgq_claim('made');
SELECT pgq_resume_queue('made');
SELECT c.lease_expires_at - claimed_at AS lease_time FROM pgq_claim('made') c JOIN pgq_ext.lease USING (job_id);
SELECT pgq_drop_queue(q, force => true) FROM unnest(ARRAY['altered', 'made']) q;
