-- pgq_checkpoint: values that a worker keeps for the steps of its job.
SELECT pgq_create_queue('q', backoff_base => '0', keep_finished => '1 day');
SELECT pgq_enqueue('q', '{"order": 1}') AS job, pgq_enqueue('q', '{"order": 2}') AS other \gset
SELECT lease FROM pgq_claim('q') \gset

-- A step that is not done; done; done already, whatever the value; another step; a step whose value is JSON null.
SELECT pgq_checkpoint(:job, :lease, 'charge') AS nothing, pgq_checkpoint(:job, :lease, 'charge', '{"receipt": 7}') AS kept;
SELECT pgq_checkpoint(:job, :lease, 'charge'), pgq_checkpoint(:job, :lease, 'charge', '{"receipt": 8}') AS again, pgq_checkpoint(:job, :lease, 'ship', '"sent"') AS other, pgq_checkpoint(:job, :lease, 'Charge') AS case_matters;
SELECT pgq_checkpoint(:job, :lease, 'null', 'null') AS json_null, pgq_checkpoint(:job, :lease, 'null', '1') AS kept, pgq_checkpoint(:job, :lease, 'null') IS NULL AS is_null;
-- The steps of one job are not those of another.
SELECT lease AS other_lease FROM pgq_claim('q') \gset
SELECT pgq_checkpoint(:other, :other_lease, 'charge') AS nothing;

-- A rollback, also to a savepoint, undoes the step.
BEGIN;
SELECT pgq_checkpoint(:job, :lease, 'undone', '1');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT pgq_checkpoint(:job, :lease, 'undone', '2');
SELECT pgq_checkpoint(:job, :lease, 'undone', '3');
ROLLBACK TO s;
SELECT pgq_checkpoint(:job, :lease, 'undone') AS nothing, pgq_checkpoint(:job, :lease, 'undone', '4') AS kept;
COMMIT;
SELECT pgq_checkpoint(:job, :lease, 'undone');

-- The next attempt gets the values, and so does the attempt of a dead letter that was retried.
SELECT pgq_fail(:job, :lease, 'no');
\set VERBOSITY sqlstate
SELECT pgq_checkpoint(:job, :lease, 'charge');
\set VERBOSITY default
SELECT attempt, lease FROM pgq_claim('q') \gset
SELECT :attempt AS attempt, pgq_checkpoint(:job, :lease, 'charge', '{"receipt": 9}'), pgq_checkpoint(:job, :lease, 'more', '1');
SELECT pgq_fail(:job, :lease, 'no', retry => false);
SELECT pgq_retry(:job);
SELECT lease FROM pgq_claim('q') \gset
SELECT pgq_checkpoint(:job, :lease, 'charge'), pgq_checkpoint(:job, :lease, 'more');

-- The newest value counts, at any isolation level.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM pgq_ext.job_checkpoint WHERE job_id = :job;
SELECT pgq_checkpoint(:job, :lease, 'repeatable', '1'), pgq_checkpoint(:job, :lease, 'repeatable', '2');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT pgq_checkpoint(:job, :lease, 'repeatable', '3');
COMMIT;

-- A value of 1 MB, out of line; names of 1 and 200 bytes.
SELECT length(pgq_checkpoint(:job, :lease, 'large', to_jsonb(repeat('x', 1000000)))::text), length(pgq_checkpoint(:job, :lease, 'large')::text);
SELECT pgq_checkpoint(:job, :lease, 'x', '1'), pgq_checkpoint(:job, :lease, repeat('x', 200), '1');

-- What is refused.
SELECT pgq_checkpoint(:job, :lease, repeat('x', 201), '1');
SELECT pgq_checkpoint(:job, :lease, '', '1');
SELECT pgq_checkpoint(:job, :lease, NULL, '1');
SELECT pgq_checkpoint(NULL, :lease, 'x', '1');
SELECT pgq_checkpoint(:job, NULL, 'x', '1');
\set VERBOSITY sqlstate
SELECT pgq_checkpoint(:other, :lease, 'x', '1') AS lease_of_another;
\set VERBOSITY default
BEGIN READ ONLY;
SELECT pgq_checkpoint(:job, :lease, 'x');
ROLLBACK;
-- 1,000 steps, of which some are there, and one more.
SELECT count(pgq_checkpoint(:other, :other_lease, i::text, '1')) FROM generate_series(1, 1000) i;
\set VERBOSITY sqlstate
SELECT pgq_checkpoint(:other, :other_lease, '1001', '1');
SELECT pgq_checkpoint(:other, :other_lease, '1000', '2'), pgq_checkpoint(:other, :other_lease, '1001') AS nothing;

-- In the transaction of the end: before it, not after it.
BEGIN;
SELECT pgq_checkpoint(:other, :other_lease, '1'), pgq_ack(:other, :other_lease);
SELECT pgq_checkpoint(:other, :other_lease, '1');
ROLLBACK;
SELECT pgq_ack(:other, :other_lease);
SELECT pgq_checkpoint(:other, :other_lease, '1');

-- Roles: a worker needs EXECUTE and the lease, and no right on the table.
CREATE ROLE regress_pgq_stepper;
CREATE ROLE regress_pgq_other;
GRANT EXECUTE ON FUNCTION pgq_checkpoint TO regress_pgq_stepper;
SET ROLE regress_pgq_stepper;
SELECT pgq_checkpoint(:job, :lease, 'charge');
SELECT count(*) FROM pgq_ext.job_checkpoint;
RESET ROLE;
SELECT pgq_grant('q', 'regress_pgq_other', '{claim}');
SET ROLE regress_pgq_stepper;
SELECT pgq_checkpoint(:job, :lease, 'charge');
RESET ROLE;
DROP OWNED BY regress_pgq_stepper;
DROP ROLE regress_pgq_stepper;
SELECT pgq_drop_queue('q', force => true);
DROP ROLE regress_pgq_other;
DELETE FROM pgq_ext.job_checkpoint;
