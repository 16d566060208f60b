-- What 0.2 has beyond 0.1: the same statements as in src/schema, in their order.

\echo Use "ALTER EXTENSION pgq_ext UPDATE" to load this file. \quit

-- REPLICA IDENTITY of src/schema, without the lock of ALTER TABLE, for which who works would wait until this is committed.
DELETE FROM pgq_ext.unique_key a USING pgq_ext.unique_key b
WHERE a.job_id OPERATOR(pg_catalog.=) b.job_id AND a.until OPERATOR(pg_catalog.=) b.until AND a.ctid OPERATOR(pg_catalog.<) b.ctid;
CREATE UNIQUE INDEX unique_key_by_job ON pgq_ext.unique_key (job_id, until);
UPDATE pg_catalog.pg_index SET indisreplident = true WHERE indexrelid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key_by_job'::pg_catalog.regclass;
UPDATE pg_catalog.pg_class SET relreplident = 'i' WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass;
UPDATE pg_catalog.pg_class SET relreplident = 'f' WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.run'::pg_catalog.regclass;

-- Segments that are there already get what create_segments() gives to new ones.
DO $$
DECLARE
    segment pg_catalog.regclass;
BEGIN
    FOR segment IN SELECT i.inhrelid FROM pg_catalog.pg_inherits i
                   WHERE i.inhparent IN ('pgq_ext.job'::pg_catalog.regclass, 'pgq_ext.dead_job'::pg_catalog.regclass)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 1000000,
            autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000,
            toast.autovacuum_vacuum_threshold = 1000000, toast.autovacuum_vacuum_insert_threshold = -1)', segment);
    END LOOP;
END $$;

-- ---- ids that know their shard ----

-- A dump has the value of a member's sequence and not its step, but it has this row, and a CHECK is asked of it by whatever
-- door it comes: a restore with triggers switched off, logical replication.
CREATE FUNCTION pgq_ext.step_job_ids(shard integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    IF shard NOT BETWEEN 0 AND 1023 THEN
        RETURN false;
    END IF;
    -- Waits for every transaction that has taken an id, and no other takes one before this one ends.
    ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1024;
    SELECT last_value + is_called::integer INTO next_id FROM pgq_ext.job_id_seq WHERE last_value % 1024 <> shard;
    -- One that is of the shard stays as it is, so that a restore may bring it before this row, or after.
    IF FOUND THEN
        next_id := next_id + (shard - next_id % 1024 + 1024) % 1024;
        EXECUTE pg_catalog.format('ALTER SEQUENCE pgq_ext.job_id_seq RESTART WITH %s', next_id);
    END IF;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.step_job_ids FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.step_job_ids IS
'Internal: from the next one on ids of jobs leave the remainder shard when they are divided by 1024. False: there is no shard of that number.';

CREATE TABLE pgq_ext.shard (
    only_row boolean DEFAULT true PRIMARY KEY CHECK (only_row),
    shard    integer NOT NULL CHECK (pgq_ext.step_job_ids(shard))
);
COMMENT ON TABLE pgq_ext.shard IS
'Which shard this database is: ids of its jobs leave this remainder when they are divided by 1024. No row: none. Set by pgq_set_shard.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.shard', '');

CREATE FUNCTION pgq_set_shard(shard int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_shard';
REVOKE ALL ON FUNCTION pgq_set_shard FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_shard IS
'This database is shard number 0 to 1023 of several: every id of a job leaves that remainder when it is divided by 1024, so that who has one knows where its job is. Ids grow by 1024 from here on, and are used once, as before. Waits for transactions that have enqueued, and from here to the end of this one nobody can. Called with the number that it has, it does nothing but make sure of it. Errors: 55000 there are jobs, dead letters, or records of jobs, with ids of another number, or of none; 22023 no such number; 22004 none; 25001 not in a READ COMMITTED transaction.';

-- What they say of themselves.
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs under a lease of lease_time (1 s to 7 days; default: the queue''s). With wait (at most 60 s) waits for the first one; returns empty in time for statement_timeout. Each job must be answered: with pgq_ack, pgq_fail or pgq_release; if the lease expires, or the claiming transaction rolls back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and nothing claimed.';

COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues), in the order of the array, waiting on all of them at once. Of no queue: nothing, at the end of wait.';

COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and somebody else gets the job after delay (0 or more); with 0 it keeps its place in the order. False: the lease is not current, nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

COMMENT ON FUNCTION pgq_extend IS
'Give the lease a new end, lease_time from now (default: the queue''s; capped by its max_runtime), and return it. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: its worker should stop.';

COMMENT ON TABLE pgq_ext.run IS
'What pgq_run_once has begun, a row for each name and period (NULL: once for ever): the token and owner of the last try, when it began, when it was finished (NULL: it is not), with which result, and how many tries there were. Of each name and period the newest pgq_ext.keep_runs that are finished are kept, and as many that are not.';
