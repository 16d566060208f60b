-- ---- names, and functions for this extension itself ----

CREATE FUNCTION pgmq.format_table_name(queue_name text, prefix text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF queue_name ~ '[$;'']' OR strpos(queue_name, '--') > 0 THEN
        RAISE EXCEPTION 'queue name contains invalid characters: $, ;, --, or \''';
    END IF;
    -- The library finds the view with the same collation.
    RETURN lower((prefix || '_' || queue_name) COLLATE "default");
END $$;
COMMENT ON FUNCTION pgmq.format_table_name IS
'The name of the view (prefix q) or of the archive (prefix a) of a queue. Raises an error for names with $, ; '' or --.';

CREATE FUNCTION pgmq.validate_queue_name(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF char_length(queue_name) >= 48 THEN
        RAISE EXCEPTION 'queue name is too long, maximum length is 47 characters';
    END IF;
END $$;
COMMENT ON FUNCTION pgmq.validate_queue_name IS 'Raises an error if the name has more than 47 characters.';

-- Names that lead to the same view share a lock. _keep_queue takes any name, so it does not call format_table_name.
CREATE FUNCTION pgmq.acquire_queue_lock(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_catalog.pg_advisory_xact_lock(hashtext('pgmq.queue_' || pgmq.format_table_name(queue_name, 'q'))) $$;
COMMENT ON FUNCTION pgmq.acquire_queue_lock IS
'Locks the name of a queue until the transaction ends, so that no other transaction creates or drops that queue.';

CREATE FUNCTION pgmq._keep_queue(queue_name text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_catalog.pg_advisory_xact_lock_shared(hashtext('pgmq.queue_' || lower(('q_' || queue_name) COLLATE "default"))) $$;
COMMENT ON FUNCTION pgmq._keep_queue IS
'Internal: waits until no other transaction is creating or dropping the queue, and keeps others from it until the transaction ends.';

CREATE FUNCTION pgmq._extension_exists(extension_name text) RETURNS boolean
LANGUAGE sql AS $$ SELECT count(*) > 0 FROM pg_catalog.pg_extension e WHERE e.extname = $1 $$;
COMMENT ON FUNCTION pgmq._extension_exists IS 'Internal: whether the database has that extension.';

CREATE FUNCTION pgmq._belongs_to_pgmq(table_name text) RETURNS boolean
LANGUAGE sql AS $$
    SELECT count(*) > 0
    FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_class c ON c.oid = d.objid AND d.classid = 'pg_catalog.pg_class'::regclass
    JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_catalog.pg_extension'::regclass
    WHERE e.extname = 'pgmq' AND c.relname = $1
$$;
COMMENT ON FUNCTION pgmq._belongs_to_pgmq IS 'Internal: whether a table of that name is a member of the extension.';
