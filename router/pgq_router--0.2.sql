-- pgq_router: the functions and views of pgq_ext, over several databases. See docs/scaling.md and router/README.md.

\echo Use "CREATE EXTENSION pgq_router" to load this file. \quit

-- The path of this script: in the schema of the extension, other roles may have created functions and operators,
-- which must not run with the rights of the superuser who runs the script.
SET LOCAL search_path = pg_catalog, pg_temp;

-- The functions go to the schema of the extension; the objects of pgq_ext that clients use go to a schema of its
-- name.
CREATE SCHEMA pgq_router;
CREATE SCHEMA pgq_ext;
GRANT USAGE ON SCHEMA pgq_router TO PUBLIC;

-- ---- shards and slots ----

CREATE TABLE pgq_router.shard (
    shard    integer PRIMARY KEY CHECK (shard BETWEEN 0 AND 1023),
    conninfo text NOT NULL,
    -- Takes new jobs that have no key.
    accepts  boolean NOT NULL DEFAULT true
);
-- Readable by all, since each caller connects to the shards itself.
GRANT SELECT ON TABLE pgq_router.shard TO PUBLIC;
COMMENT ON TABLE pgq_router.shard IS
'The databases that share the work, by the number that pgq_set_shard has given them, and how they are reached; accepts: new jobs without a key go there as well. Changed by pgq_router_add_shard and pgq_router_remove_shard.';

CREATE TABLE pgq_router.slot (
    slot       integer PRIMARY KEY CHECK (slot BETWEEN 0 AND 63),
    shard      integer REFERENCES pgq_router.shard,
    last_shard integer
);
GRANT SELECT ON TABLE pgq_router.slot TO PUBLIC;
COMMENT ON TABLE pgq_router.slot IS
'On which shard a key is, by its hash: 64 slots. shard NULL: closed, nothing is enqueued with such a key. last_shard: where its jobs are, if there are any. Changed by pgq_router_assign_slots.';

SELECT pg_catalog.pg_extension_config_dump('pgq_router.shard', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_router.slot', '');

CREATE FUNCTION pgq_router.slot_of(key text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$SELECT (pg_catalog.hashtextextended(key COLLATE "C", 0) OPERATOR(pg_catalog.&) 63)::integer$$;
COMMENT ON FUNCTION pgq_router.slot_of IS 'The slot of a key. It depends on the bytes of the key: databases of one encoding agree.';

CREATE FUNCTION pgq_router.shard_of(key text) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_shard integer;
BEGIN
    IF key IS NULL THEN
        RETURN NULL;
    END IF;
    -- Who moves slots waits for all who have read one, and is waited for, before the look.
    LOCK TABLE pgq_router.slot IN ACCESS SHARE MODE;
    SELECT s.shard INTO found_shard FROM pgq_router.slot s WHERE s.slot = pgq_router.slot_of(key);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'there are no shards', HINT = 'See pgq_router_add_shard.';
    ELSIF found_shard IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('slot %s, of key "%s", is closed', pgq_router.slot_of(key), key),
            DETAIL = 'Its keys are being moved to another shard.', HINT = 'Try again later, or open it with pgq_router_assign_slots.';
    END IF;
    RETURN found_shard;
END $$;
COMMENT ON FUNCTION pgq_router.shard_of IS 'The shard of a key. Error: 55000 its slot is closed.';

CREATE FUNCTION pgq_router.shard_of_job(job_id bigint) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF job_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'job_id must not be null';
    END IF;
    RETURN job_id % 1024;
END $$;
COMMENT ON FUNCTION pgq_router.shard_of_job IS 'The shard of a job.';

CREATE FUNCTION pgq_router.address(shard integer) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_conninfo text;
BEGIN
    SELECT s.conninfo INTO found_conninfo FROM pgq_router.shard s WHERE s.shard = address.shard;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('there is no shard %s', shard),
            DETAIL = format('Shards: %s.', (SELECT coalesce(string_agg(s.shard::text, ', ' ORDER BY s.shard), 'none') FROM pgq_router.shard s)),
            HINT = 'The id is of a database that is not known here, or of no shard. See pgq_router_add_shard.';
    END IF;
    -- The last one of each counts. A host that is gone is noticed in about ten seconds.
    RETURN 'fallback_application_name=pgq_router tcp_user_timeout=10000 keepalives_idle=5 keepalives_interval=2 keepalives_count=3 '
           || found_conninfo;
END $$;
COMMENT ON FUNCTION pgq_router.address IS 'Internal: how a shard is reached.';

-- Find the extension's own function: other roles may have created functions of the same name with other arguments.
CREATE FUNCTION pgq_router.front_of(verb text) RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT p.oid FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid OPERATOR(pg_catalog.=) p.oid
         AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
    JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
    WHERE e.extname OPERATOR(pg_catalog.=) 'pgq_router' AND p.proname OPERATOR(pg_catalog.=) verb AND p.pronamespace OPERATOR(pg_catalog.=) e.extnamespace $$;
COMMENT ON FUNCTION pgq_router.front_of IS 'Internal: the function of that name that is the extension''s.';

-- PL/Proxy calls this function with the caller's rights to learn where to connect to. Every role may execute the
-- functions of PL/Proxy, but they connect only for a role that may execute the public function.
CREATE FUNCTION pgq_router.at(shard integer, verb text, alone boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    used text := nullif(current_setting('pgq_router.shard', true), '');
BEGIN
    IF has_function_privilege(pgq_router.front_of(verb), 'EXECUTE') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for function %s', verb);
    END IF;
    IF alone THEN
        IF used <> shard::text AND coalesce(current_setting('pgq_router.across_shards', true), '') <> 'on' THEN
            RAISE EXCEPTION USING ERRCODE = '0A000',
                MESSAGE = format('%s is for shard %s, and this transaction has changed something on shard %s', verb, shard, used),
                DETAIL = 'Each call is a transaction of its own on its shard: what was done there stays, whatever becomes of this transaction.',
                HINT = 'Make each call a transaction of its own, or, if this is meant, SET pgq_router.across_shards = on. For work that is all or nothing connect to one shard.';
        END IF;
        PERFORM set_config('pgq_router.shard', shard::text, true);
    END IF;
    RETURN pgq_router.address(shard);
END $$;
COMMENT ON FUNCTION pgq_router.at IS 'Internal: how a shard is reached, by who may call that function. alone: not after another shard.';

CREATE FUNCTION pgq_router.at_view(shard integer, view_name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT has_table_privilege(format('pgq_ext.%I', view_name), 'SELECT') THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for view %s', view_name);
    END IF;
    RETURN pgq_router.address(shard);
END $$;
COMMENT ON FUNCTION pgq_router.at_view IS 'Internal: how a shard is reached, by who may read that view.';

-- ---- errors ----

CREATE FUNCTION pgq_router.was_not_reached(message text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS
$$SELECT message OPERATOR(pg_catalog.~) '^PL/Proxy function .*\] PQconnect'$$;
COMMENT ON FUNCTION pgq_router.was_not_reached IS 'Internal: is that an error of PL/Proxy before anything was sent?';

CREATE FUNCTION pgq_router.is_down(state text, message text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS
$$SELECT message OPERATOR(pg_catalog.~) '^PL/Proxy function' OR state OPERATOR(pg_catalog.=) ANY (ARRAY['57P01', '57P02', '57P03'])$$;
COMMENT ON FUNCTION pgq_router.is_down IS 'Internal: is that an error of a shard that did not answer, or is going down?';

-- Raise an error that PL/Proxy reports as the shard has raised it, with the shard's number.
CREATE FUNCTION pgq_router.complain(shard integer, state text, message text, detail text, hint text, done text = '') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := format('Shard %s is at "%s".', shard, (SELECT s.conninfo FROM pgq_router.shard s WHERE s.shard = complain.shard));
BEGIN
    IF pgq_router.was_not_reached(message) THEN
        RAISE EXCEPTION USING ERRCODE = '08001', MESSAGE = format('shard %s cannot be reached', shard),
            DETAIL = concat_ws(' ', place, regexp_replace(message, '^.*?\] PQ\w+: ', ''), nullif(done, '')),
            HINT = 'Nothing was done there. Other shards are served; see pgq_router.shard_status.';
    ELSIF message ~ '^PL/Proxy function' THEN
        RAISE EXCEPTION USING ERRCODE = '08007', MESSAGE = format('the connection to shard %s was lost', shard),
            DETAIL = concat_ws(' ', place, regexp_replace(message, '^PL/Proxy function [^:]*: ', ''), nullif(done, '')),
            HINT = 'It is not known whether this was done there. To enqueue once more does no harm with a unique_key; to answer for a job never does.';
    ELSIF message !~ '\] REMOTE ' THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = coalesce(nullif(detail, ''), place), HINT = coalesce(nullif(hint, ''), 'See docs/scaling.md.');
    ELSIF coalesce(hint, '') = '' THEN
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = format('shard %s: %s', shard, regexp_replace(message, '^.*?\] REMOTE [^:]*: +', '')),
            DETAIL = concat_ws(' ', nullif(regexp_replace(detail, '^Remote detail: ', ''), ''), place, nullif(done, ''));
    ELSE
        RAISE EXCEPTION USING ERRCODE = state, MESSAGE = format('shard %s: %s', shard, regexp_replace(message, '^.*?\] REMOTE [^:]*: +', '')),
            DETAIL = concat_ws(' ', nullif(regexp_replace(detail, '^Remote detail: ', ''), ''), place, nullif(done, '')),
            HINT = regexp_replace(hint, '^Remote hint: ', '');
    END IF;
END $$;
COMMENT ON FUNCTION pgq_router.complain IS 'Internal: raises the error of a shard.';

CREATE FUNCTION pgq_router.leave_out(shard integer, message text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING USING ERRCODE = '08001', MESSAGE = format('shard %s is left out', shard),
        DETAIL = regexp_replace(message, '^PL/Proxy function [^:]*: ', '');
END $$;
COMMENT ON FUNCTION pgq_router.leave_out IS 'Internal: tells that a shard did not answer, and that others have.';

CREATE FUNCTION pgq_router.refuse(
    what text, hint text, detail text = 'Each call is a transaction of its own on its shard, in a session that is not the caller''s.') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('%s cannot go through a router', what),
        DETAIL = detail, HINT = hint;
END $$;
COMMENT ON FUNCTION pgq_router.refuse IS 'Internal: for what has a sense on one shard only.';

CREATE FUNCTION pgq_router.refuse_batch(what text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pgq_router.refuse(what, 'Connect to the shard of the batch, and make the call there: SELECT shard, conninfo FROM pgq_router.shard.',
        'A batch is on one shard, with all its jobs.');
$$;
COMMENT ON FUNCTION pgq_router.refuse_batch IS 'Internal: as refuse, for calls about batches.';

CREATE FUNCTION pgq_router.refuse_parents(what text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pgq_router.refuse(what, 'Connect to the shard of the parents, and make the call there: SELECT shard, conninfo FROM pgq_router.shard.',
        'A job is on the shard of its parents.');
$$;
COMMENT ON FUNCTION pgq_router.refuse_parents IS 'Internal: as refuse, for jobs that wait for other jobs.';

-- ---- order of shards ----

CREATE FUNCTION pgq_router.shards() RETURNS integer[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_shards integer[] := array(SELECT s.shard FROM pgq_router.shard s ORDER BY s.shard);
BEGIN
    IF cardinality(found_shards) = 0 THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'there are no shards', HINT = 'See pgq_router_add_shard.';
    END IF;
    RETURN found_shards;
END $$;
COMMENT ON FUNCTION pgq_router.shards IS 'Internal: all shards.';

-- The shard that this transaction has used already comes first.
CREATE FUNCTION pgq_router.any_shards(to_enqueue boolean) RETURNS integer[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_shards integer[] := array(SELECT s.shard FROM pgq_router.shard s WHERE s.accepts OR NOT to_enqueue
        ORDER BY s.shard::text IS DISTINCT FROM current_setting('pgq_router.shard', true), random());
BEGIN
    IF cardinality(found_shards) = 0 THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'there are no shards that take jobs', HINT = 'See pgq_router_add_shard.';
    END IF;
    RETURN found_shards;
END $$;
COMMENT ON FUNCTION pgq_router.any_shards IS 'Internal: all shards, in an order of chance.';

CREATE FUNCTION pgq_router.ping(shard integer) RETURNS integer
LANGUAGE plproxy AS $$ CONNECT pgq_router.address(shard); SELECT 1; $$;
COMMENT ON FUNCTION pgq_router.ping IS 'Internal: an error if the shard does not answer.';

CREATE FUNCTION pgq_router.number_at(integer) RETURNS integer
LANGUAGE plproxy AS $$ CONNECT pgq_router.address($1); SELECT (SELECT n.shard FROM pgq_ext.shard n); $$;
COMMENT ON FUNCTION pgq_router.number_at IS 'Internal: what a database says of its number.';

CREATE FUNCTION pgq_router.jobs_at(integer) RETURNS bigint
LANGUAGE plproxy AS $$ CONNECT pgq_router.address($1);
SELECT pg_catalog.count(*) FROM (SELECT FROM pgq_ext.job UNION ALL SELECT FROM pgq_ext.dead_job) j; $$;
REVOKE ALL ON FUNCTION pgq_router.jobs_at FROM PUBLIC;
COMMENT ON FUNCTION pgq_router.jobs_at IS 'Internal: how many jobs and dead letters a shard has.';

CREATE FUNCTION pgq_router.keys_at(integer, integer[]) RETURNS bigint
LANGUAGE plproxy AS $$ CONNECT pgq_router.address($1);
SELECT pg_catalog.count(*) FROM (
    SELECT COALESCE(j.group_key, j.unique_key) FROM pgq_ext.job j
    UNION ALL SELECT COALESCE(d.group_key, d.unique_key) FROM pgq_ext.dead_job d
    UNION ALL SELECT u.unique_key FROM pgq_ext.unique_key u WHERE u.until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
    UNION ALL SELECT l.name FROM pgq_ext.held_lock l
    UNION ALL SELECT r.name FROM pgq_ext.run r
    UNION ALL SELECT m.name FROM pgq_ext.rate_limit m
    UNION ALL SELECT COALESCE(t.options OPERATOR(pg_catalog.->>) 'group_key', t.options OPERATOR(pg_catalog.->>) 'unique_key', t.schedule)
              FROM pgq_ext.timetable t) k (k)
WHERE (pg_catalog.hashtextextended(k.k COLLATE pg_catalog."C", 0) OPERATOR(pg_catalog.&) 63)::pg_catalog.int4 OPERATOR(pg_catalog.=) ANY ($2); $$;
REVOKE ALL ON FUNCTION pgq_router.keys_at FROM PUBLIC;
COMMENT ON FUNCTION pgq_router.keys_at IS 'Internal: how many jobs and names a shard has whose keys are of these slots.';

CREATE FUNCTION pgq_router.reach_all() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s integer;
BEGIN
    FOREACH s IN ARRAY pgq_router.shards() LOOP
        BEGIN
            PERFORM pgq_router.ping(s);
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgq_router.complain(s, SQLSTATE, SQLERRM, '', '', 'Nothing was done on any shard.');
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION pgq_router.reach_all IS 'Internal: an error if a shard does not answer, before anything is changed on another.';

-- ---- types ----

CREATE TYPE pgq_ext.claimed_job AS (
    job_id bigint, lease bigint, queue text, payload jsonb, headers jsonb, group_key text, priority integer, attempt integer,
    max_attempts integer, enqueued_at timestamptz, run_at timestamptz, lease_expires_at timestamptz, last_error text, progress jsonb);
COMMENT ON TYPE pgq_ext.claimed_job IS 'As that of pgq_ext.';

CREATE TYPE pgq_ext.job_result AS (job_id bigint, state text, result jsonb, error text);
COMMENT ON TYPE pgq_ext.job_result IS 'As that of pgq_ext.';

CREATE TYPE pgq_ext.parent AS (job_id bigint, ref text, state text, result jsonb, error text);
COMMENT ON TYPE pgq_ext.parent IS 'As that of pgq_ext.';

CREATE TYPE pgq_ext.explanation AS (step text, detail text);
COMMENT ON TYPE pgq_ext.explanation IS 'As that of pgq_ext.';

CREATE TYPE pgq_ext.published_job AS (queue text, job_id bigint);
COMMENT ON TYPE pgq_ext.published_job IS 'As that of pgq_ext.';

CREATE TYPE pgq_ext.route AS (queue text, pattern text);
COMMENT ON TYPE pgq_ext.route IS 'As that of pgq_ext.';

-- ---- the functions of pgq_ext ----

-- Each function has a second one for PL/Proxy, pgq_router.enqueue_at and so on, with the shard before the other
-- arguments.
CREATE FUNCTION pgq_router.make(verb text, arguments text, result text, body text, alone boolean = true) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $make$
DECLARE
    front oid;
    types text;
    values_of text;
    query text;
BEGIN
    EXECUTE format('CREATE FUNCTION @extschema@.%I(%s) RETURNS %s LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS %L',
        verb, arguments, result, body);
    front := pgq_router.front_of(verb);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', front::regprocedure);
    EXECUTE format('COMMENT ON FUNCTION %s IS %L', front::regprocedure, 'As that of pgq_ext, through a router: see docs/scaling.md.');
    SELECT concat_ws(', ', 'integer', string_agg(format_type(t, NULL), ', ' ORDER BY n)), string_agg('$' || n + 1, ', ' ORDER BY n)
    INTO types, values_of FROM pg_proc p, unnest(p.proargtypes) WITH ORDINALITY a (t, n) WHERE p.oid = front GROUP BY p.oid;
    IF NOT FOUND THEN
        types := 'integer'; values_of := '';
    END IF;
    query := format('SELECT %s', coalesce(
        (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) || format(' FROM %I(%s)', verb, values_of)
         FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
         WHERE p.oid = front), format('%I(%s)', verb, values_of)));
    EXECUTE format('CREATE FUNCTION pgq_router.%I(%s) RETURNS %s LANGUAGE plproxy AS %L',
        substr(verb, 5) || '_at', types, result, format(' CONNECT pgq_router.at($1, %L, %L); %s; ', verb, alone, query));
    EXECUTE format('COMMENT ON FUNCTION pgq_router.%I IS %L', substr(verb, 5) || '_at', 'Internal: calls that function on a shard.');
END $make$;

-- Make a function that calls one shard. where_: expression for the shard. alone: false for a call that changes
-- nothing, which may share its transaction with calls of other shards.
CREATE FUNCTION pgq_router.make_one(verb text, arguments text, result text, where_ text, alone boolean = true) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $make$
DECLARE
    behind text := format('pgq_router.%I', substr(verb, 5) || '_at');
    named text := (SELECT string_agg('$' || n, ', ' ORDER BY n) FROM generate_series(1, 1 + regexp_count(regexp_replace(arguments, '''[^'']*''', '', 'g'), ',')) n);
BEGIN
    PERFORM pgq_router.make(verb, arguments, result, format($body$
DECLARE
    s integer := %s;
    message text; detail text; hint text;
BEGIN
    %s %s(s, %s);%s
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
END $body$, where_, CASE WHEN result = 'void' THEN 'PERFORM' WHEN result LIKE 'SETOF%' THEN 'RETURN QUERY SELECT * FROM' ELSE 'RETURN' END,
        behind, named, CASE WHEN result = 'void' OR result LIKE 'SETOF%' THEN ' RETURN;' ELSE '' END), alone);
END $make$;

SELECT pgq_router.make_one(verb, 'job_id bigint, ' || arguments, result, 'pgq_router.shard_of_job(job_id)') FROM (VALUES
    ('pgq_ack', 'lease bigint, result jsonb = null', 'void'),
    ('pgq_fail', 'lease bigint, error text = null, retry_in interval = null, retry boolean = true', 'text'),
    ('pgq_release', 'lease bigint, delay interval = ''0''', 'boolean'),
    ('pgq_extend', 'lease bigint, lease_time interval = null', 'timestamptz'),
    ('pgq_progress', 'lease bigint, progress jsonb', 'void'),
    ('pgq_checkpoint', 'lease bigint, step text, value jsonb = null', 'jsonb'),
    ('pgq_retry', 'delay interval = ''0'', error_like text = null, died_since timestamptz = null, died_before timestamptz = null, group_key text = null', 'boolean')) v (verb, arguments, result);
SELECT pgq_router.make_one('pgq_result', 'job_id bigint, wait interval = ''0''', 'SETOF pgq_ext.job_result', 'pgq_router.shard_of_job(job_id)', false);
SELECT pgq_router.make_one('pgq_parents', 'job_id bigint, lease bigint', 'SETOF pgq_ext.parent', 'pgq_router.shard_of_job(job_id)');
SELECT pgq_router.make_one('pgq_explain', 'job_id bigint', 'SETOF pgq_ext.explanation', 'pgq_router.shard_of_job(job_id)', false);
SELECT pgq_router.make_one('pgq_cancel', 'job_id bigint', 'text', 'pgq_router.shard_of_job(job_id)');
SELECT pgq_router.make_one('pgq_run_again', 'job_id bigint', 'bigint', 'pgq_router.shard_of_job(job_id)');

-- A name belongs to one shard, as a key does.
SELECT pgq_router.make_one(verb, 'name text, ' || arguments, result, 'pgq_router.shard_of_name(name)') FROM (VALUES
    ('pgq_extend_lock', 'token bigint, ttl interval = null', 'timestamptz'),
    ('pgq_unlock', 'token bigint', 'boolean'),
    ('pgq_run_once', 'period interval = null, ttl interval = ''5 min'', wait interval = ''0'', owner text = null', 'bigint'),
    ('pgq_run_done', 'token bigint, result jsonb = null', 'void'),
    ('pgq_create_rate', 'permits int, period interval, burst int = null, if_not_exists boolean = false', 'boolean'),
    ('pgq_drop_rate', 'if_exists boolean = false', 'boolean'),
    ('pgq_take', 'permits int = 1, wait interval = ''0''', 'boolean')) v (verb, arguments, result);

CREATE FUNCTION pgq_router.shard_of_name(name text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'name must not be null';
    END IF;
    RETURN pgq_router.shard_of(name);
END $$;
COMMENT ON FUNCTION pgq_router.shard_of_name IS 'The shard of a lock, run or rate.';

CREATE FUNCTION pgq_router.shard_of_lock(name text, session_bound boolean) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF session_bound THEN
        PERFORM pgq_router.refuse('a lock that is bound to the session', format('Connect to shard %s, or take it with a ttl.', pgq_router.shard_of_name(name)));
    END IF;
    RETURN pgq_router.shard_of_name(name);
END $$;
COMMENT ON FUNCTION pgq_router.shard_of_lock IS 'The shard of a lock, if it has a ttl.';

SELECT pgq_router.make_one('pgq_lock',
    'name text, ttl interval = ''30 s'', slots int = 1, wait interval = ''0'', owner text = null, session_bound boolean = false',
    'bigint', 'pgq_router.shard_of_lock(name, session_bound)');

CREATE FUNCTION pgq_router.shard_of_update(job_id bigint, group_key text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s integer := pgq_router.shard_of_job(job_id);
BEGIN
    IF group_key IS NOT NULL AND pgq_router.shard_of(group_key) <> s THEN
        RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('job %s is on shard %s, and group "%s" on shard %s', job_id, s, group_key, pgq_router.shard_of(group_key)),
            DETAIL = 'A job stays on its shard.', HINT = 'Cancel it with pgq_cancel, and enqueue it in its new group.';
    END IF;
    RETURN s;
END $$;
COMMENT ON FUNCTION pgq_router.shard_of_update IS 'The shard of a job, if that of its new group is the same.';

SELECT pgq_router.make_one('pgq_update',
    'job_id bigint, payload jsonb = null, priority int = null, run_at timestamptz = null, queue text = null, group_key text = null, max_attempts int = null, headers jsonb = null',
    'boolean', 'pgq_router.shard_of_update(job_id, group_key)');

SELECT pgq_router.make_one('pgq_route', 'topic text', 'SETOF pgq_ext.route', '(pgq_router.any_shards(false))[1]', false);
SELECT pgq_router.make_one('pgq_schedule_preview', 'cron text, timezone text = ''UTC'', n int = 5', 'SETOF timestamptz', '(pgq_router.any_shards(false))[1]', false);

-- Refuse assertions: an assertion would end with the shard's transaction, before the caller's transaction does.
SELECT pgq_router.make(verb, arguments, 'void', format($body$
BEGIN
    PERFORM pgq_router.refuse(%L, 'Connect to the shard, and do the work in the transaction there that asserts: its number is what is left of the job''s id divided by 1024, or what pgq_router.shard_of(name) says.');
END $body$, verb)) FROM (VALUES
    ('pgq_assert_lease', 'job_id bigint, lease bigint'),
    ('pgq_assert_lock', 'name text, token bigint')) v (verb, arguments);

SELECT pgq_router.make(verb, arguments, result, format('BEGIN PERFORM pgq_router.refuse_batch(%L); END', verb)) FROM (VALUES
    ('pgq_create_batch', 'on_success jsonb = null, on_failure jsonb = null, on_finish jsonb = null, metadata jsonb = null', 'bigint'),
    ('pgq_close_batch', 'batch bigint', 'void'),
    ('pgq_cancel_batch', 'batch bigint', 'bigint')) v (verb, arguments, result);

-- The triggers of a watch enqueue in the transaction that changes the table, so on the shard that has the table.
SELECT pgq_router.make(verb, arguments, result, format($body$
BEGIN
    PERFORM pgq_router.refuse(%L, 'Connect to each shard that has the table, and make the call there: SELECT shard, conninfo FROM pgq_router.shard.',
        'A watched table enqueues its jobs on the shard where it is.');
END $body$, verb)) FROM (VALUES
    ('pgq_watch_table', '"table" regclass, target text, columns text[] = null, key text[] = null', 'void'),
    ('pgq_unwatch_table', '"table" regclass, target text', 'boolean')) v (verb, arguments, result);

-- ---- on all shards ----

-- Make a function that calls all shards, one after the other, after all have answered. fold: expression that combines
-- `answer` with `one`.
CREATE FUNCTION pgq_router.make_all(verb text, arguments text, result text, fold text, call text = null) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $make$
DECLARE
    named text := coalesce(call, (SELECT string_agg('$' || n, ', ' ORDER BY n) FROM generate_series(1, 1 + regexp_count(regexp_replace(arguments, '''[^'']*''', '', 'g'), ',')) n));
BEGIN
    PERFORM pgq_router.make(verb, arguments, result, format($body$
DECLARE
    all_shards integer[] := pgq_router.shards();
    s integer;
    n integer := 0;
    answer %s; one %s;
    message text; detail text; hint text;
BEGIN
    PERFORM pgq_router.reach_all();
    FOREACH s IN ARRAY all_shards LOOP
        BEGIN
            %s pgq_router.%I(s, %s);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint,
                CASE WHEN n = 0 THEN 'Nothing was done on other shards.'
                     ELSE format('It was done on shards %%s; not on %%s.', array_to_string(all_shards[:n], ', '), array_to_string(all_shards[n + 1:], ', ')) END);
        END;
        n := n + 1;
        %s
    END LOOP;
    %s
END $body$, CASE result WHEN 'void' THEN 'text' ELSE result END, CASE result WHEN 'void' THEN 'text' ELSE result END,
        CASE result WHEN 'void' THEN 'PERFORM' ELSE 'one :=' END, substr(verb, 5) || '_at', named,
        CASE result WHEN 'void' THEN '' ELSE format('answer := %s;', fold) END, CASE result WHEN 'void' THEN '' ELSE 'RETURN answer;' END), false);
END $make$;

SELECT pgq_router.make_all('pgq_create_queue', 'queue text, lease_time interval = ''5 min'', max_runtime interval = ''0'', max_attempts int = 20,
    backoff_base interval = ''1 s'', backoff_max interval = ''1 h'', backoff_jitter float8 = 0.2,
    concurrency int = 0, group_concurrency int = 0,
    log_attempts text = ''failed'', keep_attempts interval = ''7 days'',
    keep_finished interval = ''0'', keep_dead interval = ''30 days'', notify boolean = true,
    if_not_exists boolean = false, rate_limit int = 0, rate_period interval = ''1 s'', fifo boolean = false,
    max_depth bigint = 0, group_rate_limit int = 0, fair boolean = false, undo_rolled_back_claims boolean = false', 'boolean', 'coalesce(answer, false) OR one');
SELECT pgq_router.make_all('pgq_alter_queue', 'queue text, lease_time interval = null, max_runtime interval = null, max_attempts int = null,
    backoff_base interval = null, backoff_max interval = null, backoff_jitter float8 = null,
    concurrency int = null, group_concurrency int = null,
    log_attempts text = null, keep_attempts interval = null,
    keep_finished interval = null, keep_dead interval = null, notify boolean = null,
    rate_limit int = null, rate_period interval = null, fifo boolean = null,
    max_depth bigint = null, group_rate_limit int = null, fair boolean = null, undo_rolled_back_claims boolean = null', 'void', '');
SELECT pgq_router.make_all('pgq_drop_queue', 'queue text, if_exists boolean = false, force boolean = false', 'boolean', 'coalesce(answer, false) OR one');
SELECT pgq_router.make_all('pgq_rename_queue', 'queue text, new_name text', 'void', '');
SELECT pgq_router.make_all('pgq_pause_queue', 'queue text', 'void', '');
SELECT pgq_router.make_all('pgq_resume_queue', 'queue text', 'void', '');
SELECT pgq_router.make_all('pgq_purge_queue', 'queue text', 'bigint', 'coalesce(answer, 0) + one');
SELECT pgq_router.make_all('pgq_redrive', 'queue text, max_jobs bigint = null, error_like text = null, died_since timestamptz = null, died_before timestamptz = null, group_key text = null', 'bigint', 'coalesce(answer, 0) + one',
    '$1, max_jobs - coalesce(answer, 0), $3, $4, $5, $6');
SELECT pgq_router.make_all('pgq_grant', 'queue text, role text, rights text[]', 'void', '');
SELECT pgq_router.make_all('pgq_revoke', 'queue text, role text, rights text[]', 'void', '');
-- Each shard has its own bindings and rights on topics, as it has its own queues.
SELECT pgq_router.make_all('pgq_bind', 'pattern text, queue text, options jsonb = null', 'void', '');
SELECT pgq_router.make_all('pgq_unbind', 'pattern text, queue text', 'boolean', 'coalesce(answer, false) OR one');
SELECT pgq_router.make_all('pgq_grant_topic', 'pattern text, role text, rights text[]', 'void', '');
SELECT pgq_router.make_all('pgq_revoke_topic', 'pattern text, role text, rights text[]', 'void', '');
SELECT pgq_router.make_all('pgq_unschedule', 'schedule text', 'boolean', 'coalesce(answer, false) OR one');
-- Each shard calls its own function. A function of that name must be here as well, because regprocedure names one of this database.
SELECT pgq_router.make_all('pgq_set_handler', 'queue text, handler regprocedure, workers int = 1, timeout interval = ''1 min'', batch int = 1,
    idle interval = ''10 s'', run_as regrole = (pg_catalog.quote_ident(current_user))::pg_catalog.regrole', 'void', '');
SELECT pgq_router.make_all('pgq_drop_handler', 'queue text', 'boolean', 'coalesce(answer, false) OR one');
SELECT pgq_router.make_all('pgq_pause_handler', 'queue text', 'void', '');
SELECT pgq_router.make_all('pgq_resume_handler', 'queue text', 'void', '');

-- A schedule is on the shard of the key of its jobs, or, without a key, on the shard of its name.
SELECT pgq_router.make('pgq_schedule',
    'schedule text, cron text, queue text, payload jsonb = ''{}'', timezone text = ''UTC'', missed text = ''one'', options jsonb = null', 'void', $body$
DECLARE
    home integer; s integer;
    message text; detail text; hint text;
BEGIN
    PERFORM pgq_router.reach_all();
    home := pgq_router.shard_of(coalesce(options ->> 'group_key', options ->> 'unique_key', schedule, ''));
    s := home;
    PERFORM pgq_router.schedule_at(s, $1, $2, $3, $4, $5, $6, $7);
    -- It may have had other options.
    FOREACH s IN ARRAY pgq_router.shards() LOOP
        IF s <> home THEN
            PERFORM pgq_router.drop_schedule_at(s, schedule);
        END IF;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
END $body$);
CREATE FUNCTION pgq_router.drop_schedule_at(integer, text) RETURNS boolean
LANGUAGE plproxy AS $$ CONNECT pgq_router.at($1, 'pgq_schedule', false); SELECT pgq_unschedule($2); $$;
COMMENT ON FUNCTION pgq_router.drop_schedule_at IS 'Internal: for a schedule that moves to another shard.';

SELECT pgq_router.make(verb, 'schedule text', 'void', format($body$
DECLARE
    s integer;
    seen boolean := false;
    message text; detail text; hint text;
BEGIN
    FOREACH s IN ARRAY pgq_router.shards() LOOP
        BEGIN
            PERFORM pgq_router.%I(s, $1);
            seen := true;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            IF SQLSTATE <> '42704' THEN
                PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
            END IF;
        END;
    END LOOP;
    IF NOT seen THEN
        RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('schedule "%%s" does not exist', schedule), DETAIL = 'It is on no shard.';
    END IF;
END $body$, substr(verb, 5) || '_at'), false) FROM (VALUES ('pgq_pause_schedule'), ('pgq_resume_schedule')) v (verb);

SELECT pgq_router.make('pgq_check', '', 'SETOF text', $body$
DECLARE
    s integer;
BEGIN
    FOREACH s IN ARRAY pgq_router.shards() LOOP
        BEGIN
            RETURN QUERY SELECT format('shard %s: %s', s, c) FROM pgq_router.check_at(s) c;
        EXCEPTION WHEN OTHERS THEN
            RETURN NEXT format('shard %s: %s', s, SQLERRM);
        END;
    END LOOP;
END $body$, false);

-- ---- producers ----

-- A job without a key may go to any shard, so skip a shard that cannot be reached.
SELECT pgq_router.make('pgq_enqueue', 'queue text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = ''finished'',
    unique_for interval = null, on_conflict text = ''keep'',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = ''cancel''', 'bigint', $body$
DECLARE
    key text := coalesce(group_key, unique_key);
    candidates integer[] := CASE WHEN key IS NULL THEN pgq_router.any_shards(true) ELSE ARRAY[pgq_router.shard_of(key)] END;
    s integer;
    n integer := 0;
    message text; detail text; hint text;
BEGIN
    IF batch IS NOT NULL THEN
        PERFORM pgq_router.refuse_batch('pgq_enqueue with a batch');
    ELSIF after IS NOT NULL THEN
        PERFORM pgq_router.refuse_parents('pgq_enqueue with after');
    END IF;
    FOREACH s IN ARRAY candidates LOOP
        n := n + 1;
        BEGIN
            RETURN pgq_router.enqueue_at(s, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, NULL, NULL, NULL);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            IF n = cardinality(candidates) OR NOT pgq_router.was_not_reached(message) THEN
                PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
            END IF;
            PERFORM pgq_router.leave_out(s, message);
        END;
    END LOOP;
END $body$);

-- All queues get their jobs on one shard, in one transaction there.
SELECT pgq_router.make('pgq_publish', 'topic text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = ''finished'',
    unique_for interval = null, on_conflict text = ''keep'',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = ''cancel'', must_route boolean = false', 'SETOF pgq_ext.published_job', $body$
DECLARE
    key text := coalesce(group_key, unique_key);
    candidates integer[] := CASE WHEN key IS NULL THEN pgq_router.any_shards(true) ELSE ARRAY[pgq_router.shard_of(key)] END;
    s integer;
    n integer := 0;
    message text; detail text; hint text;
BEGIN
    IF batch IS NOT NULL THEN
        PERFORM pgq_router.refuse_batch('pgq_publish with a batch');
    ELSIF after IS NOT NULL THEN
        PERFORM pgq_router.refuse_parents('pgq_publish with after');
    END IF;
    FOREACH s IN ARRAY candidates LOOP
        n := n + 1;
        BEGIN
            RETURN QUERY SELECT * FROM pgq_router.publish_at(s, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, NULL, NULL, NULL, must_route);
            RETURN;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            IF n = cardinality(candidates) OR NOT pgq_router.was_not_reached(message) THEN
                PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
            END IF;
            PERFORM pgq_router.leave_out(s, message);
        END;
    END LOOP;
END $body$);

-- Send the jobs of each shard in one call, and all jobs without a key to one shard. Contact the shards first, so that
-- a shard that is down fails the call before any job is enqueued.
SELECT pgq_router.make('pgq_enqueue_many', 'queue text, jobs jsonb', 'SETOF bigint', $body$
DECLARE
    any_shard integer := (pgq_router.any_shards(false))[1];
    elements jsonb := CASE jsonb_typeof(jobs) WHEN 'array' THEN jobs ELSE '[]' END;
    homes integer[];
    ids bigint[] := '{}';
    got bigint[];
    part record;
    message text; detail text; hint text;
    done text := '';
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(elements) j WHERE jsonb_typeof(j -> 'batch') <> 'null') THEN
        PERFORM pgq_router.refuse_batch('pgq_enqueue_many with a batch');
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(elements) j WHERE jsonb_typeof(j -> 'after') <> 'null') THEN
        PERFORM pgq_router.refuse_parents('pgq_enqueue_many with after');
    END IF;
    homes := array(SELECT pgq_router.shard_of(coalesce(j ->> 'group_key', j ->> 'unique_key')) FROM jsonb_array_elements(elements) j);
    PERFORM pgq_router.reach(array(SELECT DISTINCT s FROM unnest(homes) s WHERE s IS NOT NULL));
    IF array_position(homes, NULL) IS NOT NULL THEN
        any_shard := pgq_router.reachable();
    END IF;
    FOR part IN
        SELECT coalesce(h, any_shard) AS shard, jsonb_agg(j.job ORDER BY j.n) AS jobs, array_agg(j.n::integer ORDER BY j.n) AS places
        FROM jsonb_array_elements(elements) WITH ORDINALITY j (job, n) JOIN unnest(homes) WITH ORDINALITY u (h, n) USING (n)
        GROUP BY 1
        UNION ALL
        -- What is wrong with it a shard says.
        SELECT any_shard, pgq_enqueue_many.jobs, '{}' WHERE elements = '[]'
        ORDER BY 1
    LOOP
        BEGIN
            got := array(SELECT pgq_router.enqueue_many_at(part.shard, queue, part.jobs));
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            PERFORM pgq_router.complain(part.shard, SQLSTATE, message, detail, hint,
                CASE part.places WHEN '{}' THEN '' ELSE format('Of the array it had jobs %s. Jobs enqueued on other shards: %s.', array_to_string(part.places, ', '),
                       coalesce(nullif(ltrim(done, ', '), ''), 'none')) END);
        END;
        FOR i IN 1 .. cardinality(got) LOOP
            ids[part.places[i]] := got[i];
        END LOOP;
        done := done || ', ' || array_to_string(part.places, ', ');
    END LOOP;
    RETURN QUERY SELECT unnest(ids);
END $body$, false);

-- As for pgq_enqueue_many. The rows come shard by shard.
SELECT pgq_router.make('pgq_publish_many', 'jobs jsonb', 'SETOF pgq_ext.published_job', $body$
DECLARE
    any_shard integer := (pgq_router.any_shards(false))[1];
    elements jsonb := CASE jsonb_typeof(jobs) WHEN 'array' THEN jobs ELSE '[]' END;
    homes integer[];
    part record;
    message text; detail text; hint text;
    done text := '';
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(elements) j WHERE jsonb_typeof(j -> 'batch') <> 'null') THEN
        PERFORM pgq_router.refuse_batch('pgq_publish_many with a batch');
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(elements) j WHERE jsonb_typeof(j -> 'after') <> 'null') THEN
        PERFORM pgq_router.refuse_parents('pgq_publish_many with after');
    END IF;
    homes := array(SELECT pgq_router.shard_of(coalesce(j ->> 'group_key', j ->> 'unique_key')) FROM jsonb_array_elements(elements) j);
    PERFORM pgq_router.reach(array(SELECT DISTINCT s FROM unnest(homes) s WHERE s IS NOT NULL));
    IF array_position(homes, NULL) IS NOT NULL THEN
        any_shard := pgq_router.reachable();
    END IF;
    FOR part IN
        SELECT coalesce(h, any_shard) AS shard, jsonb_agg(j.job ORDER BY j.n) AS jobs, array_agg(j.n::integer ORDER BY j.n) AS places
        FROM jsonb_array_elements(elements) WITH ORDINALITY j (job, n) JOIN unnest(homes) WITH ORDINALITY u (h, n) USING (n)
        GROUP BY 1
        UNION ALL
        -- What is wrong with it a shard says.
        SELECT any_shard, pgq_publish_many.jobs, '{}' WHERE elements = '[]'
        ORDER BY 1
    LOOP
        BEGIN
            RETURN QUERY SELECT * FROM pgq_router.publish_many_at(part.shard, part.jobs);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            PERFORM pgq_router.complain(part.shard, SQLSTATE, message, detail, hint,
                CASE part.places WHEN '{}' THEN '' ELSE format('Of the array it had jobs %s. Jobs published on other shards: %s.', array_to_string(part.places, ', '),
                       coalesce(nullif(ltrim(done, ', '), ''), 'none')) END);
        END;
        done := done || ', ' || array_to_string(part.places, ', ');
    END LOOP;
END $body$, false);

CREATE FUNCTION pgq_router.reachable() RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s integer;
BEGIN
    FOREACH s IN ARRAY pgq_router.any_shards(true) LOOP
        BEGIN
            PERFORM pgq_router.ping(s);
            RETURN s;
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgq_router.leave_out(s, SQLERRM);
        END;
    END LOOP;
    RETURN s;
END $$;
COMMENT ON FUNCTION pgq_router.reachable IS 'Internal: a shard that takes jobs and answers, or, if none does, any.';

CREATE FUNCTION pgq_router.reach(wanted integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s integer;
BEGIN
    FOREACH s IN ARRAY wanted LOOP
        BEGIN
            PERFORM pgq_router.ping(s);
        EXCEPTION WHEN OTHERS THEN
            PERFORM pgq_router.complain(s, SQLSTATE, SQLERRM, '', '', 'No job was enqueued.');
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION pgq_router.reach IS 'Internal: an error if one of these shards does not answer.';

-- ---- workers ----

-- End jobs at their shards. numbers: the array beside job_ids; pgq_finish has none. A shard that is down is left out.
SELECT pgq_router.make(verb, arguments, 'SETOF bigint', format($body$
DECLARE
    part record;
    message text; detail text; hint text;
    wrong boolean := job_ids IS NULL OR %2$I IS NULL OR array_ndims(job_ids) > 1 OR array_ndims(%2$I) > 1
        OR cardinality(job_ids) <> cardinality(%2$I) OR array_position(job_ids, NULL) IS NOT NULL OR array_position(%2$I, NULL) IS NOT NULL;
BEGIN
    FOR part IN
        SELECT s.shard, array_agg(a.job_id ORDER BY a.n) AS job_ids, array_agg(a.number ORDER BY a.n) AS numbers
        FROM unnest(job_ids, %2$I) WITH ORDINALITY a (job_id, number, n) JOIN pgq_router.shard s ON s.shard = a.job_id %% 1024
        WHERE NOT wrong GROUP BY s.shard
        UNION ALL
        -- What is wrong with the arrays a shard says.
        SELECT (pgq_router.any_shards(false))[1], %1$I.job_ids, %1$I.%2$I WHERE wrong
        ORDER BY 1
    LOOP
        BEGIN
            RETURN QUERY SELECT pgq_router.%3$s;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            IF NOT pgq_router.is_down(SQLSTATE, message) THEN
                PERFORM pgq_router.complain(part.shard, SQLSTATE, message, detail, hint);
            END IF;
            PERFORM pgq_router.leave_out(part.shard, message);
        END;
    END LOOP;
END $body$, verb, numbers, call), false)
FROM (VALUES
    ('pgq_ack_many', 'job_ids bigint[], leases bigint[]', 'leases', 'ack_many_at(part.shard, part.job_ids, part.numbers)'),
    ('pgq_finish', 'job_ids bigint[]', 'job_ids', 'finish_at(part.shard, part.job_ids)')) v (verb, arguments, numbers, call);

-- Claim from any shard that has jobs. call: the second function, and its arguments.
SELECT pgq_router.make(verb, arguments, 'SETOF pgq_ext.claimed_job', format($body$
DECLARE
    candidates integer[];
    s integer;
    failed integer := 0;
    message text; detail text; hint text;
BEGIN
    IF wait > interval '0' THEN
        PERFORM pgq_router.refuse('a claim that waits', 'Wait at a shard: SELECT shard, conninfo FROM pgq_router.shard; examples/worker_shards.py shows how.');
    ELSIF session_bound THEN
        PERFORM pgq_router.refuse('a lease that is bound to the session', 'Claim at a shard: SELECT shard, conninfo FROM pgq_router.shard.');
    END IF;
    candidates := pgq_router.any_shards(false);
    FOREACH s IN ARRAY candidates LOOP
        BEGIN
            RETURN QUERY SELECT * FROM pgq_router.%I(s, $1, $2, $3, $4, coalesce($5, current_setting('application_name')), $6);
            EXIT WHEN FOUND;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            failed := failed + 1;
            IF failed = cardinality(candidates) OR NOT pgq_router.is_down(SQLSTATE, message) THEN
                PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
            END IF;
            PERFORM pgq_router.leave_out(s, message);
        END;
    END LOOP;
END $body$, substr(verb, 5) || '_at'), false) FROM (VALUES
    ('pgq_claim', 'queue text, max_jobs int = 1, wait interval = ''0'', lease_time interval = null, worker text = null, session_bound boolean = false'),
    ('pgq_claim_any', 'queues text[], max_jobs int = 1, wait interval = ''0'', lease_time interval = null, worker text = null, session_bound boolean = false')) v (verb, arguments);

SELECT pgq_router.make('pgq_ack_next', 'job_id bigint, lease bigint, queue text, lease_time interval = null, worker text = null',
    'SETOF pgq_ext.claimed_job', $body$
DECLARE
    s integer := coalesce((job_id % 1024)::int, (pgq_router.any_shards(false))[1]);
    message text; detail text; hint text;
BEGIN
    RETURN QUERY SELECT * FROM pgq_router.ack_next_at(s, $1, $2, $3, $4, coalesce($5, current_setting('application_name')));
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
END $body$, false);

SELECT pgq_router.make('pgq_ack_claim', 'job_ids bigint[], leases bigint[], queue text, max_jobs int = 1, lease_time interval = null, worker text = null',
    'SETOF pgq_ext.claimed_job', $body$
DECLARE
    homes integer[] := array(SELECT DISTINCT j % 1024 FROM unnest(job_ids) j WHERE j IS NOT NULL);
    s integer;
    message text; detail text; hint text;
BEGIN
    IF cardinality(homes) > 1 THEN
        PERFORM pgq_router.refuse(format('acknowledging jobs of shards %s together', array_to_string(homes, ', ')),
            'Acknowledge with pgq_ack_many, which takes each shard on its own, and then claim with pgq_claim.');
    END IF;
    s := coalesce(homes[1], (pgq_router.any_shards(false))[1]);
    RETURN QUERY SELECT * FROM pgq_router.ack_claim_at(s, $1, $2, $3, $4, $5, coalesce($6, current_setting('application_name')));
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM pgq_router.complain(s, SQLSTATE, message, detail, hint);
END $body$, false);

DROP FUNCTION pgq_router.make_one(text, text, text, text, boolean);
DROP FUNCTION pgq_router.make_all(text, text, text, text, text);
DROP FUNCTION pgq_router.make(text, text, text, text, boolean);

-- ---- views ----

CREATE FUNCTION pgq_router.rows(view_name text, OUT shard integer, OUT row_ jsonb) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message text; detail text; hint text;
BEGIN
    FOREACH shard IN ARRAY pgq_router.shards() LOOP
        BEGIN
            RETURN QUERY EXECUTE format('SELECT $1, r FROM pgq_router.%I($1) r', view_name || '_rows_at') USING shard;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            IF NOT pgq_router.is_down(SQLSTATE, message) THEN
                PERFORM pgq_router.complain(shard, SQLSTATE, message, detail, hint);
            END IF;
            PERFORM pgq_router.leave_out(shard, message);
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION pgq_router.rows IS 'Internal: the rows of a view of all shards; those that do not answer are left out with a WARNING.';

DO $$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT * FROM (VALUES
        ('attempt', 'job_id bigint, lease bigint, claimed_at timestamptz, ended_at timestamptz, queue_id integer, attempt integer, segment smallint, outcome text, worker text, reason text, error text'),
        ('batch', 'batch bigint, total bigint, waiting bigint, leased bigint, acked bigint, dead bigint, cancelled bigint, expired bigint, state text, created_at timestamptz, closed_at timestamptz, finished_at timestamptz, metadata jsonb, deleted bigint, failed_at timestamptz, succeeded_at timestamptz, cancelled_at timestamptz, maker text, next_try_at timestamptz, last_error text'),
        ('capacity', 'name text, used bigint, peak bigint, bound bigint, guc text, entry_bytes bigint'),
        ('dead_job', 'job_id bigint, queue_id integer, died_at timestamptz, enqueued_at timestamptz, run_at timestamptz, priority integer, attempts integer, segment smallint, max_attempts integer, fence bigint, group_key text, unique_key text, reason text, last_error text, headers jsonb, payload jsonb'),
        ('dead_letter', 'queue text, job_id bigint, died_at timestamptz, reason text, attempts integer, max_attempts integer, group_key text, unique_key text, priority integer, enqueued_at timestamptz, run_at timestamptz, last_error text, headers jsonb, payload jsonb, batch bigint'),
        ('duty', 'duty text, queue text, last_run_at timestamptz, next_run_at timestamptz, failures integer, failing_since timestamptz, last_error text'),
        ('finished_job', 'job_id bigint, finished_at timestamptz, enqueued_at timestamptz, run_at timestamptz, queue_id integer, priority integer, attempts integer, segment smallint, outcome text, payload jsonb, worker text, result jsonb, max_attempts integer, group_key text, unique_key text, last_error text, headers jsonb'),
        ('handler', 'queue text, handler text, run_as text, workers integer, running integer, batch integer, timeout interval, state text, reason text, since timestamptz, next_try_at timestamptz, calls bigint, failures bigint, last_error text'),
        ('health', '"check" text, status text, detail text, hint text, checked_at timestamptz'),
        ('job_status', 'job_id bigint, queue text, state text, waits_for text, priority integer, run_at timestamptz, attempts integer, max_attempts integer, group_key text, unique_key text, enqueued_at timestamptz, expires_at timestamptz, worker text, lease_expires_at timestamptz, last_error text, progress jsonb, batch bigint'),
        ('lease', 'job_id bigint, lease bigint, queue text, group_key text, attempt integer, worker text, pid integer, claimed_at timestamptz, lease_expires_at timestamptz, session_bound boolean, in_transaction boolean'),
        ('lock', 'name text, slot integer, slots integer, token bigint, owner text, pid integer, acquired_at timestamptz, expires_at timestamptz, session_bound boolean, waiting integer, in_transaction boolean'),
        ('queue', 'queue_id integer, queue text, lease_time interval, max_runtime interval, max_attempts integer, backoff_base interval, backoff_max interval, backoff_jitter float8, concurrency integer, rate_limit integer, rate_period interval, group_rate_limit integer, group_concurrency integer, fifo boolean, fair boolean, max_depth bigint, log_attempts text, keep_attempts interval, keep_finished interval, keep_dead interval, notify boolean, paused boolean, created_at timestamptz, paused_at timestamptz, undo_rolled_back_claims boolean'),
        ('queue_latency', 'queue text, phase text, le_seconds float8, count bigint, sum_seconds float8'),
        ('queue_stats', 'queue text, stats_since timestamptz, enqueued bigint, deduplicated bigint, claims bigint, empty_claims bigint, handed_out bigint, acked bigint, failed bigint, released bigint, cancelled bigint, lost bigint, dead_lettered bigint, expired bigint, uncounted bigint, stale_calls bigint, rejected bigint, ghosts bigint, repaired bigint, reconciled bigint, wait_p50 interval, wait_p95 interval, run_p50 interval, run_p95 interval, total_p50 interval, total_p95 interval'),
        ('queue_status', 'queue text, ready bigint, scheduled bigint, leased bigint, dead bigint, oldest_ready_age interval, waiting_claims integer, last_claim_at timestamptz, paused boolean, depth bigint, blocked bigint'),
        ('rate', 'name text, permits integer, period interval, burst integer, available bigint, next_at timestamptz'),
        ('run', 'name text, period interval, period_start timestamptz, token bigint, owner text, started_at timestamptz, finished_at timestamptz, result jsonb, tries integer'),
        ('schedule', 'schedule text, cron text, timezone text, queue text, payload jsonb, missed text, options jsonb, paused boolean, next_run_at timestamptz, last_run_at timestamptz, last_job_id bigint, last_error text'),
        ('binding', 'pattern text, queue text, when_full text, created_at timestamptz, maker text'),
        ('watch', '"table" text, target text, columns text[], key text[], coalescing boolean, triggers text[], part_of text, problem text'),
        ('segment', 'segment integer, relation text, parent text, state text, live_rows bigint, size bigint, age interval, held_by text, truncations bigint, moved_in bigint, moved_out bigint')
        ) w (name, columns)
    LOOP
        EXECUTE format('CREATE FUNCTION pgq_router.%I(integer) RETURNS SETOF jsonb LANGUAGE plproxy AS %L', v.name || '_rows_at',
            format(' CONNECT pgq_router.at_view($1, %L); SELECT pg_catalog.to_jsonb(v) FROM pgq_ext.%I v; ', v.name, v.name));
        EXECUTE format('COMMENT ON FUNCTION pgq_router.%I IS %L', v.name || '_rows_at', 'Internal: the rows of that view of a shard.');
        IF v.name NOT IN ('queue_status', 'queue_stats', 'queue_latency') THEN
            EXECUTE format('CREATE VIEW pgq_ext.%I AS SELECT r.*, u.shard FROM pgq_router.rows(%L) u, jsonb_to_record(u.row_) AS r (%s)', v.name, v.name, v.columns);
            EXECUTE format('COMMENT ON VIEW pgq_ext.%I IS %L', v.name, 'As that of pgq_ext, of all shards; shard: of which one.');
        END IF;
    END LOOP;
END $$;

-- Views that add up the shards' values.
CREATE VIEW pgq_ext.queue_status AS
SELECT r.queue, CASE WHEN count(r.ready) = count(*) THEN sum(r.ready)::bigint END AS ready,
       CASE WHEN count(r.scheduled) = count(*) THEN sum(r.scheduled)::bigint END AS scheduled, sum(r.leased)::bigint AS leased,
       CASE WHEN count(r.dead) = count(*) THEN sum(r.dead)::bigint END AS dead, max(r.oldest_ready_age) AS oldest_ready_age, sum(r.waiting_claims)::integer AS waiting_claims,
       max(r.last_claim_at) AS last_claim_at, bool_and(r.paused) AS paused,
       CASE WHEN count(r.depth) = count(*) THEN sum(r.depth)::bigint END AS depth, count(*)::integer AS shards,
       CASE WHEN count(r.blocked) = count(*) THEN sum(r.blocked)::bigint END AS blocked
FROM pgq_router.rows('queue_status') u,
     jsonb_to_record(u.row_) AS r (queue text, ready bigint, scheduled bigint, leased bigint, dead bigint, oldest_ready_age interval,
                                   waiting_claims integer, last_claim_at timestamptz, paused boolean, depth bigint, blocked bigint)
GROUP BY r.queue;
COMMENT ON VIEW pgq_ext.queue_status IS 'As that of pgq_ext, summed over all shards, NULL if one of them does not know it yet; oldest_ready_age is the greatest, paused: everywhere. shards: how many have answered, and have the queue.';

CREATE VIEW pgq_ext.queue_stats AS
SELECT r.queue, min(r.stats_since) AS stats_since, sum(r.enqueued)::bigint AS enqueued, sum(r.deduplicated)::bigint AS deduplicated, sum(r.claims)::bigint AS claims,
       sum(r.empty_claims)::bigint AS empty_claims, sum(r.handed_out)::bigint AS handed_out, sum(r.acked)::bigint AS acked,
       sum(r.failed)::bigint AS failed, sum(r.released)::bigint AS released, sum(r.cancelled)::bigint AS cancelled,
       sum(r.lost)::bigint AS lost, sum(r.dead_lettered)::bigint AS dead_lettered, sum(r.expired)::bigint AS expired,
       sum(r.uncounted)::bigint AS uncounted, sum(r.stale_calls)::bigint AS stale_calls, sum(r.rejected)::bigint AS rejected,
       sum(r.ghosts)::bigint AS ghosts, sum(r.repaired)::bigint AS repaired, sum(r.reconciled)::bigint AS reconciled,
       max(r.wait_p50) AS wait_p50, max(r.wait_p95) AS wait_p95, max(r.run_p50) AS run_p50, max(r.run_p95) AS run_p95,
       max(r.total_p50) AS total_p50, max(r.total_p95) AS total_p95, count(*)::integer AS shards
FROM pgq_router.rows('queue_stats') u,
     jsonb_to_record(u.row_) AS r (queue text, stats_since timestamptz, enqueued bigint, deduplicated bigint, claims bigint,
                                   empty_claims bigint, handed_out bigint, acked bigint, failed bigint, released bigint, cancelled
                                   bigint, lost bigint, dead_lettered bigint, expired bigint, uncounted bigint, stale_calls
                                   bigint, rejected bigint, ghosts bigint, repaired bigint, reconciled bigint, wait_p50 interval,
                                   wait_p95 interval, run_p50 interval, run_p95 interval, total_p50 interval, total_p95 interval)
GROUP BY r.queue;
COMMENT ON VIEW pgq_ext.queue_stats IS 'As that of pgq_ext, summed over all shards; p50 and p95 are those of the worst. shards: how many have answered, and have the queue.';

CREATE VIEW pgq_ext.queue_latency AS
SELECT r.queue, r.phase, r.le_seconds, sum(r.count)::bigint AS count, sum(r.sum_seconds) AS sum_seconds
FROM pgq_router.rows('queue_latency') u,
     jsonb_to_record(u.row_) AS r (queue text, phase text, le_seconds float8, count bigint, sum_seconds float8)
GROUP BY r.queue, r.phase, r.le_seconds;
COMMENT ON VIEW pgq_ext.queue_latency IS 'As that of pgq_ext, summed over all shards.';

-- ---- shards ----

CREATE FUNCTION pgq_router.status(OUT shard integer, OUT conninfo text, OUT accepts boolean, OUT slots integer, OUT reachable boolean, OUT error text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR shard, conninfo, accepts, slots IN
        SELECT s.shard, s.conninfo, s.accepts, (SELECT count(*) FROM pgq_router.slot l WHERE l.shard = s.shard)
        FROM pgq_router.shard s ORDER BY s.shard
    LOOP
        reachable := true;
        error := NULL;
        BEGIN
            IF pgq_router.number_at(shard) IS DISTINCT FROM shard THEN
                error := format('its number is not %s: see pgq_set_shard', shard);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            reachable := NOT pgq_router.is_down(SQLSTATE, SQLERRM);
            error := regexp_replace(SQLERRM, '^PL/Proxy function [^:]*: ', '');
        END;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION pgq_router.status IS 'Internal: what pgq_router.shard_status shows.';

CREATE VIEW pgq_router.shard_status AS SELECT * FROM pgq_router.status();
GRANT SELECT ON pgq_router.shard_status TO PUBLIC;
COMMENT ON VIEW pgq_router.shard_status IS
'The shards, how many of the 64 slots each has, and whether it answers the caller, and as the one it should be; error: why not.';

-- The tables' owner may have granted TRIGGER to other roles. Their triggers would run with the rights of the
-- functions below.
CREATE FUNCTION pgq_router.refuse_triggers() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_trigger record;
BEGIN
    SELECT t.tgname, t.tgrelid::regclass AS place INTO found_trigger FROM pg_trigger t
    WHERE t.tgrelid IN ('pgq_router.shard'::regclass, 'pgq_router.slot'::regclass) AND NOT t.tgisinternal LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('there is a trigger "%s" on %s', found_trigger.tgname, found_trigger.place),
            DETAIL = 'It would run with the rights of the owner of the functions.', HINT = 'Drop it, and find out who has made it.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION pgq_router.refuse_triggers FROM PUBLIC;
COMMENT ON FUNCTION pgq_router.refuse_triggers IS 'Internal: error 55000 if somebody has put a trigger on the tables of shards or slots, which are locked.';

CREATE FUNCTION @extschema@.pgq_router_add_shard(shard int, conninfo text, accepts boolean = true) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    number integer;
    message text;
BEGIN
    IF $1 IS NULL OR $2 IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'shard and conninfo must not be null';
    ELSIF $1 NOT BETWEEN 0 AND 1023 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('shard %s is out of range', $1), DETAIL = 'Shards are numbered from 0 to 1023.';
    ELSIF $2 ~* '(^|[^a-z_])(ssl)?password\s*=' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'conninfo must not have a password', DETAIL = 'Every user can read it.',
            HINT = 'Use a passfile of the server''s operating system user, a service file, or a local pgbouncer.';
    ELSIF $2 !~ '=' OR $2 ~ '^\s*postgres(ql)?://' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'conninfo must be keywords and values', HINT = 'As in host=... dbname=...';
    END IF;
    LOCK TABLE pgq_router.shard, pgq_router.slot IN SHARE ROW EXCLUSIVE MODE;
    PERFORM pgq_router.refuse_triggers();
    INSERT INTO pgq_router.shard VALUES ($1, $2, coalesce($3, true))
    ON CONFLICT (shard) DO UPDATE SET conninfo = EXCLUDED.conninfo, accepts = EXCLUDED.accepts;
    -- The first one has all keys.
    INSERT INTO pgq_router.slot SELECT n, $1, $1 FROM generate_series(0, 63) n ON CONFLICT (slot) DO NOTHING;
    BEGIN
        number := pgq_router.number_at($1);
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
        RAISE WARNING USING MESSAGE = format('shard %s does not answer yet', $1), DETAIL = regexp_replace(message, '^PL/Proxy function [^:]*: ', '');
        RETURN;
    END;
    IF number IS DISTINCT FROM $1 THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('that database is not shard %s', $1),
            DETAIL = CASE WHEN number IS NULL THEN 'It has no number.' ELSE format('It is shard %s.', number) END,
            HINT = format('SELECT pgq_set_shard(%s) there, before it has jobs.', $1);
    END IF;
END $$;
REVOKE ALL ON FUNCTION @extschema@.pgq_router_add_shard FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.pgq_router_add_shard IS
'The database at conninfo is that shard, or is there from now on if it is known: one that was moved. The first one has all 64 slots, others get them by pgq_router_assign_slots. accepts: it takes new jobs without a key. Without user in conninfo everybody connects as himself. Errors: 55000 the database has another number, 22023 conninfo has a password or is a URI, or there is no such number.';

CREATE FUNCTION @extschema@.pgq_router_remove_shard(shard int, force boolean = false) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    jobs bigint;
    message text; detail text; hint text;
BEGIN
    LOCK TABLE pgq_router.shard, pgq_router.slot IN SHARE ROW EXCLUSIVE MODE;
    PERFORM pgq_router.refuse_triggers();
    IF NOT EXISTS (SELECT FROM pgq_router.shard s WHERE s.shard = $1) THEN
        RETURN false;
    ELSIF EXISTS (SELECT FROM pgq_router.slot l WHERE l.shard = $1) AND (SELECT count(*) FROM pgq_router.shard) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = format('shard %s has slots', $1),
            DETAIL = format('Keys of slots %s are there.', (SELECT string_agg(l.slot::text, ', ' ORDER BY l.slot) FROM pgq_router.slot l WHERE l.shard = $1)),
            HINT = 'Give them to another one with pgq_router_assign_slots.';
    ELSIF force IS NOT TRUE THEN
        BEGIN
            jobs := pgq_router.jobs_at($1);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            PERFORM pgq_router.complain($1, SQLSTATE, message, detail, hint, 'Whether it has jobs is not known; force does not ask.');
        END;
        IF jobs > 0 THEN
            RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = format('shard %s has %s jobs and dead letters', $1, jobs),
                HINT = 'Let it take no new ones, pgq_router_add_shard(..., accepts => false), and wait until they are done; or use force.';
        END IF;
    END IF;
    DELETE FROM pgq_router.slot WHERE shard = $1;
    DELETE FROM pgq_router.shard WHERE shard = $1;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION @extschema@.pgq_router_remove_shard FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.pgq_router_remove_shard IS
'Forget a shard; false: it is not known. Errors: 55006 it has slots or, without force, jobs.';

CREATE FUNCTION @extschema@.pgq_router_assign_slots(slots int[], shard int) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    part record;
    n bigint;
    message text; detail text; hint text;
BEGIN
    IF $1 IS NULL OR EXISTS (SELECT FROM unnest($1) s WHERE s IS NULL OR s NOT BETWEEN 0 AND 63) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'slots are numbered from 0 to 63';
    END IF;
    LOCK TABLE pgq_router.shard IN SHARE ROW EXCLUSIVE MODE;
    -- After all who have read where a key is, and may enqueue there still.
    LOCK TABLE pgq_router.slot IN ACCESS EXCLUSIVE MODE;
    PERFORM pgq_router.refuse_triggers();
    IF $2 IS NOT NULL THEN
        PERFORM pgq_router.address($2);
        FOR part IN
            SELECT l.last_shard, array_agg(l.slot ORDER BY l.slot) AS slots FROM pgq_router.slot l JOIN pgq_router.shard s ON s.shard = l.last_shard
            WHERE l.slot = ANY ($1) AND l.last_shard <> $2 GROUP BY l.last_shard
        LOOP
            BEGIN
                n := pgq_router.keys_at(part.last_shard, part.slots);
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
                PERFORM pgq_router.complain(part.last_shard, SQLSTATE, message, detail, hint, 'Whether it has jobs of these keys is not known.');
            END;
            IF n > 0 THEN
                RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = format('shard %s has %s jobs, keys or names of slots %s', part.last_shard, n, array_to_string(part.slots, ', ')),
                    DETAIL = 'New ones elsewhere would be before them, or beside them.',
                    HINT = 'Close the slots first, pgq_router_assign_slots(..., NULL), on every router, and assign them when these jobs are done. To move a shard as it is copy its database, and call pgq_router_add_shard with the new conninfo.';
            END IF;
        END LOOP;
    END IF;
    UPDATE pgq_router.slot SET shard = $2, last_shard = coalesce($2, last_shard) WHERE slot = ANY ($1);
END $$;
REVOKE ALL ON FUNCTION @extschema@.pgq_router_assign_slots FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.pgq_router_assign_slots IS
'Keys of these slots (0 to 63) are on that shard from now on; NULL: on none, nothing is enqueued with such a key until they are assigned again. Waits for transactions that have enqueued with a key, and these for it. Errors: 55000 there is a trigger on the tables, 55006 the shard that has them has jobs of such keys, 42704 there is no such shard, 22023 no such slot.';
