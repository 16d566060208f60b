-- ---- queues ----

CREATE FUNCTION pgmq._row() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_row';
COMMENT ON FUNCTION pgmq._row() IS 'Internal: makes INSERT, UPDATE and DELETE on the view of a queue send, change and end messages.';

CREATE FUNCTION pgmq._lease(job_id bigint, OUT read_ct integer, OUT last_read_at timestamptz, OUT vt timestamptz) RETURNS record
LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'pgq_mq_lease';
COMMENT ON FUNCTION pgmq._lease IS 'Internal: what the lease of a message says, for the view of its queue; NULL if nobody reads the message, or if the caller may not read the view.';

CREATE FUNCTION pgmq._last_read(fence bigint) RETURNS timestamptz
LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1 AS 'MODULE_PATHNAME', 'pgq_mq_last_read';
COMMENT ON FUNCTION pgmq._last_read IS 'Internal: the time of the last lease of a message, from the fence of its job.';

CREATE FUNCTION pgmq._free_slot() RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    free integer;
BEGIN
    LOCK TABLE pgmq.queue_slot IN SHARE ROW EXCLUSIVE MODE;
    FOR i IN 1 .. 8191 LOOP
        free := nextval('pgmq.next_slot');
        EXIT WHEN NOT EXISTS (SELECT FROM pgmq.queue_slot s WHERE s.slot = free)
            AND NOT EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id >= free * 1099511627776 AND j.job_id < (free + 1) * 1099511627776);
        free := NULL;
    END LOOP;
    IF free IS NULL THEN
        RAISE configuration_limit_exceeded USING MESSAGE = 'too many queues', HINT = 'A database can have 8191 queues. Drop queues that nobody uses.';
    END IF;
    RETURN free;
END $$;
ALTER FUNCTION pgmq._free_slot() SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION pgmq._free_slot IS 'Internal: a slot that no queue has, and of which no message is left.';

-- The table of the archive is made by this function, or kept if there is one.
CREATE FUNCTION pgmq._create_archive(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    archive text := pgmq.format_table_name(queue_name, 'a');
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS pgmq.%I (
        msg_id bigint PRIMARY KEY, read_ct integer DEFAULT 0 NOT NULL, enqueued_at timestamptz DEFAULT now() NOT NULL,
        last_read_at timestamptz, archived_at timestamptz DEFAULT now() NOT NULL, vt timestamptz NOT NULL,
        message jsonb, headers jsonb)', archive);
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, archive);
    EXECUTE format('GRANT SELECT ON pgmq.%I TO pg_monitor', archive);
END $$;
COMMENT ON FUNCTION pgmq._create_archive IS 'Internal: creates the table for archived messages of a queue.';

-- The name of the queue of pgq_ext is only for people: the table queue_slot has its id.
CREATE FUNCTION pgmq._engine_name(queue_name text, slot integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(queue_name) <= 54 AND queue_name !~ '[[:space:][:cntrl:]]' THEN 'pgmq.' || lower(queue_name)
                ELSE 'pgmq.slot-' || slot END
$$;
COMMENT ON FUNCTION pgmq._engine_name IS 'Internal: the name of the queue of pgq_ext for a new queue.';

CREATE FUNCTION pgmq._create(queue_name text, partitioned boolean, unlogged boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    view_name text := pgmq.format_table_name(queue_name, 'q');
    slot integer;
    engine_name text;
    id integer;
    last_job bigint;
BEGIN
    PERFORM pgmq.validate_queue_name(queue_name);
    PERFORM pgmq.acquire_queue_lock(queue_name);
    IF to_regclass(format('pgmq.%I', view_name)) IS NULL THEN
        IF EXISTS (SELECT FROM pg_catalog.pg_sequence WHERE seqrelid = to_regclass('pgq_ext.job_id_seq') AND seqincrement > 1) THEN
            RAISE feature_not_supported USING MESSAGE = 'pgmq cannot be used in a database with a shard number',
                HINT = 'Use a database in which pgq_set_shard() was not called.';
        END IF;
        slot := pgmq._free_slot();
        engine_name := pgmq._engine_name(queue_name, slot);
        -- DROP EXTENSION leaves the messages, as with the original: go on with them.
        SELECT q.queue_id INTO id FROM pgq_ext.queue q WHERE q.queue = engine_name;
        SELECT max(j.job_id) INTO last_job FROM pgq_ext.job j WHERE j.queue_id = id;
        slot := COALESCE(last_job / 1099511627776, slot);
        PERFORM pgmq._engine('pgq_create_queue($1, lease_time => ''30 s'', max_attempts => 2147483647, backoff_base => ''0'', backoff_max => ''0'', backoff_jitter => 0, log_attempts => ''none'', keep_attempts => ''0'', keep_finished => ''0'', notify => false, undo_rolled_back_claims => true, if_not_exists => true)', engine_name);
        SELECT q.queue_id INTO STRICT id FROM pgq_ext.queue q WHERE q.queue = engine_name;
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS pgmq.%I AS bigint MAXVALUE 1099511627775', view_name || '_msg_id_seq');
        IF last_job IS NOT NULL THEN
            EXECUTE format('SELECT setval(%L, greatest(last_value, $1)) FROM pgmq.%I', format('pgmq.%I', view_name || '_msg_id_seq'), view_name || '_msg_id_seq')
                USING last_job % 1099511627776;
        END IF;
        EXECUTE format('CREATE VIEW pgmq.%I AS
            SELECT j.job_id %% 1099511627776 AS msg_id, COALESCE((j.lease).read_ct, j.attempts) AS read_ct, j.enqueued_at,
                   COALESCE((j.lease).last_read_at, CASE WHEN j.attempts > 0 THEN pgmq._last_read(j.fence) END) AS last_read_at,
                   COALESCE((j.lease).vt, j.run_at) AS vt, CASE WHEN j.progress IS NULL THEN j.payload END AS message, j.headers
            FROM (SELECT *, pgmq._lease(job_id) AS lease FROM pgq_ext.job WHERE queue_id = %s) j', view_name, id);
        EXECUTE format('ALTER VIEW pgmq.%I ALTER COLUMN read_ct SET DEFAULT 0, ALTER COLUMN enqueued_at SET DEFAULT now()', view_name);
        EXECUTE format('CREATE TRIGGER pgmq_row INSTEAD OF INSERT OR UPDATE OR DELETE ON pgmq.%I FOR EACH ROW EXECUTE FUNCTION pgmq._row()', view_name);
        EXECUTE format('COMMENT ON VIEW pgmq.%I IS %L', view_name, 'Messages of the queue, which are jobs of pgq_ext. INSERT, UPDATE and DELETE work as on a table.');
        EXECUTE format('GRANT SELECT ON pgmq.%I, pgmq.%I TO pg_monitor', view_name, view_name || '_msg_id_seq');
        INSERT INTO pgmq.queue_slot VALUES (format('pgmq.%I', view_name)::regclass, slot, id);
    END IF;
    PERFORM pgmq._create_archive(queue_name);
    INSERT INTO pgmq.meta (queue_name, is_partitioned, is_unlogged) VALUES (_create.queue_name, partitioned, unlogged) ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION pgmq._create IS 'Internal: creates the queue of pgq_ext, the view, the sequence and the archive of a queue, unless they exist.';

CREATE FUNCTION pgmq.create_non_partitioned(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, false) $$;
COMMENT ON FUNCTION pgmq.create_non_partitioned IS 'Creates a queue, or does nothing if there is one of that name.';

CREATE FUNCTION pgmq."create"(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, false) $$;
COMMENT ON FUNCTION pgmq."create" IS 'Creates a queue, or does nothing if there is one of that name.';

CREATE FUNCTION pgmq.create_unlogged(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, true) $$;
COMMENT ON FUNCTION pgmq.create_unlogged IS 'As pgmq.create: messages are logged here, too, and survive a crash.';

CREATE FUNCTION pgmq.create_partitioned(
    queue_name text, partition_interval text DEFAULT '10000', retention_interval text DEFAULT '100000', premake integer DEFAULT 4) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, true, false) $$;
COMMENT ON FUNCTION pgmq.create_partitioned IS
'As pgmq.create. Messages are stored in partitions that all queues share, which need no maintenance; so the intervals mean nothing, and no message is dropped because of its age.';

CREATE FUNCTION pgmq.drop_queue(queue_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    view_name text := pgmq.format_table_name(queue_name, 'q');
    its_view regclass := to_regclass(format('pgmq.%I', view_name));
    engine_name text;
BEGIN
    PERFORM pgmq.acquire_queue_lock(queue_name);
    IF its_view IS NULL THEN
        RAISE NOTICE 'pgmq queue `%` does not exist', queue_name;
        RETURN false;
    END IF;
    SELECT q.queue INTO engine_name FROM pgmq.queue_slot s JOIN pgq_ext.queue q USING (queue_id) WHERE s.view = its_view;
    IF engine_name IS NOT NULL THEN
        PERFORM pgmq._engine('pgq_drop_queue($1, if_exists => true, force => true)', engine_name);
    END IF;
    DELETE FROM pgmq.queue_slot s WHERE s.view = its_view;
    EXECUTE format('DROP VIEW pgmq.%I', view_name);
    EXECUTE format('DROP SEQUENCE IF EXISTS pgmq.%I', view_name || '_msg_id_seq');
    EXECUTE format('DROP TABLE IF EXISTS pgmq.%I', pgmq.format_table_name(queue_name, 'a'));
    DELETE FROM pgmq.meta m WHERE m.queue_name = drop_queue.queue_name;
    RETURN true;
END $$;
COMMENT ON FUNCTION pgmq.drop_queue(text) IS 'Drops the queue, its messages and its archive. Returns false, with a NOTICE, if there is no such queue.';

CREATE FUNCTION pgmq.drop_queue(queue_name text, partitioned boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'drop_queue(queue_name, partitioned) is deprecated and will be removed in PGMQ v2.0. Use drop_queue(queue_name) instead';
    PERFORM pgmq.drop_queue(queue_name);
    RETURN true;
END $$;
COMMENT ON FUNCTION pgmq.drop_queue(text, boolean) IS 'As pgmq.drop_queue(queue_name), with a WARNING.';

CREATE FUNCTION pgmq.purge_queue(queue_name text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    purged bigint;
BEGIN
    EXECUTE format('DELETE FROM pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
    GET DIAGNOSTICS purged = ROW_COUNT;
    RETURN purged;
END $$;
COMMENT ON FUNCTION pgmq.purge_queue IS 'Deletes all messages of the queue, also those that are being read, and returns their number.';

CREATE FUNCTION pgmq.list_queues() RETURNS SETOF pgmq.queue_record
LANGUAGE sql AS $$ SELECT m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at FROM pgmq.meta m $$;
COMMENT ON FUNCTION pgmq.list_queues IS 'The rows of pgmq.meta.';

CREATE FUNCTION pgmq.metrics(queue_name text) RETURNS pgmq.metrics_result
LANGUAGE plpgsql AS $$
DECLARE
    view_name text := pgmq.format_table_name(queue_name, 'q');
    result pgmq.metrics_result;
BEGIN
    EXECUTE format('SELECT $1, count(*), extract(epoch FROM now() - max(q.enqueued_at))::integer, extract(epoch FROM now() - min(q.enqueued_at))::integer,
            (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM pgmq.%I s), now(), count(*) FILTER (WHERE q.vt <= now()), 0
        FROM pgmq.%I q', view_name || '_msg_id_seq', view_name) INTO result USING queue_name;
    RETURN result;
END $$;
COMMENT ON FUNCTION pgmq.metrics IS 'Numbers of one queue. Reads all its messages.';

CREATE FUNCTION pgmq.metrics_all() RETURNS SETOF pgmq.metrics_result
LANGUAGE sql AS $$ SELECT r.* FROM pgmq.meta m CROSS JOIN LATERAL pgmq.metrics(m.queue_name) r $$;
COMMENT ON FUNCTION pgmq.metrics_all IS 'Numbers of all queues. Reads all messages.';

CREATE FUNCTION pgmq.detach_archive(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.format_table_name(queue_name, 'a');
    RAISE WARNING 'detach_archive(queue_name) is deprecated and is a no-op. It will be removed in PGMQ v2.0. Archive tables are no longer member objects.';
END $$;
COMMENT ON FUNCTION pgmq.detach_archive IS 'Does nothing but a WARNING.';

CREATE FUNCTION pgmq.create_fifo_index(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, 'q'))) IS NULL THEN
        RAISE undefined_table USING MESSAGE = format('relation "pgmq.%s" does not exist', pgmq.format_table_name(queue_name, 'q'));
    END IF;
END $$;
COMMENT ON FUNCTION pgmq.create_fifo_index IS 'Does nothing: the messages of all queues are in one table, whose indexes belong to pgq_ext.';

CREATE FUNCTION pgmq._create_fifo_index_if_not_exists(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq.create_fifo_index(queue_name) $$;
COMMENT ON FUNCTION pgmq._create_fifo_index_if_not_exists IS 'As pgmq.create_fifo_index.';

CREATE FUNCTION pgmq.create_fifo_indexes_all() RETURNS void
LANGUAGE sql AS $$ SELECT pgmq.create_fifo_index(m.queue_name) FROM pgmq.meta m $$;
COMMENT ON FUNCTION pgmq.create_fifo_indexes_all IS 'Does nothing, as pgmq.create_fifo_index.';

CREATE FUNCTION pgmq.convert_archive_partitioned(
    table_name text, partition_interval text DEFAULT '10000', retention_interval text DEFAULT '100000', leading_partition integer DEFAULT 10) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE feature_not_supported USING MESSAGE = 'archives are not partitioned by this extension',
        HINT = 'Partition the table ' || quote_ident(pgmq.format_table_name(table_name, 'a')) || ' with SQL or pg_partman: it belongs to you.';
END $$;
COMMENT ON FUNCTION pgmq.convert_archive_partitioned IS 'Raises an error: partition the table of the archive yourself.';
