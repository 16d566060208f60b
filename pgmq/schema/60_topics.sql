-- ---- topics: patterns of routing keys, bound to queues ----

-- The errors have the texts of the original, which clients show.
CREATE FUNCTION pgmq._check_topic(what text, value text, allowed text, names text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF COALESCE(value, '') = '' THEN
        RAISE EXCEPTION '% cannot be NULL or empty', what;
    ELSIF char_length(value) > 255 THEN
        RAISE EXCEPTION '% length cannot exceed 255 characters, got % characters', what, char_length(value);
    ELSIF value !~ allowed THEN
        RAISE EXCEPTION '% contains invalid characters. Only % are allowed. Got: %', what, names, value;
    ELSIF left(value, 1) = '.' THEN
        RAISE EXCEPTION '% cannot start with a dot. Got: %', what, value;
    ELSIF right(value, 1) = '.' THEN
        RAISE EXCEPTION '% cannot end with a dot. Got: %', what, value;
    ELSIF strpos(value, '..') > 0 THEN
        RAISE EXCEPTION '% cannot contain consecutive dots. Got: %', what, value;
    END IF;
END $$;
COMMENT ON FUNCTION pgmq._check_topic IS 'Internal: the checks that routing keys and patterns have in common.';

CREATE FUNCTION pgmq.validate_routing_key(routing_key text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM pgmq._check_topic('routing_key', routing_key, '^[a-zA-Z0-9._-]+$', 'alphanumeric, dots, hyphens, and underscores');
    RETURN true;
END $$;
COMMENT ON FUNCTION pgmq.validate_routing_key IS 'Raises an error unless this is a routing key: letters, digits, - and _, in segments with dots between them.';

CREATE FUNCTION pgmq.validate_topic_pattern(pattern text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM pgmq._check_topic('pattern', pattern, '^[a-zA-Z0-9._*#-]+$', 'alphanumeric, dots, hyphens, underscores, *, and #');
    IF strpos(pattern, '**') > 0 THEN
        RAISE EXCEPTION 'pattern cannot contain consecutive stars (**). Use # for multi-segment matching. Got: %', pattern;
    ELSIF strpos(pattern, '##') > 0 THEN
        RAISE EXCEPTION 'pattern cannot contain consecutive hashes (##). A single # already matches zero or more segments. Got: %', pattern;
    ELSIF pattern ~ '[*]#|#[*]' THEN
        RAISE EXCEPTION 'pattern cannot contain adjacent wildcards (*# or #*). Separate wildcards with dots. Got: %', pattern;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION pgmq.validate_topic_pattern IS 'Raises an error unless this is a pattern: a routing key in which * stands for one segment, and # for any rest.';

CREATE FUNCTION pgmq.bind_topic(pattern text, queue_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.validate_topic_pattern(pattern);
    IF COALESCE(queue_name, '') = '' THEN
        RAISE EXCEPTION 'queue_name cannot be NULL or empty';
    END IF;
    PERFORM pgmq._keep_queue(queue_name);
    IF NOT EXISTS (SELECT FROM pgmq.meta m WHERE m.queue_name = bind_topic.queue_name) THEN
        RAISE EXCEPTION 'Queue "%" does not exist. Create the queue first using pgmq.create()', queue_name;
    END IF;
    INSERT INTO pgmq.topic_bindings (pattern, queue_name) VALUES (bind_topic.pattern, bind_topic.queue_name)
    ON CONFLICT ON CONSTRAINT topic_bindings_unique_pattern_queue DO NOTHING;
END $$;
COMMENT ON FUNCTION pgmq.bind_topic IS 'Lets a queue get the messages whose routing key matches the pattern.';

CREATE FUNCTION pgmq.unbind_topic(pattern text, queue_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(pattern, '') = '' THEN
        RAISE EXCEPTION 'pattern cannot be NULL or empty';
    ELSIF COALESCE(queue_name, '') = '' THEN
        RAISE EXCEPTION 'queue_name cannot be NULL or empty';
    END IF;
    DELETE FROM pgmq.topic_bindings b WHERE b.pattern = unbind_topic.pattern AND b.queue_name = unbind_topic.queue_name;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION pgmq.unbind_topic IS 'Deletes a binding that pgmq.bind_topic has made. Returns false if there is no such binding.';

CREATE FUNCTION pgmq.test_routing(routing_key text) RETURNS TABLE (pattern text, queue_name text, compiled_regex text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pgmq.validate_routing_key(routing_key);
    RETURN QUERY SELECT b.pattern, b.queue_name, b.compiled_regex FROM pgmq.topic_bindings b
        WHERE routing_key ~ b.compiled_regex ORDER BY b.pattern;
END $$;
COMMENT ON FUNCTION pgmq.test_routing IS 'The bindings that match a routing key.';

CREATE FUNCTION pgmq.list_topic_bindings() RETURNS TABLE (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
LANGUAGE sql STABLE AS $$
    SELECT b.pattern, b.queue_name, b.bound_at, b.compiled_regex FROM pgmq.topic_bindings b ORDER BY 3 DESC, 1, 2
$$;
COMMENT ON FUNCTION pgmq.list_topic_bindings() IS 'All bindings, the newest first.';
CREATE FUNCTION pgmq.list_topic_bindings(queue_name text) RETURNS TABLE (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
LANGUAGE sql STABLE AS $$
    SELECT b.pattern, b.queue_name, b.bound_at, b.compiled_regex FROM pgmq.topic_bindings b WHERE b.queue_name = $1 ORDER BY 3 DESC, 1
$$;
COMMENT ON FUNCTION pgmq.list_topic_bindings(text) IS 'The bindings of one queue, the newest first.';

CREATE FUNCTION pgmq._queues_of_key(routing_key text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT b.queue_name FROM pgmq.topic_bindings b
    WHERE routing_key ~ b.compiled_regex AND to_regclass(format('pgmq.%I', lower(('q_' || b.queue_name) COLLATE "default"))) IS NOT NULL
    GROUP BY 1 ORDER BY 1
$$;
COMMENT ON FUNCTION pgmq._queues_of_key IS 'Internal: the queues with a pattern that matches the routing key, in the order of their names. A binding whose queue does not exist is passed over.';

CREATE FUNCTION pgmq.send_topic(routing_key text, msg jsonb, headers jsonb, delay integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    n integer := 0;
    queue text;
BEGIN
    PERFORM pgmq.validate_routing_key(routing_key);
    IF msg IS NULL THEN
        RAISE EXCEPTION 'msg cannot be NULL';
    ELSIF delay < 0 THEN
        RAISE EXCEPTION 'delay cannot be negative, got: %', delay;
    END IF;
    FOR queue IN SELECT pgmq._queues_of_key(routing_key) LOOP
        PERFORM pgmq.send(queue, msg, headers, delay);
        n := n + 1;
    END LOOP;
    RETURN n;
END $$;
COMMENT ON FUNCTION pgmq.send_topic(text, jsonb, jsonb, integer) IS 'Sends a message to each queue that is bound to the routing key, and returns the number of queues.';
CREATE FUNCTION pgmq.send_topic(routing_key text, msg jsonb) RETURNS integer
LANGUAGE plpgsql AS $$ BEGIN RETURN pgmq.send_topic(routing_key, msg, NULL::jsonb, 0); END $$;
CREATE FUNCTION pgmq.send_topic(routing_key text, msg jsonb, delay integer) RETURNS integer
LANGUAGE plpgsql AS $$ BEGIN RETURN pgmq.send_topic(routing_key, msg, NULL::jsonb, delay); END $$;

CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgmq.validate_routing_key(routing_key), pgmq._validate_batch_params(msgs, headers);
    RETURN QUERY SELECT q, pgmq.send_batch(q, msgs, headers, delay) FROM pgmq._queues_of_key(routing_key) q;
END $$;
COMMENT ON FUNCTION pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) IS 'Sends messages to each queue that is bound to the routing key, and returns their ids.';
CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[]) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE sql AS $$ SELECT * FROM pgmq.send_batch_topic($1, $2, NULL::jsonb[], clock_timestamp()) $$;
CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[]) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE sql AS $$ SELECT * FROM pgmq.send_batch_topic($1, $2, $3, clock_timestamp()) $$;
CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay integer) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE sql AS $$ SELECT * FROM pgmq.send_batch_topic($1, $2, NULL::jsonb[], clock_timestamp() + $3 * interval '1 s') $$;
CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE sql AS $$ SELECT * FROM pgmq.send_batch_topic($1, $2, NULL::jsonb[], $3) $$;
CREATE FUNCTION pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay integer) RETURNS TABLE (queue_name text, msg_id bigint)
LANGUAGE sql AS $$ SELECT * FROM pgmq.send_batch_topic($1, $2, $3, clock_timestamp() + $4 * interval '1 s') $$;
