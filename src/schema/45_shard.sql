-- ---- job ids that contain the number of their shard ----

-- A CHECK of pgq_ext.shard calls this function, because every way of writing the row evaluates CHECKs, even a restore
-- with triggers disabled and logical replication. (A dump contains the row of pgq_ext.shard and the value of the
-- sequence, but not the step of the sequence, because the sequence belongs to the extension.) The function runs with
-- the rights of the role that writes the row. Only the owner of the sequence can alter the sequence.
CREATE FUNCTION pgq_ext.step_job_ids(shard integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    IF (shard BETWEEN 0 AND 1023) IS NOT TRUE THEN
        RETURN false;
    END IF;
    -- ALTER SEQUENCE waits for every transaction that has taken a job id. Until this transaction ends, no other
    -- transaction takes a job id.
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
'Internal: makes all new job ids leave the remainder shard when they are divided by 1024. False: shard is not between 0 and 1023.';

CREATE TABLE pgq_ext.shard (
    only_row boolean DEFAULT true PRIMARY KEY CHECK (only_row),
    shard    integer NOT NULL CHECK (pgq_ext.step_job_ids(shard))
);
COMMENT ON TABLE pgq_ext.shard IS
'The shard number of this database: new job ids leave this remainder when they are divided by 1024. No row: the database is not a shard. Set by pgq_set_shard.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.shard', '');

CREATE FUNCTION pgq_set_shard(shard int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_shard';
REVOKE ALL ON FUNCTION pgq_set_shard FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_shard IS
'Make this database a shard with a number from 0 to 1023: every id of a job leaves that number as remainder when it is divided by 1024, so that a client finds the database of a job by its id. From then on ids grow by 1024; no id is used twice. Waits for transactions that have enqueued; no session can enqueue before this transaction ends. If the database has that number already, the call only makes sure that new ids have it. Errors: 55000 there are jobs, dead letters, or records whose ids have another number, or no number; 22023 number out of range; 22004 NULL; 25001 not in a READ COMMITTED transaction.';
