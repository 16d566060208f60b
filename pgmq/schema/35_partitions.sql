-- ---- partitioned archives, with pg_partman ----

CREATE FUNCTION pgmq._partman(OUT schema_name text, OUT version integer) RETURNS record
LANGUAGE plpgsql AS $$
BEGIN
    SELECT n.nspname, split_part(e.extversion, '.', 1)::integer INTO schema_name, version
    FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_partman';
    IF schema_name IS NULL THEN
        RAISE EXCEPTION 'pg_partman is required for partitioned queues'
            USING HINT = 'Run CREATE EXTENSION pg_partman, or create the queue with pgmq.create().';
    END IF;
END $$;
COMMENT ON FUNCTION pgmq._partman IS 'Internal: the schema and the version of pg_partman. Raises an error if the database does not have it.';

-- The archive is a table of the caller, so pg_partman is called with the rights of the caller.
CREATE FUNCTION pgmq._call_partman(archive text, column_name text, partition_interval text, settings text, premake integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    partman record := pgmq._partman();
BEGIN
    EXECUTE format('SELECT %I.create_parent(p_parent_table := %L, p_control := %L, p_interval := %L, p_type := %L, p_premake := %s)',
                   partman.schema_name, 'pgmq.' || archive, column_name, partition_interval,
                   CASE WHEN partman.version >= 5 THEN 'range' ELSE 'native' END, premake);
    EXECUTE format('UPDATE %I.part_config SET retention_keep_table = false, %s WHERE parent_table = %L', partman.schema_name, settings, 'pgmq.' || archive);
END $$;
COMMENT ON FUNCTION pgmq._call_partman IS 'Internal: gives a partitioned archive to pg_partman. Leaves search_path changed.';

-- create_parent() of pg_partman sets search_path, and the value would outlast functions that have their own search_path.
CREATE FUNCTION pgmq._partition(archive text, column_name text, partition_interval text, settings text, premake integer) RETURNS void
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_partition';
COMMENT ON FUNCTION pgmq._partition IS 'Internal: calls pgmq._call_partman, and undoes its changes of settings.';

CREATE FUNCTION pgmq._forget_partitions(archive text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF pgmq._extension_exists('pg_partman') AND EXISTS (SELECT FROM pg_catalog.pg_partitioned_table WHERE partrelid = to_regclass(format('pgmq.%I', archive))) THEN
        EXECUTE format('DELETE FROM %I.part_config WHERE parent_table = %L', (pgmq._partman()).schema_name, 'pgmq.' || archive);
    END IF;
END $$;
COMMENT ON FUNCTION pgmq._forget_partitions IS 'Internal: takes an archive away from pg_partman.';

CREATE FUNCTION pgmq._default_partition_length(archive text) RETURNS bigint
LANGUAGE sql AS $$
    SELECT greatest(c.reltuples, 0)::bigint
    FROM pg_catalog.pg_partitioned_table p JOIN pg_catalog.pg_class c ON c.oid = p.partdefid
    WHERE p.partrelid = to_regclass(format('pgmq.%I', archive))
$$;
COMMENT ON FUNCTION pgmq._default_partition_length IS 'Internal: how many rows the default partition of an archive has, as the planner estimates; NULL if there is no such partition.';

-- A number is an interval of message ids, and other texts are intervals of time.
CREATE FUNCTION pgmq._partition_column(partition_interval text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN partition_interval ~ '^ *[0-9]+ *$' THEN 'msg_id' ELSE 'archived_at' END $$;
COMMENT ON FUNCTION pgmq._partition_column IS 'Internal: the column by which an archive is partitioned.';

CREATE FUNCTION pgmq.create_partitioned(
    queue_name text, partition_interval text DEFAULT '10000', retention_interval text DEFAULT '100000', premake integer DEFAULT 4) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    archive text := pgmq.format_table_name(queue_name, 'a');
    column_name text := pgmq._partition_column(partition_interval);
BEGIN
    PERFORM pgmq.validate_queue_name(queue_name), pgmq._partman();
    IF premake < 1 THEN
        RAISE EXCEPTION 'premake must be at least 1, got %', premake;
    END IF;
    PERFORM pgmq._create(queue_name, true, false);
    IF to_regclass(format('pgmq.%I', archive)) IS NULL THEN
        EXECUTE format('CREATE TABLE pgmq.%I (
            msg_id bigint NOT NULL, read_ct integer DEFAULT 0 NOT NULL, enqueued_at timestamptz DEFAULT now() NOT NULL,
            last_read_at timestamptz, archived_at timestamptz DEFAULT now() NOT NULL, vt timestamptz NOT NULL,
            message jsonb, headers jsonb) PARTITION BY RANGE (%I)', archive, column_name);
        PERFORM pgmq._partition(archive, column_name, partition_interval,
            format('retention = %L, retention_keep_index = true, automatic_maintenance = %L', retention_interval, 'on'), premake);
        EXECUTE format('CREATE INDEX %I ON pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, archive);
    END IF;
END $$;
COMMENT ON FUNCTION pgmq.create_partitioned IS
'As pgmq.create, with an archive that pg_partman partitions by msg_id or archived_at, and whose old partitions it drops (retention_interval). Messages in the queue are stored in partitions that all queues share and that need no maintenance; no message is dropped because of its age.';

CREATE FUNCTION pgmq.convert_archive_partitioned(
    table_name text, partition_interval text DEFAULT '10000', retention_interval text DEFAULT '100000', leading_partition integer DEFAULT 10) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    archive text := pgmq.format_table_name(table_name, 'a');
    archive_index text := 'archived_at_idx_' || table_name;
    kind "char" := (SELECT c.relkind FROM pg_catalog.pg_class c WHERE c.oid = to_regclass(format('pgmq.%I', archive)));
    column_name text := pgmq._partition_column(partition_interval);
BEGIN
    IF kind = 'p' THEN
        RAISE NOTICE 'Table % is already partitioned', archive;
        RETURN;
    ELSIF kind IS DISTINCT FROM 'r' THEN
        RAISE NOTICE 'Table % does not exists', archive;
        RETURN;
    END IF;
    -- Steps: put the old table aside, create one of the same shape, and give it to pg_partman. A primary key of msg_id cannot
    -- be kept if archived_at decides the partition.
    PERFORM pgmq._partman();
    EXECUTE format('ALTER TABLE pgmq.%I RENAME TO %I', archive, archive || '_old');
    IF to_regclass(format('pgmq.%I', archive_index)) IS NOT NULL THEN
        EXECUTE format('ALTER INDEX pgmq.%I RENAME TO %I', archive_index, archive_index || '_old');
    END IF;
    EXECUTE format('CREATE TABLE pgmq.%I (LIKE pgmq.%I INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMMENTS) PARTITION BY RANGE (%I)',
                   archive, archive || '_old', column_name);
    IF column_name = 'msg_id' THEN
        EXECUTE format('ALTER TABLE pgmq.%I ADD PRIMARY KEY (msg_id)', archive);
    END IF;
    EXECUTE format('CREATE INDEX %I ON pgmq.%I (archived_at)', archive_index, archive);
    PERFORM pgmq._partition(archive, column_name, partition_interval,
        format('retention = %L, retention_keep_index = false, infinite_time_partitions = true', retention_interval), 4);
END $$;
COMMENT ON FUNCTION pgmq.convert_archive_partitioned IS
'Makes the archive a partitioned table that pg_partman maintains. The messages archived so far stay in a table a_NAME_old, as with the original. leading_partition has no effect.';
