-- ---- groups: the header x-pgmq-group names the group of a message ----

-- A group can be read if the first of all its messages can be read.
-- The groups stay locked until the transaction ends, so that two sessions do not read messages of one group at the same
-- time. The caller then chooses messages with a later snapshot, which sees what the session that held the lock before has
-- read. The function locks only as many groups as qty messages need. With "group", all messages of a group that can be read
-- are counted, and otherwise one.
CREATE FUNCTION pgmq._lock_groups(queue_name text, qty integer, by text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    queue integer := (pgmq._queue(queue_name)).queue_id;
    locked text[] := '{}';
    n bigint := 0;
    head record;
BEGIN
    FOR head IN
        SELECT g.name, g.readable FROM (
            SELECT DISTINCT ON (m.name) m.name, m.msg_id, m.visible, count(*) FILTER (WHERE m.visible) OVER (PARTITION BY m.name) AS readable
            FROM (SELECT COALESCE(headers ->> 'x-pgmq-group', '_default_fifo_group') AS name, msg_id, vt <= clock_timestamp() AS visible
                  FROM pgmq._message WHERE queue_id = queue) m
            ORDER BY m.name, m.msg_id
        ) g WHERE g.visible ORDER BY g.msg_id LOOP
        EXIT WHEN n >= qty;
        IF pg_try_advisory_xact_lock(hashtextextended(head.name, queue)) THEN
            locked := locked || head.name;
            n := n + CASE WHEN by = 'group' THEN head.readable ELSE 1 END;
        END IF;
    END LOOP;
    RETURN locked;
END $$;
COMMENT ON FUNCTION pgmq._lock_groups IS 'Internal: locks groups whose first message can be read, in the order of these messages, and returns their names.';

-- by: how messages are chosen from the groups that can be read: "group" (all of the first group, then of the next one),
-- "round" (the first of each group, then the second ones), or "head" (the first of each group).
CREATE FUNCTION pgmq._read_groups(queue_name text, vt integer, qty integer, by text) RETURNS SETOF pgmq.message_record
LANGUAGE plpgsql AS $$
DECLARE
    queue integer := (pgmq._queue(queue_name)).queue_id;
    groups text[] := pgmq._lock_groups(queue_name, qty, by);
    chosen bigint[];
BEGIN
    IF by = 'head' AND qty < 0 THEN
        RAISE invalid_row_count_in_limit_clause USING MESSAGE = 'qty must not be negative';
    END IF;
    IF cardinality(groups) = 0 THEN
        RETURN;
    END IF;
    WITH message AS (
        SELECT m.msg_id, m.vt <= clock_timestamp() AS visible, COALESCE(m.headers ->> 'x-pgmq-group', '_default_fifo_group') AS name
        FROM pgmq._message m WHERE m.queue_id = queue
    ), ranked AS (
        SELECT m.*, min(m.msg_id) OVER w AS head, count(*) FILTER (WHERE m.visible) OVER (w ORDER BY m.msg_id) AS rank
        FROM message m WHERE m.name = ANY (groups) WINDOW w AS (PARTITION BY m.name)
    )
    SELECT array_agg(c.msg_id ORDER BY c.n) INTO chosen FROM (
        SELECT r.msg_id, row_number() OVER (ORDER BY CASE WHEN by = 'round' THEN r.rank END, r.head, r.rank) AS n
        FROM ranked r JOIN ranked h ON h.msg_id = r.head AND h.visible
        WHERE r.visible AND (by <> 'head' OR r.msg_id = r.head)
        ORDER BY n LIMIT qty
    ) c;
    RETURN QUERY SELECT * FROM pgmq._read_by_id(queue_name, vt, chosen);
END $$;
COMMENT ON FUNCTION pgmq._read_groups IS 'Internal: the three ways of reading messages by groups.';

CREATE FUNCTION pgmq.read_grouped(queue_name text, vt integer, qty integer) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._read_groups(queue_name, vt, qty, 'group') $$;
COMMENT ON FUNCTION pgmq.read_grouped IS
'Reads at most qty messages, as many as possible of one group: all that can be read of the group with the smallest id, then of the next one. Leaves out a group with an earlier message that is being read.';
CREATE FUNCTION pgmq.read_grouped_rr(queue_name text, vt integer, qty integer) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._read_groups(queue_name, vt, qty, 'round') $$;
COMMENT ON FUNCTION pgmq.read_grouped_rr IS 'As pgmq.read_grouped, but in rounds: the first message of each group, then the second ones.';
CREATE FUNCTION pgmq.read_grouped_head(queue_name text, vt integer, qty integer) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._read_groups(queue_name, vt, qty, 'head') $$;
COMMENT ON FUNCTION pgmq.read_grouped_head IS 'Reads the first message of each of at most qty groups.';

CREATE FUNCTION pgmq._poll_groups(queue_name text, vt integer, qty integer, max_poll_seconds integer, poll_interval_ms integer, by text) RETURNS SETOF pgmq.message_record
LANGUAGE plpgsql AS $$
DECLARE
    over timestamptz := clock_timestamp() + max_poll_seconds * interval '1 s';
BEGIN
    WHILE COALESCE(clock_timestamp() < over, true) LOOP
        RETURN QUERY SELECT * FROM pgmq._read_groups(queue_name, vt, qty, by);
        EXIT WHEN FOUND;
        PERFORM pg_sleep(poll_interval_ms / 1000.0);
    END LOOP;
END $$;
COMMENT ON FUNCTION pgmq._poll_groups IS 'Internal: repeats pgmq._read_groups until there is a message or the time is over.';

CREATE FUNCTION pgmq.read_grouped_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer DEFAULT 5, poll_interval_ms integer DEFAULT 100) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'group') $$;
COMMENT ON FUNCTION pgmq.read_grouped_with_poll IS 'As pgmq.read_grouped, but waits for a message for at most max_poll_seconds.';
CREATE FUNCTION pgmq.read_grouped_rr_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer DEFAULT 5, poll_interval_ms integer DEFAULT 100) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'round') $$;
COMMENT ON FUNCTION pgmq.read_grouped_rr_with_poll IS 'As pgmq.read_grouped_rr, but waits for a message for at most max_poll_seconds.';
CREATE FUNCTION pgmq.read_grouped_head_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer DEFAULT 5, poll_interval_ms integer DEFAULT 100) RETURNS SETOF pgmq.message_record
LANGUAGE sql AS $$ SELECT * FROM pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'head') $$;
COMMENT ON FUNCTION pgmq.read_grouped_head_with_poll IS 'As pgmq.read_grouped_head, but waits for a message for at most max_poll_seconds.';
