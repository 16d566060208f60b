-- ---- sending ----

CREATE FUNCTION pgmq.send(queue_name text, msg jsonb) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send';
CREATE FUNCTION pgmq.send(queue_name text, msg jsonb, headers jsonb) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send_headers';
CREATE FUNCTION pgmq.send(queue_name text, msg jsonb, delay integer) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send_in';
CREATE FUNCTION pgmq.send(queue_name text, msg jsonb, delay timestamptz) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send_at';
CREATE FUNCTION pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send_headers_in';
CREATE FUNCTION pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) RETURNS SETOF bigint
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_send_headers_at';
COMMENT ON FUNCTION pgmq.send(text, jsonb, jsonb, timestamptz) IS
'Inserts a message and returns its id. delay: the time from which the message can be read, or a number of seconds from now. Needs INSERT on the view of the queue.';

CREATE FUNCTION pgmq._validate_batch_params(msgs jsonb[], headers jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    n integer := cardinality(msgs);
BEGIN
    IF COALESCE(n, 0) = 0 THEN
        RAISE EXCEPTION 'msgs cannot be NULL or empty';
    ELSIF headers IS NOT NULL AND cardinality(headers) <> n THEN
        RAISE EXCEPTION 'headers array length (%) must match msgs array length (%)', cardinality(headers), n;
    END IF;
END $$;
COMMENT ON FUNCTION pgmq._validate_batch_params IS 'Internal: checks the arrays of pgmq.send_batch_topic, as pgmq.send_batch does.';

CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[]) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch';
CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[]) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch_headers';
CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[], delay integer) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch_in';
CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch_at';
CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch_headers_in';
CREATE FUNCTION pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_send_batch_headers_at';
COMMENT ON FUNCTION pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) IS
'Inserts messages and returns their ids, in the order of the array. headers: NULL, or an array of the same length.';

-- ---- reading ----

CREATE FUNCTION pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb DEFAULT '{}') RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_read';
COMMENT ON FUNCTION pgmq.read IS
'Reads at most qty messages, the smallest id first. For vt seconds no other call gets them. conditional: read only messages that contain this JSON value. Needs SELECT and UPDATE on the view of the queue.';

CREATE FUNCTION pgmq.read_with_poll(
    queue_name text, vt integer, qty integer, max_poll_seconds integer DEFAULT 5, poll_interval_ms integer DEFAULT 100,
    conditional jsonb DEFAULT '{}') RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_read_with_poll';
COMMENT ON FUNCTION pgmq.read_with_poll IS
'As pgmq.read, but waits for a message for at most max_poll_seconds. A commit that inserts a message ends the wait at once; only a read with a condition looks again every poll_interval_ms.';

CREATE FUNCTION pgmq.pop(queue_name text, qty integer DEFAULT 1) RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_pop';
COMMENT ON FUNCTION pgmq.pop IS 'Reads and deletes at most qty messages. Needs SELECT and DELETE on the view of the queue.';

CREATE FUNCTION pgmq._read_by_id(queue_name text, vt integer, msg_ids bigint[]) RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_read_by_id';
COMMENT ON FUNCTION pgmq._read_by_id IS 'Internal: reads those of the messages that can be read now, in the order of the array.';

-- ---- messages by their ids ----

CREATE FUNCTION pgmq.delete(queue_name text, msg_id bigint) RETURNS boolean
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_delete';
COMMENT ON FUNCTION pgmq.delete(text, bigint) IS 'Deletes a message. Returns false if no message has that id. Needs DELETE on the view of the queue.';
CREATE FUNCTION pgmq.delete(queue_name text, msg_ids bigint[]) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_delete_many';
COMMENT ON FUNCTION pgmq.delete(text, bigint[]) IS 'Deletes messages, and returns the ids of the deleted messages.';

CREATE FUNCTION pgmq.archive(queue_name text, msg_id bigint) RETURNS boolean
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_archive';
COMMENT ON FUNCTION pgmq.archive(text, bigint) IS 'Moves a message to the archive a_NAME. Returns false if no message has that id. Needs DELETE on the view of the queue and INSERT on the archive.';
CREATE FUNCTION pgmq.archive(queue_name text, msg_ids bigint[]) RETURNS SETOF bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_archive_many';
COMMENT ON FUNCTION pgmq.archive(text, bigint[]) IS 'Moves messages to the archive, and returns the ids of the moved messages.';

CREATE FUNCTION pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz) RETURNS SETOF pgmq.message_record
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_set_vt';
COMMENT ON FUNCTION pgmq.set_vt(text, bigint, timestamptz) IS 'Sets the time from which a message can be read. Before that time no call gets the message. A rollback undoes the change. Needs UPDATE on the view of the queue.';
CREATE FUNCTION pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz) RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_set_vt_many';
COMMENT ON FUNCTION pgmq.set_vt(text, bigint[], timestamptz) IS 'As pgmq.set_vt of one message, for several.';
CREATE FUNCTION pgmq.set_vt(queue_name text, msg_id bigint, vt integer) RETURNS SETOF pgmq.message_record
LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'pgq_mq_set_vt_in';
COMMENT ON FUNCTION pgmq.set_vt(text, bigint, integer) IS 'As pgmq.set_vt with a time: vt seconds from now.';
CREATE FUNCTION pgmq.set_vt(queue_name text, msg_ids bigint[], vt integer) RETURNS SETOF pgmq.message_record
LANGUAGE c AS 'MODULE_PATHNAME', 'pgq_mq_set_vt_many_in';
COMMENT ON FUNCTION pgmq.set_vt(text, bigint[], integer) IS 'As pgmq.set_vt with a time: vt seconds from now.';
