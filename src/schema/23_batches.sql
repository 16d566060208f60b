-- ---- batches: see src/batches/README.md ----

CREATE FUNCTION pgq_ext.add_batch_columns() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ring regclass;
    segment regclass;
    added boolean := false;
BEGIN
    -- In the order in which all code locks these tables. From here on no other session enqueues or ends a job until this transaction ends.
    LOCK TABLE pgq_ext.job, pgq_ext.dead_job, pgq_ext.finished_job IN ACCESS EXCLUSIVE MODE;
    FOREACH ring IN ARRAY ARRAY['pgq_ext.job', 'pgq_ext.dead_job', 'pgq_ext.finished_job']::regclass[]
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = ring AND attname = 'batch_id' AND NOT attisdropped);
        -- The library reads columns by position, and a dropped column keeps its position.
        IF EXISTS (SELECT FROM pg_attribute a WHERE a.attisdropped
                   AND (a.attrelid = ring OR a.attrelid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ring)))
        THEN
            RAISE 'table "%" has, or a partition of it has, a dropped column', ring
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Dump the database, and restore it.';
        END IF;
        EXECUTE format('ALTER TABLE %s ADD COLUMN batch_id bigint, %s ADD COLUMN parents smallint', ring,
            CASE WHEN ring = 'pgq_ext.job'::regclass THEN 'ADD COLUMN blocked bigint,' ELSE '' END);
        CONTINUE WHEN ring = 'pgq_ext.finished_job'::regclass;
        FOR segment IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ring ORDER BY i.inhrelid
        LOOP
            EXECUTE format('CREATE INDEX %I ON %s (batch_id, job_id) WHERE batch_id IS NOT NULL',
                (SELECT relname FROM pg_class WHERE oid = segment) || '_by_batch', segment);
            CONTINUE WHEN ring <> 'pgq_ext.job'::regclass;
            EXECUTE format('CREATE INDEX %I ON %s (job_id) WHERE blocked IS NOT NULL',
                (SELECT relname FROM pg_class WHERE oid = segment) || '_blocked', segment);
        END LOOP;
        added := true;
    END LOOP;
    COMMENT ON COLUMN pgq_ext.job.batch_id IS 'The batch of which the job is a member; NULL: the job is in no batch. Set when the job is enqueued, and never changed.';
    COMMENT ON COLUMN pgq_ext.job.blocked IS 'The job waits until its parents have ended, and then for this number of microseconds; NULL: the job is not blocked.';
    COMMENT ON COLUMN pgq_ext.job.parents IS 'Number of parents of the job; NULL: none. Set when the job is enqueued, and never changed.';
    RETURN added;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.add_batch_columns() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.add_batch_columns() IS
'Prepare a database for batches and dependencies that was updated from version 0.1: add the columns and indexes that a new database has. Locks the tables of jobs in ACCESS EXCLUSIVE mode: so it waits for all open and prepared transactions that have used these tables, and later calls wait for it. Reads every job once. Set lock_timeout before. Returns true if something was added. May be called again. Error: 55000 a table has a dropped column.';

CREATE SEQUENCE pgq_ext.batch_id_seq AS bigint MAXVALUE 137438953471;

CREATE TABLE pgq_ext.job_batch (
    -- A number of batch_id_seq, and 16 random bits.
    batch_id     bigint PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    closed_at    timestamptz,
    finished_at  timestamptz,
    failed_at    timestamptz,
    succeeded_at timestamptz,
    cancelled_at timestamptz,
    -- A callback can still come.
    pending      boolean NOT NULL DEFAULT true,
    -- The row was not written by pgq_create_batch, but for example by a restore, and the scheduler has not looked at the batch.
    restored     boolean NOT NULL DEFAULT true,
    -- The role with whose rights the callbacks are enqueued. In a dump only maker_name identifies the role.
    maker        oid,
    maker_name   text NOT NULL,
    on_success   jsonb,
    on_failure   jsonb,
    on_finish    jsonb,
    metadata     jsonb,
    -- A callback could not be enqueued: the time of the next try, the number of tries in a row that have failed, and
    -- the last error.
    due_at       timestamptz,
    failures     integer NOT NULL DEFAULT 0,
    last_error   text
);
CREATE INDEX job_batch_pending ON pgq_ext.job_batch (batch_id) WHERE pending;
CREATE INDEX job_batch_due ON pgq_ext.job_batch (due_at) WHERE pending AND due_at IS NOT NULL;
CREATE INDEX job_batch_settled ON pgq_ext.job_batch (finished_at) WHERE NOT pending;
REVOKE ALL ON TABLE pgq_ext.job_batch FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_batch IS
'Batches, one row for each, created by pgq_create_batch. The scheduler marks here which callbacks it has enqueued.';

CREATE FUNCTION pgq_ext.job_batch_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_batch_changed';
REVOKE ALL ON FUNCTION pgq_ext.job_batch_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_batch_changed() IS
'Internal: finds the role with whose rights the callbacks of a batch are enqueued, and tells the scheduler of batches that SQL has written.';

CREATE TRIGGER job_batch_changed BEFORE INSERT OR UPDATE ON pgq_ext.job_batch
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_batch_changed();
ALTER TABLE pgq_ext.job_batch ENABLE ALWAYS TRIGGER job_batch_changed;

CREATE FUNCTION pgq_ext.job_batch_kept() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_batch_kept';
REVOKE ALL ON FUNCTION pgq_ext.job_batch_kept() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_batch_kept() IS
'Internal: refuses to delete a batch by SQL while the batch has jobs or dead letters, or can still get a callback.';

CREATE TRIGGER job_batch_kept BEFORE DELETE ON pgq_ext.job_batch
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_batch_kept();
CREATE TRIGGER job_batch_not_truncated BEFORE TRUNCATE ON pgq_ext.job_batch
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.job_batch_kept();

CREATE TABLE pgq_ext.batch_note (
    batch_id bigint NOT NULL,
    what     smallint NOT NULL,
    n        bigint NOT NULL
);
CREATE INDEX batch_note_by_batch ON pgq_ext.batch_note (batch_id, what);
-- Without a replica identity, DELETE fails when the table is published, for example by FOR ALL TABLES.
ALTER TABLE pgq_ext.batch_note REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.batch_note FROM PUBLIC;
COMMENT ON TABLE pgq_ext.batch_note IS
'Notes about members of batches: n members were added (what is 1), have become dead letters (2), or have ended in another way than by an acknowledgement (3 and more). A session adds to the number of the note of additions that it has written last; see src/rows/batch_note.h.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.batch_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_batch', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.batch_note', '');

CREATE FUNCTION pgq_create_batch(
    on_success jsonb = null, on_failure jsonb = null, on_finish jsonb = null, metadata jsonb = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_batch';
REVOKE ALL ON FUNCTION pgq_create_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_batch IS
'Create a batch, and return its id: jobs become its members by the argument batch of pgq_enqueue. Each callback is an object as in pgq_enqueue_many, with the key queue, and without a batch or a unique key. The scheduler enqueues on_failure when the first member has become a dead letter; on_finish when the batch is closed and all members have ended; on_success when the batch is closed and all members were acknowledged. Each is enqueued once, with the headers batch and event. metadata: any value, kept with the batch. The batch belongs to the current role. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 a callback has no queue or payload, 22023 bad value, 55000 the database needs pgq_ext.add_batch_columns().';

CREATE FUNCTION pgq_close_batch(batch bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_close_batch';
REVOKE ALL ON FUNCTION pgq_close_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_close_batch IS
'Close a batch: from the commit on only a transaction that has the lease of a member in hand (pgq_assert_lease) can add jobs. Does nothing if the batch is closed. Errors: 42704 no such batch, or the batch belongs to a role of which the caller is no member; 22004 NULL.';

CREATE FUNCTION pgq_cancel_batch(batch bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_cancel_batch';
REVOKE ALL ON FUNCTION pgq_cancel_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_cancel_batch IS
'Cancel a batch: close it, and delete its waiting members. Returns how many were deleted. The scheduler ends the other members as soon as no transaction uses their leases. Then on_finish is enqueued; on_success is not. Errors: 42704 no such batch, or the batch belongs to a role of which the caller is no member; 22004 NULL; 55000 a subscription replicates jobs into this database.';
