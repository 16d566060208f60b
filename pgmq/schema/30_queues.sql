-- ---- queues ----

CREATE FUNCTION pgmq._row() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_row';
COMMENT ON FUNCTION pgmq._row() IS 'Internal: makes INSERT, UPDATE and DELETE on the view of a queue send, change and end messages.';

CREATE FUNCTION pgmq._lease(job_id bigint, OUT read_ct integer, OUT last_read_at timestamptz, OUT vt timestamptz) RETURNS record
LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'pgq_mq_lease';
COMMENT ON FUNCTION pgmq._lease IS 'Internal: the columns of a message that its lease decides, for the view of its queue. NULL if the message is not being read, or if the caller may not read the view.';

CREATE FUNCTION pgmq._last_read(fence bigint) RETURNS timestamptz
LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1 AS 'MODULE_PATHNAME', 'pgq_mq_last_read';
COMMENT ON FUNCTION pgmq._last_read IS 'Internal: the time of the last lease of a message, from the fence of its job.';

-- ---- the messages of all queues ----

CREATE FUNCTION pgmq._may_read(job_id bigint, column_name text DEFAULT NULL) RETURNS boolean
LANGUAGE c VOLATILE COST 1 AS 'MODULE_PATHNAME', 'pgq_mq_may_read';
COMMENT ON FUNCTION pgmq._may_read IS 'Internal: whether the caller has SELECT on that column of the view of the message''s queue, or on any column.';

-- The views of all queues read this one, and so do functions. It shows a caller the messages of those queues only whose
-- view the caller may read, so everybody may read it, and the owner of q_NAME needs no right to pgq_ext.job. Its rows are
-- filtered before a function of the caller can look at them (security_barrier).
-- The types of all arguments are exact: another role may have left functions of these names in the schema.
CREATE VIEW pgmq._message WITH (security_barrier) AS
    SELECT j.job_id, j.queue_id, j.job_id % 1099511627776 AS msg_id, COALESCE((j.lease).read_ct, j.attempts) AS read_ct, j.enqueued_at,
           COALESCE((j.lease).last_read_at, CASE WHEN j.attempts > 0 THEN pgmq._last_read(j.fence) END) AS last_read_at,
           COALESCE((j.lease).vt, j.run_at) AS vt,
           CASE WHEN j.progress IS NULL AND pgmq._may_read(j.job_id, 'message'::text) THEN j.payload END AS message,
           CASE WHEN pgmq._may_read(j.job_id, 'headers'::text) THEN j.headers END AS headers
    FROM (SELECT *, pgmq._lease(job_id) AS lease FROM pgq_ext.job) j
    WHERE j.job_id >= 1099511627776 AND pgmq._may_read(j.job_id, NULL::text);
COMMENT ON VIEW pgmq._message IS 'Internal: the messages of all queues that the caller may read.';
GRANT SELECT ON pgmq._message TO PUBLIC;
-- FOR UPDATE needs the right to UPDATE, which the owners of queues get. Nothing can be changed through this view.
CREATE TRIGGER pgmq_row INSTEAD OF INSERT OR UPDATE OR DELETE ON pgmq._message FOR EACH ROW EXECUTE FUNCTION pgmq._row();

CREATE FUNCTION pgmq._queue(queue_name text, OUT queue_id integer, OUT sequence regclass) RETURNS record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_queue';
COMMENT ON FUNCTION pgmq._queue IS 'Internal: the queue of pgq_ext and the sequence of a queue. Raises an error if there is no such queue, or if the caller may not read its view.';

-- ---- creating queues ----

-- A transaction locks the slot that it takes, so that no other transaction takes the slot before the commit. A lock of the
-- table would let create() and drop_queue() wait for each other. Slots of other queues are passed over without a lock, since
-- the server has room for a limited number of locks. The look after the lock sees what was committed before it.
CREATE FUNCTION pgmq._free_slot() RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    candidate integer;
BEGIN
    FOR i IN 1 .. 8191 LOOP
        candidate := nextval('pgmq.next_slot');
        CONTINUE WHEN EXISTS (SELECT FROM pgmq.queue_slot s WHERE s.slot = candidate)
            OR EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id >= candidate * 1099511627776 AND j.job_id < (candidate + 1) * 1099511627776);
        CONTINUE WHEN NOT pg_try_advisory_xact_lock('pgmq.queue_slot'::regclass::oid::integer, candidate);
        IF NOT EXISTS (SELECT FROM pgmq.queue_slot s WHERE s.slot = candidate) THEN
            RETURN candidate;
        END IF;
    END LOOP;
    RAISE configuration_limit_exceeded USING MESSAGE = 'too many queues', HINT = 'A database can have 8191 queues. Drop queues that nobody uses.';
END $$;
REVOKE ALL ON FUNCTION pgmq._free_slot FROM PUBLIC;
COMMENT ON FUNCTION pgmq._free_slot IS 'Internal: a slot that no queue has, and of which no message is left.';

-- If the archive exists, it is kept.
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
END $$;
COMMENT ON FUNCTION pgmq._create_archive IS 'Internal: creates the table for archived messages of a queue.';

-- The name of the queue of pgq_ext is only for people: the table queue_slot has its id.
CREATE FUNCTION pgmq._engine_name(queue_name text, slot integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(queue_name) <= 54 AND queue_name !~ '[[:space:][:cntrl:]]' THEN 'pgmq.' || lower(queue_name)
                ELSE 'pgmq.slot-' || slot END
$$;
COMMENT ON FUNCTION pgmq._engine_name IS 'Internal: the name of the queue of pgq_ext for a new queue.';

CREATE FUNCTION pgmq._make_jobs(engine_name text) RETURNS integer
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgq_mq_make_jobs';
REVOKE ALL ON FUNCTION pgmq._make_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgmq._make_jobs IS 'Internal: creates the queue of pgq_ext for a new queue, unless it exists, and returns its id.';

CREATE FUNCTION pgmq._give(view_name text, sequence_name text, owner_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER VIEW pgmq.%I OWNER TO %I', view_name, owner_name);
    EXECUTE format('GRANT SELECT ON SEQUENCE pgmq.%I TO %I', sequence_name, owner_name);
    -- A second GRANT would wait for other transactions that create queues: each one writes the same row of pg_class. The lock
    -- lets the first GRANTs of several roles follow each other.
    IF NOT EXISTS (SELECT FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
                   WHERE c.oid = 'pgmq._message'::regclass AND a.grantee = to_regrole(quote_ident(owner_name)) AND a.privilege_type = 'UPDATE') THEN
        PERFORM pg_advisory_xact_lock('pgmq.queue_slot'::regclass::oid::integer, 0);
        EXECUTE format('GRANT UPDATE ON pgmq._message TO %I', owner_name);
    END IF;
END $$;
REVOKE ALL ON FUNCTION pgmq._give FROM PUBLIC;
COMMENT ON FUNCTION pgmq._give IS 'Internal: makes a role the owner of the view of a queue. The sequence stays with the owner of the extension, so that no id is given out twice.';

-- The functions _make_queue and _drop_queue run with the rights of the owner of pgq_ext. They are called only by _new_queue
-- and _end_queue, which tell them their caller. So a role that creates queues needs CREATE on the schema, as with the
-- original, but no right to the tables of pgq_ext.
CREATE FUNCTION pgmq._make_queue(queue_name text, partitioned boolean, unlogged boolean, creator oid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    view_name text := pgmq.format_table_name(queue_name, 'q'::text);
    sequence_name text := view_name || '_msg_id_seq'::text;
    owner_name text := pg_catalog.pg_get_userbyid(creator);
    slot integer;
    old_slot integer;
    engine_name text;
    id integer;
    last_job bigint;
    grantee text;
BEGIN
    IF NOT has_schema_privilege(creator, 'pgmq', 'CREATE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for schema pgmq',
            HINT = format('GRANT USAGE, CREATE ON SCHEMA pgmq TO %I lets the role create queues.', owner_name);
    END IF;
    IF to_regclass(format('pgmq.%I', view_name)) IS NULL THEN
        -- Steps: a slot, the queue of pgq_ext, the sequence, the view, and its owner.
        IF EXISTS (SELECT FROM pg_sequence WHERE seqrelid = to_regclass('pgq_ext.job_id_seq') AND seqincrement > 1) THEN
            RAISE feature_not_supported USING MESSAGE = 'pgmq cannot be used in a database with a shard number',
                HINT = 'Use a database in which pgq_set_shard() was not called.';
        END IF;
        slot := pgmq._free_slot();
        engine_name := pgmq._engine_name(queue_name, slot);
        -- If SQL has dropped the view, its queue and messages are still there. Go on with them, and with the slot.
        DELETE FROM pgmq.queue_slot s USING pgq_ext.queue q
        WHERE q.queue = engine_name AND s.queue_id = q.queue_id AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.view)
        RETURNING s.slot INTO old_slot;
        -- A queue whose view was renamed keeps these names.
        IF EXISTS (SELECT FROM pgq_ext.queue q JOIN pgmq.queue_slot s USING (queue_id) WHERE q.queue = engine_name) THEN
            engine_name := 'pgmq.slot-' || slot;
        END IF;
        id := pgmq._make_jobs(engine_name);
        -- DROP EXTENSION has left the messages, as with the original. Keep them.
        SELECT max(j.job_id) INTO last_job FROM pgq_ext.job j WHERE j.queue_id = id;
        IF last_job < 1099511627776 THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('queue "%s" of pgq_ext has jobs that are not messages', engine_name),
                HINT = 'Rename that queue with pgq_rename_queue().';
        END IF;
        -- A role that may create queues of pgq_ext may have made this one, to get the messages with its handler.
        IF EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = id AND q.max_attempts < 2147483647)
            OR EXISTS (SELECT FROM pgq_ext.queue_handler h WHERE h.queue_id = id) THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('queue "%s" of pgq_ext is not a queue of messages', engine_name),
                HINT = 'Rename that queue with pgq_rename_queue(), or drop its handler and set its max_attempts to 2147483647.';
        END IF;
        -- These messages belong to the owner of the archive.
        IF last_job IS NOT NULL AND NOT pg_has_role(creator, current_user, 'USAGE') AND NOT EXISTS (
            SELECT FROM pg_class c WHERE c.oid = to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, 'a'::text)))
                AND pg_has_role(creator, c.relowner, 'USAGE')) THEN
            RAISE insufficient_privilege USING MESSAGE = format('queue "%s" of pgq_ext has messages of another role', engine_name),
                HINT = 'Only a superuser, or the owner of the archive of these messages, can create the queue again.';
        END IF;
        slot := COALESCE(last_job / 1099511627776, old_slot, slot);
        IF octet_length(sequence_name) > 63 OR EXISTS (SELECT FROM pgmq.queue_slot s WHERE s.sequence = to_regclass(format('pgmq.%I', sequence_name))) THEN
            sequence_name := 'q_slot_' || slot || '_msg_id_seq';
        END IF;
        -- DROP EXTENSION has left the sequence, too. Another role may also have created a sequence with this name.
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS pgmq.%I', sequence_name);
        EXECUTE format('ALTER SEQUENCE pgmq.%I AS bigint INCREMENT 1 MINVALUE 1 MAXVALUE 1099511627775 CACHE 1 NO CYCLE OWNED BY NONE', sequence_name);
        EXECUTE format('ALTER SEQUENCE pgmq.%I SET LOGGED', sequence_name);
        -- The role that has made it may have granted privileges on it, with which other roles could set the ids back.
        FOR grantee IN SELECT DISTINCT COALESCE(quote_ident(r.rolname), 'PUBLIC') FROM pg_class c CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
            WHERE c.oid = to_regclass(format('pgmq.%I', sequence_name)) AND pg_get_userbyid(c.relowner) <> current_user AND a.grantee <> c.relowner LOOP
            EXECUTE format('REVOKE ALL ON SEQUENCE pgmq.%I FROM %s CASCADE', sequence_name, grantee);
        END LOOP;
        EXECUTE format('ALTER SEQUENCE pgmq.%I OWNER TO %I', sequence_name, current_user);
        IF last_job IS NOT NULL THEN
            EXECUTE format('SELECT setval(%L, greatest(last_value, $1)) FROM pgmq.%I', format('pgmq.%I', sequence_name), sequence_name)
                USING last_job % 1099511627776;
        END IF;
        EXECUTE format('CREATE VIEW pgmq.%I AS SELECT msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers FROM pgmq._message WHERE queue_id = %s',
                       view_name, id);
        EXECUTE format('ALTER VIEW pgmq.%I ALTER COLUMN read_ct SET DEFAULT 0, ALTER COLUMN enqueued_at SET DEFAULT now()', view_name);
        EXECUTE format('CREATE TRIGGER pgmq_row INSTEAD OF INSERT OR UPDATE OR DELETE ON pgmq.%I FOR EACH ROW EXECUTE FUNCTION pgmq._row()', view_name);
        EXECUTE format('COMMENT ON VIEW pgmq.%I IS %L', view_name, 'Messages of the queue, which are jobs of pgq_ext. INSERT, UPDATE and DELETE work as on a table.');
        EXECUTE format('GRANT SELECT (vt, enqueued_at) ON pgmq.%I TO pg_monitor', view_name);
        EXECUTE format('GRANT SELECT ON SEQUENCE pgmq.%I TO pg_monitor', sequence_name);
        PERFORM pgmq._give(view_name, sequence_name, owner_name);
        INSERT INTO pgmq.queue_slot VALUES (to_regclass(format('pgmq.%I', view_name)), slot, id, to_regclass(format('pgmq.%I', sequence_name)));
    END IF;
    INSERT INTO pgmq.meta (queue_name, is_partitioned, is_unlogged) VALUES (_make_queue.queue_name, partitioned, unlogged) ON CONFLICT DO NOTHING;
END $$;
REVOKE ALL ON FUNCTION pgmq._make_queue FROM PUBLIC;
COMMENT ON FUNCTION pgmq._make_queue IS 'Internal: creates the queue of pgq_ext, the view and the sequence of a queue, unless they exist. The view belongs to the creator.';

CREATE FUNCTION pgmq._new_queue(queue_name text, partitioned boolean, unlogged boolean) RETURNS void
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_new_queue';
COMMENT ON FUNCTION pgmq._new_queue IS 'Internal: pgmq._make_queue for the caller, who needs CREATE on the schema pgmq.';

CREATE FUNCTION pgmq._create(queue_name text, partitioned boolean, unlogged boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.validate_queue_name(queue_name);
    PERFORM pgmq.acquire_queue_lock(queue_name);
    PERFORM pgmq._new_queue(queue_name, partitioned, unlogged);
    IF NOT partitioned THEN
        PERFORM pgmq._create_archive(queue_name);
    END IF;
END $$;
COMMENT ON FUNCTION pgmq._create IS 'Internal: creates a queue, and its archive unless that is to be partitioned.';

CREATE FUNCTION pgmq.create_non_partitioned(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, false) $$;
COMMENT ON FUNCTION pgmq.create_non_partitioned IS 'Creates a queue, or does nothing if there is one of that name.';

CREATE FUNCTION pgmq."create"(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, false) $$;
COMMENT ON FUNCTION pgmq."create" IS 'Creates a queue, or does nothing if there is one of that name.';

CREATE FUNCTION pgmq.create_unlogged(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pgmq._create(queue_name, false, true) $$;
COMMENT ON FUNCTION pgmq.create_unlogged IS 'As pgmq.create. Messages are logged, and survive a crash.';

-- ---- dropping queues ----

CREATE FUNCTION pgmq._drop_jobs(queue_id integer) RETURNS boolean
LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgq_mq_drop_jobs';
REVOKE ALL ON FUNCTION pgmq._drop_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgmq._drop_jobs IS 'Internal: drops the queue of pgq_ext with all messages. Returns false if there is none.';

CREATE FUNCTION pgmq._drop_queue(queue_name text, caller oid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    view_name text := pgmq.format_table_name(queue_name, 'q'::text);
    its_view regclass := to_regclass(format('pgmq.%I', view_name));
    queue pgmq.queue_slot;
BEGIN
    IF its_view IS NULL THEN
        RETURN false;
    ELSIF NOT (SELECT pg_has_role(caller, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = its_view) THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of view %s', view_name);
    END IF;
    SELECT * INTO queue FROM pgmq.queue_slot s WHERE s.view = its_view;
    IF queue.view IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('relation "%s" is not a queue', view_name),
            HINT = 'A table that the original pgmq has left becomes a queue by pgmq.adopt().';
    END IF;
    -- No trigger of a foreign key fires here: see as_owner() of the library.
    PERFORM pgmq._drop_jobs(queue.queue_id);
    DELETE FROM pgmq.queue_slot s WHERE s.view = its_view;
    DELETE FROM pgmq.topic_bindings b WHERE pgmq.format_table_name(b.queue_name, 'q'::text) = view_name;
    DELETE FROM pgmq.notify_insert_throttle t WHERE pgmq.format_table_name(t.queue_name::text, 'q'::text) = view_name;
    DELETE FROM pgmq.meta m WHERE pgmq.format_table_name(m.queue_name::text, 'q'::text) = view_name;
    EXECUTE format('DROP VIEW %s', its_view);
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = queue.sequence) THEN
        EXECUTE format('DROP SEQUENCE %s', queue.sequence);
    END IF;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION pgmq._drop_queue FROM PUBLIC;
COMMENT ON FUNCTION pgmq._drop_queue IS 'Internal: drops a queue without its archive. The caller must own the view. Returns false if there is no such queue.';

CREATE FUNCTION pgmq._end_queue(queue_name text) RETURNS boolean
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_end_queue';
COMMENT ON FUNCTION pgmq._end_queue IS 'Internal: pgmq._drop_queue for the caller.';

CREATE FUNCTION pgmq.drop_queue(queue_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    archive text := pgmq.format_table_name(queue_name, 'a');
BEGIN
    PERFORM pgmq.acquire_queue_lock(queue_name);
    IF queue_name IS NULL OR NOT pgmq._end_queue(queue_name) THEN
        RAISE NOTICE 'pgmq queue `%` does not exist', queue_name;
        RETURN false;
    END IF;
    PERFORM pgmq._forget_partitions(archive);
    EXECUTE format('DROP TABLE IF EXISTS pgmq.%I', archive);
    RETURN true;
END $$;
COMMENT ON FUNCTION pgmq.drop_queue(text) IS 'Drops the queue, its messages and its archive. Returns false, with a NOTICE, if there is no such queue. Only the owner of the view and of the archive may do that.';

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
    queue integer := (pgmq._queue(queue_name)).queue_id;
BEGIN
    RETURN (SELECT count(*) FROM pgmq.delete($1, ARRAY(SELECT m.msg_id FROM pgmq._message m WHERE m.queue_id = queue)));
END $$;
COMMENT ON FUNCTION pgmq.purge_queue IS 'Deletes all messages of the queue, also those that are being read, and returns their number.';

CREATE FUNCTION pgmq.list_queues() RETURNS SETOF pgmq.queue_record
LANGUAGE sql AS $$ SELECT m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at FROM pgmq.meta m $$;
COMMENT ON FUNCTION pgmq.list_queues IS 'The rows of pgmq.meta.';

CREATE FUNCTION pgmq.metrics(queue_name text) RETURNS pgmq.metrics_result
LANGUAGE plpgsql AS $$
DECLARE
    queue record := pgmq._queue(queue_name);
    result pgmq.metrics_result;
BEGIN
    -- Without a privilege, pg_sequence_last_value() returns NULL with newer versions of PostgreSQL.
    IF NOT has_sequence_privilege(queue.sequence, 'USAGE, SELECT') THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for sequence %s', queue.sequence);
    END IF;
    SELECT $1, count(*), extract(epoch FROM now() - max(m.enqueued_at))::integer, extract(epoch FROM now() - min(m.enqueued_at))::integer,
           COALESCE(pg_sequence_last_value(queue.sequence), 0), now(), count(*) FILTER (WHERE m.vt <= now()),
           pgmq._default_partition_length(pgmq.format_table_name($1, 'a'))
    INTO result FROM pgmq._message m WHERE m.queue_id = queue.queue_id;
    RETURN result;
END $$;
COMMENT ON FUNCTION pgmq.metrics IS 'Numbers of one queue. Reads all its messages.';

CREATE FUNCTION pgmq.metrics_all() RETURNS SETOF pgmq.metrics_result
LANGUAGE sql AS $$ SELECT r.* FROM pgmq.meta m CROSS JOIN LATERAL pgmq.metrics(m.queue_name::text) r $$;
COMMENT ON FUNCTION pgmq.metrics_all IS 'Numbers of all queues. Reads all messages.';

CREATE FUNCTION pgmq.detach_archive(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.format_table_name(queue_name, 'a');
    RAISE WARNING 'detach_archive(queue_name) is deprecated and is a no-op. It will be removed in PGMQ v2.0. Archive tables are no longer member objects.';
END $$;
COMMENT ON FUNCTION pgmq.detach_archive IS 'Does nothing, and emits a WARNING.';

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
LANGUAGE sql AS $$ SELECT pgmq.create_fifo_index(m.queue_name::text) FROM pgmq.meta m $$;
COMMENT ON FUNCTION pgmq.create_fifo_indexes_all IS 'Does nothing, as pgmq.create_fifo_index.';
