-- ---- batches: see src/batches/README.md ----

CREATE FUNCTION pgq_ext.add_batch_columns() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ring regclass;
    segment regclass;
    added boolean := false;
BEGIN
    -- In the order in which all code locks these tables. From here on nobody enqueues or ends a job until this transaction ends.
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
        EXECUTE format('ALTER TABLE %s ADD COLUMN batch_id bigint', ring);
        CONTINUE WHEN ring = 'pgq_ext.finished_job'::regclass;
        FOR segment IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ring ORDER BY i.inhrelid
        LOOP
            EXECUTE format('CREATE INDEX %I ON %s (batch_id, job_id) WHERE batch_id IS NOT NULL',
                (SELECT relname FROM pg_class WHERE oid = segment) || '_by_batch', segment);
        END LOOP;
        added := true;
    END LOOP;
    COMMENT ON COLUMN pgq_ext.job.batch_id IS 'The batch of which the job is a member; NULL: of none. Set when the job is enqueued, and never changed.';
    RETURN added;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.add_batch_columns() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.add_batch_columns() IS
'Prepare a database for batches that was updated from version 0.1: add the columns and indexes that a new database has. Locks the tables of jobs alone, so it waits for all transactions that have used them, prepared ones too, and all later calls wait for it; it reads every job once. Set lock_timeout. True: something was added. May be called again. Error: 55000 a table has a dropped column.';
