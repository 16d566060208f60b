-- ---- from the original pgmq to this one ----

CREATE FUNCTION pgmq._adopt(
    view regclass, msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz,
    message jsonb, headers jsonb) RETURNS void
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_adopt';
REVOKE ALL ON FUNCTION pgmq._adopt FROM PUBLIC;
COMMENT ON FUNCTION pgmq._adopt IS 'Internal: inserts a message with the id that it has.';

-- The types are exact, so no cast, operator or function of the table's owner runs with the rights of the caller of adopt().
CREATE FUNCTION pgmq._is_left_queue(relation oid) RETURNS boolean
LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition)
        AND (SELECT count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1 AND NOT a.attisdropped
             AND a.atttypid = CASE WHEN a.attname = 'msg_id' THEN 'bigint'::regtype
                                   WHEN a.attname = 'read_ct' THEN 'integer'::regtype
                                   WHEN a.attname IN ('enqueued_at', 'last_read_at', 'vt') THEN 'timestamptz'::regtype
                                   WHEN a.attname IN ('message', 'headers') THEN 'jsonb'::regtype END) = 7
$$;
COMMENT ON FUNCTION pgmq._is_left_queue IS 'Internal: whether a relation is a table with the columns of a table q_NAME of the original pgmq.';

CREATE FUNCTION pgmq._adopt_table(queue_name text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    name text := pgmq.format_table_name(queue_name, 'q');
    archive text := pgmq.format_table_name(queue_name, 'a');
    old_name text := pgmq.format_table_name(queue_name, 'old');
    old pg_catalog.pg_class;
    old_sequence text;
    new_sequence text;
    owner_name text;
    adopted bigint;
    privilege record;
BEGIN
    -- Steps: make room for the view, create the queue, go on with the ids, insert the messages, give the same rights and the
    -- same owner, and drop the table.
    PERFORM pgmq.acquire_queue_lock(queue_name);
    EXECUTE format('LOCK TABLE pgmq.%I IN ACCESS EXCLUSIVE MODE', name);
    SELECT * INTO old FROM pg_catalog.pg_class c WHERE c.oid = to_regclass(format('pgmq.%I', name));
    -- The owner may have changed the table while this transaction waited for the lock.
    IF NOT COALESCE(pgmq._is_left_queue(old.oid), false) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" does not have the columns of a queue', name);
    END IF;
    owner_name := pg_catalog.pg_get_userbyid(old.relowner);
    EXECUTE format('ALTER TABLE pgmq.%I RENAME TO %I', name, old_name);
    old_sequence := pg_catalog.pg_get_serial_sequence(format('pgmq.%I', old_name), 'msg_id');
    IF to_regclass(format('pgmq.%I', name || '_msg_id_seq')) IS NOT NULL THEN
        EXECUTE format('ALTER SEQUENCE pgmq.%I RENAME TO %I', name || '_msg_id_seq', old_name || '_msg_id_seq');
        old_sequence := pg_catalog.pg_get_serial_sequence(format('pgmq.%I', old_name), 'msg_id');
    END IF;
    PERFORM pgmq._make_queue(queue_name, old.relkind = 'p', old.relpersistence = 'u', current_user::regrole::oid);
    -- Nothing else finds a message with the same id.
    IF EXISTS (SELECT FROM pgq_ext.job j WHERE j.queue_id = (SELECT s.queue_id FROM pgmq.queue_slot s WHERE s.view = to_regclass(format('pgmq.%I', name)))) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('the queue of pgq_ext for "%s" has messages already', queue_name),
            HINT = 'They were left when this extension was dropped. Drop that queue with pgq_drop_queue().';
    END IF;
    new_sequence := (SELECT s.sequence FROM pgmq.queue_slot s WHERE s.view = to_regclass(format('pgmq.%I', name)));
    EXECUTE format('SELECT setval(%L, last_value, is_called) FROM %s', new_sequence, old_sequence);
    EXECUTE format('SELECT count(pgmq._adopt(%L::regclass, o.msg_id, o.read_ct, o.enqueued_at, o.last_read_at, o.vt, o.message, o.headers)::text) FROM (SELECT * FROM pgmq.%I ORDER BY msg_id) o',
                   format('pgmq.%I', name), old_name) INTO adopted;
    IF to_regclass(format('pgmq.%I', archive)) IS NULL THEN
        PERFORM pgmq._create_archive(queue_name);
        EXECUTE format('ALTER TABLE pgmq.%I OWNER TO %I', archive, owner_name);
    END IF;
    FOR privilege IN SELECT a.privilege_type AS what, a.is_grantable AS further, COALESCE(quote_ident(r.rolname), 'PUBLIC') AS role
        FROM aclexplode(old.relacl) a LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE a.grantee <> old.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') LOOP
        EXECUTE format('GRANT %s ON pgmq.%I TO %s%s', privilege.what, name, privilege.role, CASE WHEN privilege.further THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    PERFORM pgmq._give(name, (SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = new_sequence::regclass)::text, owner_name);
    IF old.relkind = 'p' AND pgmq._extension_exists('pg_partman') THEN
        EXECUTE format('DELETE FROM %I.part_config WHERE parent_table = %L', (pgmq._partman()).schema_name, 'pgmq.' || name);
    END IF;
    EXECUTE format('DROP TABLE pgmq.%I', old_name);
    RETURN adopted;
END $$;
REVOKE ALL ON FUNCTION pgmq._adopt_table FROM PUBLIC;
COMMENT ON FUNCTION pgmq._adopt_table IS 'Internal: makes a table q_NAME of the original pgmq a queue of this one.';

CREATE FUNCTION pgmq.adopt(queue_name text DEFAULT NULL) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql AS $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT substr(c.relname, 3) FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'pgmq'::regnamespace AND c.relname LIKE 'q\_%'
            AND (adopt.queue_name IS NULL OR c.relname = pgmq.format_table_name(adopt.queue_name, 'q'))
            AND pgmq._is_left_queue(c.oid)
        ORDER BY 1 LOOP
        queue := COALESCE(adopt.queue_name, one);
        messages := pgmq._adopt_table(queue);
        RETURN NEXT;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION pgmq.adopt FROM PUBLIC;
COMMENT ON FUNCTION pgmq.adopt IS
'Takes over the tables that the original pgmq leaves after DROP EXTENSION: each table q_NAME becomes a queue with the same messages, ids, times and rights, and the table is dropped. Archives stay as they are. queue_name: only this queue, with this spelling of its name. Returns the queues, and how many messages each has.';
