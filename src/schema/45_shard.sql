-- ---- job ids that contain the number of their shard ----

-- Called by a CHECK, because every way of writing the row evaluates CHECKs, even a restore with triggers disabled and
-- logical replication. (A dump contains the sequence's value but not its step, because the sequence belongs to the
-- extension; it contains this row.) Runs with the rights of the role that writes the row. Only the owner can alter
-- the sequence.
CREATE FUNCTION pgq_ext.step_job_ids(shard integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    IF (shard BETWEEN 0 AND 1023) IS NOT TRUE THEN
        RETURN false;
    END IF;
    -- Waits for every transaction that has taken an id. Until this transaction ends, no other takes one.
    ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1024;
    SELECT last_value + is_called::integer INTO next_id FROM pgq_ext.job_id_seq WHERE last_value % 1024 <> shard;
    -- A value that already belongs to the shard stays: a restore may set the sequence before or after this row.
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
