-- ---- checkpoints: see src/jobs/checkpoint.h ----

CREATE TABLE pgq_ext.job_checkpoint (
    job_id  bigint NOT NULL,
    step    text COLLATE "C" NOT NULL,
    value   jsonb NOT NULL,
    -- Time at which this row was written to this table: by the worker, or by a restore.
    kept_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (job_id, step)
);
REVOKE ALL ON TABLE pgq_ext.job_checkpoint FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_checkpoint IS
'The values that workers have kept for steps of their jobs with pgq_checkpoint. The scheduler deletes the rows of a job that exists neither as a job nor as a dead letter, when they are at least 5 minutes old.';
COMMENT ON COLUMN pgq_ext.job_checkpoint.kept_at IS 'Time at which the row was written to this table; after a restore, the time of the restore.';

CREATE FUNCTION pgq_ext.job_checkpoint_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    -- The scheduler deletes a checkpoint without a job when it is 5 minutes old. A restore may write the
    -- checkpoint before the job. So keep the time of the restore, not the time in the dump.
    NEW.kept_at := pg_catalog.clock_timestamp();
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.job_checkpoint_kept() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_checkpoint_kept() IS
'Internal: sets kept_at in pgq_ext.job_checkpoint.';

CREATE TRIGGER job_checkpoint_kept BEFORE INSERT ON pgq_ext.job_checkpoint
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_checkpoint_kept();
ALTER TABLE pgq_ext.job_checkpoint ENABLE ALWAYS TRIGGER job_checkpoint_kept;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_checkpoint', '');

CREATE FUNCTION pgq_checkpoint(job_id bigint, lease bigint, step text, value jsonb = null) RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_checkpoint';
REVOKE ALL ON FUNCTION pgq_checkpoint FROM PUBLIC;
COMMENT ON FUNCTION pgq_checkpoint IS
'Return the value that was kept for this step of the job. If none was kept, keep value for the step when this transaction commits, and return it; with value NULL keep nothing, and return NULL. So a worker whose attempt follows a failed one learns which steps are done, and with which results. step: 1 to 200 bytes. A job has at most 1000 steps. The values stay with the job while it waits, is in work, or is a dead letter; the scheduler deletes them some minutes after its end. The lease is asserted as by pgq_assert_lease. Errors: PQ001 the lease is stale, 22004 no step, 22023 step is too long or empty, 54000 the job has 1000 steps.';
