-- CREATE and DROP EXTENSION, in a database of its own.
CREATE DATABASE regress_pgq_extension;
\c regress_pgq_extension
\set VERBOSITY terse
SELECT pgq_create_queue('q');

-- The functions go to any schema, the objects to pgq_ext, and it works without either in the search_path.
CREATE SCHEMA other;
CREATE EXTENSION pgq_ext SCHEMA other;
SELECT pgq_create_queue('q');
SELECT other.pgq_create_queue('q'), other.pgq_enqueue('q', '1') > 0 AS enqueued;
SELECT payload, other.pgq_ack(job_id, lease) FROM other.pgq_claim('q');
ALTER EXTENSION pgq_ext SET SCHEMA public;
DROP SCHEMA pgq_ext;
DROP TABLE pgq_ext.job;

-- Dropped with jobs, leases, segments and dead letters in it; created again in the same session it starts from scratch.
SELECT other.pgq_enqueue('q', '"old"') > 0, other.pgq_enqueue('q', '"old, scheduled"', delay => '1 day') > 0, other.pgq_enqueue('q', '"old, dead"', 9) > 0;
SELECT other.pgq_fail(job_id, lease, retry => false) FROM other.pgq_claim('q');
SELECT job_id, lease FROM other.pgq_claim('q') \gset
DROP EXTENSION pgq_ext CASCADE;
SELECT count(*) FROM pg_namespace WHERE nspname = 'pgq_ext';
SELECT count(*) FROM pg_class WHERE relname ~ '^(job|queue)';
SELECT other.pgq_claim('q');
CREATE EXTENSION pgq_ext;
SELECT count(*) FROM pgq_ext.queue_status;
SELECT pgq_enqueue('q', '1');
\set VERBOSITY sqlstate
SELECT pgq_ack(:job_id, :lease);
\set VERBOSITY terse
SELECT pgq_create_queue('q', backoff_base => '0'), pgq_enqueue('q', '"new"') > 0 AS enqueued;
SELECT payload, attempt, lease > :lease AS tokens_grow FROM pgq_claim('q', 10);
SELECT queue, ready, scheduled, leased, dead FROM pgq_ext.queue_status;

-- Its removal and its creation are transactional like any other.
BEGIN;
SELECT pgq_enqueue('q', '"undone"') > 0 AS enqueued;
DROP EXTENSION pgq_ext CASCADE;
CREATE EXTENSION pgq_ext SCHEMA other;
SELECT other.pgq_create_queue('q'), other.pgq_enqueue('q', '"undone"') > 0 AS enqueued;
ROLLBACK;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_ext.lease JOIN pgq_ext.job USING (job_id);
SELECT pgq_enqueue('q', '1') > 0 AS enqueued;
SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
BEGIN;
DROP EXTENSION pgq_ext CASCADE;
CREATE EXTENSION pgq_ext;
SELECT pgq_create_queue('q', backoff_base => '0'), pgq_enqueue('q', '"newest"') > 0 AS enqueued;
COMMIT;
BEGIN;
SELECT payload, attempt FROM pgq_claim('q', 10);
ROLLBACK;
-- the scheduler has found the new one: it counts the attempt
SELECT payload, attempt, pgq_ack(job_id, lease) FROM pgq_claim('q', 10, '60 s');

-- The first queue of a database makes the segments. If it is rolled back, the next is the first.
DROP EXTENSION pgq_ext;
CREATE EXTENSION pgq_ext;
BEGIN;
SELECT pgq_create_queue('first'), pgq_enqueue('first', '1') > 0 AS enqueued;
ROLLBACK;
SELECT pgq_create_queue('second'), pgq_enqueue('second', '2') > 0 AS enqueued;
SELECT payload FROM pgq_claim('second', 10);

-- Neither the scheduler nor anything that it waits for is in the way of DROP DATABASE.
SELECT pgq_enqueue('second', '3', delay => '1 day') > 0 AS enqueued;

-- The first queue of a database gets its first job while its scheduler starts: who loads the queue must know segments that are as new as that.
SELECT 'CREATE DATABASE regress_pgq_' || generate_series(1, 4)
\gexec
\c regress_pgq_1
CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'), pgq_enqueue('q', '1') > 0 AS enqueued; SELECT payload FROM pgq_claim('q');
\c regress_pgq_2
CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'), pgq_enqueue('q', '2') > 0 AS enqueued; SELECT payload FROM pgq_claim('q');
\c regress_pgq_3
CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'), pgq_enqueue('q', '3') > 0 AS enqueued; SELECT payload FROM pgq_claim('q');
\c regress_pgq_4
CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('q'), pgq_enqueue('q', '4') > 0 AS enqueued; SELECT payload FROM pgq_claim('q');
\c regression
SELECT 'DROP DATABASE regress_pgq_' || generate_series(1, 4)
\gexec
DROP DATABASE regress_pgq_extension;

-- A schema where others may create functions: they could take the place of ours.
\set VERBOSITY default
BEGIN;
DROP EXTENSION pgq_ext;
CREATE ROLE regress_pgq_creator;
CREATE SCHEMA open;
GRANT CREATE ON SCHEMA open TO PUBLIC, regress_pgq_creator;
CREATE EXTENSION pgq_ext SCHEMA open;
DROP EXTENSION pgq_ext;
CREATE SCHEMA own;
GRANT USAGE ON SCHEMA own TO PUBLIC;
CREATE EXTENSION pgq_ext SCHEMA own;
ROLLBACK;
