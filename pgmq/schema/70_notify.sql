-- ---- NOTIFY when a message is inserted ----

-- The functions that insert messages call this one, with the rights of the owner. As in the original, a queue with a
-- throttle has one row that each sender updates until its commit, and the notification comes with the commit.
CREATE FUNCTION pgmq._notify(view oid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    relation text := (SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = view);
    queue text;
BEGIN
    FOR queue IN UPDATE pgmq.notify_insert_throttle t SET last_notified_at = clock_timestamp()
        WHERE lower(t.queue_name::text) = substr(relation, 3)
            AND (t.throttle_interval_ms = 0 OR t.last_notified_at <= clock_timestamp() - t.throttle_interval_ms * interval '1 ms')
        RETURNING t.queue_name LOOP
        PERFORM pg_notify('pgmq.q_' || queue || '.INSERT', NULL);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION pgmq._notify(oid) FROM PUBLIC;
COMMENT ON FUNCTION pgmq._notify IS 'Internal: sends the notification of an insert, unless one was sent less than throttle_interval_ms ago.';

CREATE FUNCTION pgmq.notify_queue_listeners() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
COMMENT ON FUNCTION pgmq.notify_queue_listeners IS 'Does nothing: the functions that insert messages send the notifications. The original has a trigger that calls a function of this name.';

CREATE FUNCTION pgmq.disable_notify_insert(queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF queue_name IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'queue_name must not be null';
    END IF;
    DELETE FROM pgmq.notify_insert_throttle t WHERE t.queue_name = disable_notify_insert.queue_name;
END $$;
COMMENT ON FUNCTION pgmq.disable_notify_insert IS 'Ends the notifications of a queue.';

CREATE FUNCTION pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer DEFAULT 250) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF throttle_interval_ms < 0 THEN
        RAISE EXCEPTION 'throttle_interval_ms must be non-negative';
    END IF;
    PERFORM pgmq._keep_queue(queue_name);
    IF queue_name IS NULL OR to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, 'q'))) IS NULL THEN
        RAISE EXCEPTION 'Queue "%" does not exist. Create it first using pgmq.create()', queue_name;
    ELSIF octet_length('pgmq.q_' || queue_name || '.INSERT') > 63 THEN
        RAISE name_too_long USING MESSAGE = 'queue name is too long for notifications',
            DETAIL = format('The name of the channel, %s, would have more than 63 bytes.', quote_literal('pgmq.q_' || queue_name || '.INSERT'));
    END IF;
    PERFORM pgmq.disable_notify_insert(queue_name);
    INSERT INTO pgmq.notify_insert_throttle (queue_name, throttle_interval_ms) VALUES ($1, $2);
END $$;
COMMENT ON FUNCTION pgmq.enable_notify_insert IS
'From now on each insert into the queue sends NOTIFY on the channel pgmq.q_NAME.INSERT, where NAME is spelled as in this call; at most one notification in throttle_interval_ms (0: no limit).';

CREATE FUNCTION pgmq.update_notify_insert(queue_name text, throttle_interval_ms integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF throttle_interval_ms < 0 THEN
        RAISE EXCEPTION 'throttle_interval_ms must be non-negative, got: %', throttle_interval_ms;
    ELSIF NOT EXISTS (SELECT FROM pgmq.meta m WHERE m.queue_name = $1) THEN
        RAISE EXCEPTION 'Queue "%" does not exist. Create the queue first using pgmq.create()', queue_name;
    END IF;
    UPDATE pgmq.notify_insert_throttle t SET throttle_interval_ms = $2, last_notified_at = to_timestamp(0) WHERE t.queue_name = $1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Queue "%" does not have notify_insert enabled. Enable it first using pgmq.enable_notify_insert()', queue_name;
    END IF;
END $$;
COMMENT ON FUNCTION pgmq.update_notify_insert IS 'Changes throttle_interval_ms of a queue.';

CREATE FUNCTION pgmq.list_notify_insert_throttles() RETURNS TABLE (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT t.queue_name::text, t.throttle_interval_ms, t.last_notified_at FROM pgmq.notify_insert_throttle t ORDER BY 1
$$;
COMMENT ON FUNCTION pgmq.list_notify_insert_throttles IS 'The queues that send notifications.';
