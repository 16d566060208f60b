-- ---- health: problems, and how to solve them ----
-- To add a check, write a function check_NAME(), which returns its findings (no row: all is well), and add a line to
-- health_entries(). The functions run with the rights of the extension's owner, and with the settings of
-- health_entries().

CREATE TYPE pgq_ext.finding AS (status text, detail text);
COMMENT ON TYPE pgq_ext.finding IS 'Internal: a finding of a check of pgq_ext.health. status: ok (to be shown although there is no problem), warn, fail.';

CREATE FUNCTION pgq_ext.library_version() RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_library_version';
REVOKE ALL ON FUNCTION pgq_ext.library_version FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.library_version IS 'Internal: the version of the library that the server has loaded.';

CREATE FUNCTION pgq_ext.library_serves(version text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_library_serves';
REVOKE ALL ON FUNCTION pgq_ext.library_serves FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.library_serves IS 'Internal: true if the library serves SQL objects of that version: its own version and the version before.';

CREATE FUNCTION pgq_ext.verify_tables() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_verify_tables';
REVOKE ALL ON FUNCTION pgq_ext.verify_tables FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.verify_tables IS 'Internal: raises the error that other functions raise if the tables of the extension are not as expected.';

CREATE FUNCTION pgq_ext.workers(OUT launcher integer, OUT scheduler integer, OUT missing integer) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_workers';
REVOKE ALL ON FUNCTION pgq_ext.workers FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.workers IS 'Internal: the processes of the launcher and of the scheduler of this database, and the number of schedulers that could not be started because worker slots are missing.';

CREATE FUNCTION pgq_ext.late_leases(
    OUT queue_id integer, OUT lost integer, OUT lost_by float8, OUT open integer, OUT open_by float8, OUT open_pid integer)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_late_leases';
REVOKE ALL ON FUNCTION pgq_ext.late_leases FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.late_leases IS 'Internal: for each queue with leases whose time is over: how many of them the scheduler has not counted yet, how many are kept by open transactions, and for both the seconds since the oldest ended.';

CREATE FUNCTION pgq_ext.unknown_starts(OUT queue_id integer, OUT until timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_unknown_starts';
REVOKE ALL ON FUNCTION pgq_ext.unknown_starts FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.unknown_starts IS 'Internal: queues with a rate limit for which the number of recent hand-outs is unknown, and until when that matters.';

CREATE FUNCTION pgq_ext.skip_entries(OUT queue_id integer, OUT skipped bigint, OUT last_skip_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_skip_entries';
REVOKE ALL ON FUNCTION pgq_ext.skip_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.skip_entries IS 'Internal: for each queue from which publishes have left out jobs because it was full (when_full skip): how many jobs since the start of the server, also by transactions that were rolled back, and when the last time was.';

CREATE FUNCTION pgq_ext.is_pattern(pattern text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_is_pattern';
REVOKE ALL ON FUNCTION pgq_ext.is_pattern FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.is_pattern IS 'Internal: true if pgq_bind accepts the pattern.';

CREATE FUNCTION pgq_ext.ago(since timestamptz) RETURNS interval
LANGUAGE sql VOLATILE RETURN pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) since);
REVOKE ALL ON FUNCTION pgq_ext.ago FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.ago IS 'Internal: how long ago, without fractions of a second.';

CREATE FUNCTION pgq_ext.list(items text[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT RETURN pg_catalog.concat(pg_catalog.array_to_string(items[1:5], '; '),
    CASE WHEN pg_catalog.cardinality(items) OPERATOR(pg_catalog.>) 5
         THEN pg_catalog.format('; and %s more', pg_catalog.cardinality(items) OPERATOR(pg_catalog.-) 5) END);
REVOKE ALL ON FUNCTION pgq_ext.list FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.list IS 'Internal: the first few elements, and how many more there are.';

-- ---- the checks ----

CREATE FUNCTION pgq_ext.check_library() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN e.extversion = l.version THEN 'ok' WHEN pgq_ext.library_serves(e.extversion) THEN 'warn' ELSE 'fail' END,
           format('library %s, SQL objects %s', l.version, e.extversion)
    FROM pg_extension e, pgq_ext.library_version() AS l (version) WHERE e.extname = 'pgq_ext';
END $$;

CREATE FUNCTION pgq_ext.check_scheduler() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    -- The scheduler starts soon after the first queue is created, and soon after a start of the server.
    SELECT CASE WHEN w.scheduler IS NULL AND pg_postmaster_start_time() < clock_timestamp() - interval '10 s'
                 AND EXISTS (SELECT FROM pgq_ext.queue q WHERE q.created_at < clock_timestamp() - interval '10 s')
                THEN 'fail' ELSE 'ok' END,
           COALESCE('process ' || w.scheduler, 'none runs')
    FROM pgq_ext.workers() w
    UNION ALL
    -- A running scheduler carries out its duty "presence" once a second, whatever other work it has.
    SELECT 'fail', format('it stands still since %s', pgq_ext.ago(d.next_run_at))
    FROM pgq_ext.duty_entries() d
    WHERE d.duty = 'presence' AND d.failing_since IS NULL AND d.next_run_at < clock_timestamp() - interval '1 min';
END $$;

CREATE FUNCTION pgq_ext.check_workers() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'fail', CASE WHEN w.launcher IS NULL THEN 'the launcher does not run'
                        ELSE format('%s schedulers have found no place', w.missing) END
    FROM pgq_ext.workers() w WHERE w.launcher IS NULL OR w.missing > 0;
END $$;

CREATE FUNCTION pgq_ext.check_duties() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN d.failing_since < clock_timestamp() - interval '5 min' THEN 'fail' ELSE 'warn' END,
           format('%s%s, %s errors in %s', d.duty, ' of queue "' || q.queue || '"', d.failures, pgq_ext.ago(d.failing_since))
    FROM pgq_ext.duty_entries() d LEFT JOIN pgq_ext.queue q USING (queue_id)
    WHERE d.failing_since IS NOT NULL;
END $$;

CREATE FUNCTION pgq_ext.check_lost_leases() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s": %s, the first for %s', q.queue, l.lost, date_trunc('second', make_interval(secs => l.lost_by)))
    FROM pgq_ext.late_leases() l JOIN pgq_ext.queue q USING (queue_id) WHERE l.lost_by > 10;
END $$;

CREATE FUNCTION pgq_ext.check_repairs() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s": %s since %s', q.queue, e.repaired, date_trunc('second', e.loaded_at))
    FROM pgq_ext.stat_entries() e JOIN pgq_ext.queue q USING (queue_id) WHERE e.repaired > 0;
END $$;

CREATE FUNCTION pgq_ext.check_capacity() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN c.used >= c.bound THEN 'fail' ELSE 'warn' END,
           format('%s: %s of %s (%s)', c.name, c.used, c.bound, c.guc)
    FROM pgq_ext.capacity_entries() c
    -- A full window, timer or table of batches is no fault: the rest is read from the tables.
    WHERE c.used > 0.8 * c.bound AND c.guc NOT IN ('pgq_ext.window_size', 'pgq_ext.timer_size', 'pgq_ext.max_watched_batches');
END $$;

CREATE FUNCTION pgq_ext.check_tables() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgq_ext.verify_tables();
    RETURN QUERY
    SELECT 'fail', format('index %s is not valid', i.indexrelid::regclass)
    FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid
    WHERE c.relnamespace = 'pgq_ext'::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
    UNION ALL
    SELECT 'warn', format('trigger %s of %s is switched off', t.tgname, t.tgrelid::regclass)
    FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid
    JOIN pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = c.relnamespace
    WHERE c.relnamespace = 'pgq_ext'::regnamespace AND t.tgenabled = 'D'
    UNION ALL
    SELECT 'warn', format('foreign key %s of %s locks rows of %s', k.conname, k.conrelid::regclass, k.confrelid::regclass)
    FROM pgq_ext.segment_entries() e JOIN pg_constraint k ON k.confrelid = e.relation AND k.contype = 'f'
    UNION ALL
    SELECT 'warn', format('pgq_ext.queue_handler has a handler of the queue with queue_id %s, which does not exist', h.queue_id)
    FROM pgq_ext.queue_handler h WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = h.queue_id);
END $$;

CREATE FUNCTION pgq_ext.check_subscription() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT DISTINCT 'warn', format('%s brings the jobs of this database', b.what)
    FROM pgq_ext.rotation_blocker b WHERE b.kind = 'subscription';
END $$;

CREATE FUNCTION pgq_ext.check_rotation() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
DECLARE
    held integer[] = ARRAY(SELECT e.segment FROM pgq_ext.segment_entries() e
                           WHERE e.empty_since < clock_timestamp() - interval '10 min');
BEGIN
    IF cardinality(held) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'warn', format('%s could be truncated for %s, %s', e.relation::regclass, pgq_ext.ago(e.empty_since),
                          COALESCE('held by ' || pgq_ext.list(array_agg(DISTINCT CASE b.kind WHEN 'error' THEN 'an error' ELSE b.what END)
                                                              FILTER (WHERE b.kind IS NOT NULL)), 'held by nobody who is seen'))
    FROM pgq_ext.segment_entries() e LEFT JOIN pgq_ext.rotation_blocker b USING (segment)
    WHERE e.segment = ANY (held) GROUP BY e.segment, e.relation, e.empty_since;
END $$;

-- Finds the session, prepared transaction or replication slot that most keeps VACUUM from removing dead rows.
CREATE FUNCTION pgq_ext.check_snapshots() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
        RETURN NEXT ('warn', format('the sessions of others cannot be seen: GRANT pg_read_all_stats TO %I', current_user))::pgq_ext.finding;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN h.late THEN 'warn' ELSE 'ok' END, format('the oldest is that of %s%s', h.who, ', ' || pgq_ext.ago(h.since))
    FROM (SELECT format('process %s (%s)', a.pid, a.application_name) AS who, a.xact_start AS since,
                 a.xact_start < clock_timestamp() - interval '1 h' AS late, age(a.backend_xmin) AS xids
          FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
          UNION ALL
          SELECT format('prepared transaction "%s"', p.gid), p.prepared, p.prepared < clock_timestamp() - interval '1 h', age(p.transaction)
          FROM pg_prepared_xacts p
          UNION ALL
          SELECT format('replication slot "%s"', s.slot_name), NULL, NOT s.active, age(s.xmin)
          FROM pg_replication_slots s WHERE s.xmin IS NOT NULL) h
    ORDER BY h.late DESC NULLS LAST, h.xids DESC LIMIT 1;
END $$;

CREATE FUNCTION pgq_ext.check_prepared() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_prepared_xacts p WHERE p.database = current_database()) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH lock AS MATERIALIZED (SELECT * FROM pg_locks l WHERE l.pid IS NULL AND l.granted),
         -- A prepared transaction has no process. All its locks have one virtual transaction id: that of its
         -- session or, after a restart, one that the server has made up.
         held AS (SELECT DISTINCT x.transactionid
                  FROM lock x JOIN lock r ON r.virtualtransaction = x.virtualtransaction AND r.locktype = 'relation'
                  JOIN pgq_ext.segment_entries() e ON e.relation = r.relation
                  WHERE x.locktype = 'transactionid')
    SELECT CASE WHEN p.prepared < clock_timestamp() - interval '5 min' THEN 'warn' ELSE 'ok' END,
           format('"%s", prepared for %s', p.gid, pgq_ext.ago(p.prepared))
    FROM pg_prepared_xacts p JOIN held h ON h.transactionid = p.transaction
    WHERE p.database = current_database() ORDER BY p.prepared;
END $$;

CREATE FUNCTION pgq_ext.check_open_claims() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s": %s, the oldest %s beyond its lease, of %s', q.queue, l.open,
                          date_trunc('second', make_interval(secs => l.open_by)), COALESCE('process ' || l.open_pid, 'no session'))
    FROM pgq_ext.late_leases() l JOIN pgq_ext.queue q USING (queue_id) WHERE l.open > 0;
END $$;

CREATE FUNCTION pgq_ext.check_unclaimed() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    -- oldest_ready() reads rows of a queue. So call it last, and only for the queues that meet all other
    -- conditions.
    WITH alone AS MATERIALIZED (
        SELECT q.queue_id, q.queue, e.ready, e.leased FROM pgq_ext.queue q JOIN pgq_ext.queue_entries() e USING (queue_id)
        WHERE NOT q.paused AND COALESCE(e.ready, 1) > 0 AND e.waiting_claims = 0
          AND COALESCE(e.last_claim_at, e.loaded_at) < clock_timestamp() - interval '5 min'
          AND NOT EXISTS (SELECT FROM pgq_ext.handler_entries() h WHERE h.queue_id = q.queue_id AND h.state = 'paused')),
         aged AS MATERIALIZED (SELECT a.*, clock_timestamp() - pgq_ext.oldest_ready(a.queue_id) AS age FROM alone a)
    SELECT CASE WHEN s.leased > 0 THEN 'warn' ELSE 'fail' END,
           format('queue "%s": %s ready, the oldest for %s, %s in work', s.queue, s.ready, date_trunc('second', s.age), s.leased)
    FROM aged s WHERE s.age > interval '5 min';
END $$;

CREATE FUNCTION pgq_ext.check_paused() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" for %s', q.queue, COALESCE(pgq_ext.ago(q.paused_at)::text, 'nobody knows how long'))
    FROM pgq_ext.queue q WHERE q.paused AND COALESCE(q.paused_at, '-infinity') < clock_timestamp() - interval '1 h'
    UNION ALL
    SELECT 'warn', format('handler of queue "%s" for %s', q.queue, pgq_ext.ago(h.since))
    FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id)
    WHERE h.state = 'paused' AND h.since < clock_timestamp() - interval '1 h';
END $$;

CREATE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s": %s of %s', q.queue, e.depth, q.max_depth)
    FROM pgq_ext.queue_entries() e JOIN pgq_ext.queue q USING (queue_id) WHERE q.max_depth > 0 AND e.depth >= q.max_depth;
END $$;

CREATE FUNCTION pgq_ext.check_rates() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" has handed out nothing since the start of the server, and will not for %s', q.queue,
                          date_trunc('second', r.next_start - clock_timestamp()))
    FROM pgq_ext.queue q JOIN pgq_ext.stat_entries() s USING (queue_id) JOIN pgq_ext.unknown_starts() u USING (queue_id)
    JOIN (SELECT e.queue_id, max(e.next_start) AS next_start
          FROM (SELECT m.queue_id, m.next_start FROM pgq_ext.queue_entries() m
                UNION ALL SELECT g.queue_id, g.next_start FROM pgq_ext.group_entries() g WHERE g.group_id IS NULL) e
          GROUP BY e.queue_id) r USING (queue_id)
    WHERE s.handed_out = 0 AND r.next_start > clock_timestamp() + interval '1 min';
END $$;

-- Finds rows that still exist although their queue keeps them no longer. Attempts and finished jobs are left to
-- check_rotation(), since a TRUNCATE of their segment removes them.
CREATE FUNCTION pgq_ext.check_retention() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz = clock_timestamp() - interval '10 min';
BEGIN
    RETURN QUERY
    SELECT 'warn', format('dead letters of queue "%s", by %s', q.queue, pgq_ext.ago(d.died_at + q.keep_dead))
    FROM pgq_ext.queue q
    CROSS JOIN LATERAL (SELECT o.died_at FROM pgq_ext.dead_job o WHERE o.queue_id = q.queue_id ORDER BY o.died_at LIMIT 1) d
    WHERE d.died_at < due - q.keep_dead
    UNION ALL
    SELECT 'warn', 'unique keys' WHERE EXISTS (SELECT FROM pgq_ext.unique_key k WHERE k.until < due)
    UNION ALL
    -- An expired job in work is no fault: the worker has claimed the job in time, and may finish it.
    SELECT 'warn', 'jobs that have expired'
    WHERE EXISTS (SELECT FROM pgq_ext.job j WHERE j.expires_at < due AND NOT pgq_ext.is_leased(j.job_id));
END $$;

CREATE FUNCTION pgq_ext.check_schedules() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', CASE WHEN t.last_error IS NOT NULL THEN format('"%s" has an error', t.schedule)
                        ELSE format('"%s" is late by %s', t.schedule, pgq_ext.ago(t.next_run_at)) END
    FROM pgq_ext.timetable t
    WHERE NOT t.paused AND (t.last_error IS NOT NULL OR t.next_run_at < clock_timestamp() - interval '1 min');
END $$;

CREATE FUNCTION pgq_ext.check_batches() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    -- A database that was updated from 0.1 has no such column before pgq_ext.add_batch_columns().
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pgq_ext.job'::regclass AND a.attname = 'batch_id' AND NOT a.attisdropped) THEN
        RETURN;
    END IF;
    RETURN QUERY
    -- Whether a batch has members takes a look at the index of each segment. So look at a few of the oldest batches only.
    WITH oldest AS MATERIALIZED (SELECT * FROM pgq_ext.job_batch b WHERE b.pending ORDER BY b.batch_id LIMIT 10000),
         late AS MATERIALIZED (
        SELECT o.batch_id, o.created_at, o.closed_at FROM oldest o
        WHERE o.finished_at IS NULL AND NOT o.restored
          AND (o.closed_at < clock_timestamp() - interval '5 min' AND o.last_error IS NULL
               OR o.closed_at IS NULL AND o.created_at < clock_timestamp() - interval '1 day')
        ORDER BY o.batch_id LIMIT 1000)
    SELECT CASE WHEN l.closed_at IS NULL THEN 'warn' ELSE 'fail' END,
           CASE WHEN l.closed_at IS NULL THEN format('batch %s is open for %s and has no live members', l.batch_id, pgq_ext.ago(l.created_at))
                ELSE format('batch %s is closed for %s, has no live members, and is not finished', l.batch_id, pgq_ext.ago(l.closed_at)) END
    -- OFFSET keeps the planner from reading the members of all batches at once.
    FROM late l WHERE NOT EXISTS (SELECT FROM pgq_ext.job j WHERE j.batch_id = l.batch_id OFFSET 0) ORDER BY l.batch_id;
    RETURN QUERY
    SELECT 'warn', format('batches of a dump that wait for their first look: %s%s', CASE WHEN count(*) = 1000 THEN 'at least ' END, count(*))
    FROM (SELECT FROM (SELECT b.restored FROM pgq_ext.job_batch b WHERE b.pending ORDER BY b.batch_id LIMIT 10000) o WHERE o.restored LIMIT 1000) r
    HAVING count(*) > 0;
END $$;

CREATE FUNCTION pgq_ext.check_callbacks() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('batch %s: %s tries to enqueue a callback have failed', b.batch_id, b.failures)
    FROM (SELECT * FROM pgq_ext.job_batch o WHERE o.pending ORDER BY o.batch_id LIMIT 10000) b
    WHERE b.last_error IS NOT NULL ORDER BY b.batch_id LIMIT 100;
END $$;

CREATE FUNCTION pgq_ext.check_children() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    -- Each dead letter and each child takes a look at the index of each segment. So look at a few dependencies only.
    WITH held AS MATERIALIZED (
        SELECT d.parent_id, d.child_id, d.on_failure FROM pgq_ext.job_dependency d ORDER BY d.parent_id LIMIT 10000),
         parent AS MATERIALIZED (
        SELECT p.parent_id, (SELECT x.died_at FROM pgq_ext.dead_job x WHERE x.job_id = p.parent_id LIMIT 1) AS died_at
        FROM (SELECT DISTINCT h.parent_id FROM held h WHERE h.on_failure = 3) p)
    SELECT 'warn', format('job %s is a dead letter for %s, and jobs wait for it: %s', w.parent_id, pgq_ext.ago(w.died_at), w.n)
    FROM (SELECT p.parent_id, p.died_at,
                 -- The run_at of blocked jobs. OFFSET keeps the planner from reading all jobs.
                 (SELECT count(*) FROM held h WHERE h.parent_id = p.parent_id AND h.on_failure = 3
                  AND EXISTS (SELECT FROM pgq_ext.job j WHERE j.job_id = h.child_id AND j.run_at = '9999-12-01 00:00:00+00' OFFSET 0)) AS n
          FROM parent p WHERE p.died_at < clock_timestamp() - interval '1 hour' ORDER BY p.parent_id LIMIT 100) w
    WHERE w.n > 0 ORDER BY w.parent_id;
END $$;

CREATE FUNCTION pgq_ext.check_handlers() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" for %s: %s', q.queue, pgq_ext.ago(h.since), h.reason)
    FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id) WHERE h.state = 'suspended' ORDER BY h.since;
END $$;

CREATE FUNCTION pgq_ext.check_handler_calls() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    -- From 20 failed calls in a row on, the calls of a handler wait for each other. That does not matter while the
    -- queue has no jobs.
    SELECT 'warn', format('queue "%s": %s%s', q.queue,
                          CASE WHEN h.failures_in_row >= 20 THEN format('%s calls have failed in a row', h.failures_in_row) ELSE 'calls have failed' END,
                          ', and none begins for ' || date_trunc('second', GREATEST(h.next_try_at - clock_timestamp(), '0')))
    FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id) JOIN pgq_ext.queue_entries() e USING (queue_id)
    WHERE h.next_try_at IS NOT NULL OR h.failures_in_row >= 20 AND COALESCE(e.ready + e.scheduled + e.leased, 1) > 0;
END $$;

CREATE FUNCTION pgq_ext.check_handler_workers() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('pgq_ext.max_handler_workers is 0, so %s handlers do not run', count(*))
    FROM pgq_ext.queue_handler h JOIN pgq_ext.queue q USING (queue_id)
    WHERE current_setting('pgq_ext.max_handler_workers') = '0' AND NOT h.paused HAVING count(*) > 0;
    RETURN QUERY
    -- oldest_ready() reads rows of a queue. So call it last, and only for the queues that wait for a worker slot.
    WITH waiting AS MATERIALIZED (
        SELECT q.queue_id, q.queue FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id)
        WHERE h.state = 'waiting for a worker slot'),
         aged AS MATERIALIZED (SELECT w.*, clock_timestamp() - pgq_ext.oldest_ready(w.queue_id) AS age FROM waiting w)
    SELECT 'warn', format('queue "%s" has none, and its oldest job is ready for %s', a.queue, date_trunc('second', a.age))
    FROM aged a WHERE a.age > interval '5 min';
END $$;

CREATE FUNCTION pgq_ext.check_topics() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" was full, and publishes have left out %s jobs, the last %s ago', q.queue, e.skipped, pgq_ext.ago(e.last_skip_at))
    FROM pgq_ext.skip_entries() e JOIN pgq_ext.queue q USING (queue_id) WHERE e.last_skip_at > clock_timestamp() - interval '1 h';
    RETURN QUERY
    SELECT 'warn', CASE WHEN q.queue_id IS NULL THEN format('pattern "%s" is bound to the queue with queue_id %s, which does not exist', b.pattern, b.queue_id)
                        ELSE format('queue "%s" is bound to "%s", which is not a pattern', q.queue, b.pattern) END
    FROM (SELECT o.queue_id, o.pattern FROM ONLY pgq_ext.topic_binding o ORDER BY o.queue_id, o.pattern LIMIT 10000) b
    LEFT JOIN pgq_ext.queue q USING (queue_id)
    WHERE q.queue_id IS NULL OR NOT pgq_ext.is_pattern(b.pattern) ORDER BY b.queue_id, b.pattern;
    RETURN QUERY
    -- The view of the rights counts only if it has the owner of the tables (src/catalog/topic_rights.h).
    SELECT 'warn', CASE WHEN NOT pgq_ext.is_pattern(p.pattern) THEN format('"%s", which has rights, is not a pattern, and closes no topic', p.pattern)
                        ELSE format('the view pgq_ext.topic_rights_%s is missing, so only the owner has rights by the pattern "%s"', p.pattern_id, p.pattern) END
    FROM (SELECT o.pattern_id, o.pattern FROM ONLY pgq_ext.topic_pattern o ORDER BY o.pattern_id LIMIT 10000) p
    WHERE NOT pgq_ext.is_pattern(p.pattern)
       OR NOT EXISTS (SELECT FROM pg_class c JOIN pg_class t ON t.oid = 'pgq_ext.topic_pattern'::regclass AND t.relowner = c.relowner
                      WHERE c.relname = 'topic_rights_' || p.pattern_id AND c.relnamespace = 'pgq_ext'::regnamespace AND c.relkind = 'v');
END $$;

CREATE FUNCTION pgq_ext.check_watched_tables() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT e.status, format('table %s, target %s: %s', e.relation::regclass, e.target, e.problem)
    FROM pgq_ext.watch_entries() e WHERE e.problem IS NOT NULL;
END $$;

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p
             WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgq_ext'::pg_catalog.regnamespace AND p.prorettype OPERATOR(pg_catalog.=) 'pgq_ext.finding'::pg_catalog.regtype LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
        EXECUTE pg_catalog.format('COMMENT ON FUNCTION %s IS %L', f, 'Internal: a check of pgq_ext.health.');
    END LOOP;
END $$;

-- ---- the view ----

CREATE FUNCTION pgq_ext.run_check(name text, OUT status text, OUT detail text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    EXECUTE format($query$
        SELECT CASE WHEN bool_or(f.status = 'fail') THEN 'fail' WHEN bool_or(f.status = 'warn') THEN 'warn' ELSE 'ok' END,
               pgq_ext.list(COALESCE(array_agg(f.detail ORDER BY f.status, f.n) FILTER (WHERE f.status <> 'ok'),
                                     array_agg(f.detail ORDER BY f.n)))
        FROM pgq_ext.%I() WITH ORDINALITY f (status, detail, n) $query$, 'check_' || replace(name, ' ', '_'))
    INTO status, detail;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.run_check FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.run_check IS 'Internal: the findings of a check, in one line; detail is NULL if the check has found nothing.';

-- This function runs with the rights of the owner, so that a monitoring role needs no rights on the tables. The
-- settings keep the function from waiting for locks and from reading more than a few rows of each table.
CREATE FUNCTION pgq_ext.health_entries(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp SET intervalstyle = postgres SET datestyle = iso SET lock_timeout = '100ms' SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    c record;
    -- A role that owns an object of pgq_ext and is neither a superuser nor the owner of this function. Code that
    -- this role has added to a table or a view would run with the rights of this function's owner.
    stranger text = (SELECT r.rolname
                     FROM (SELECT k.relowner AS owner FROM pg_class k WHERE k.relnamespace = 'pgq_ext'::regnamespace
                           UNION SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = 'pgq_ext'::regnamespace) o
                     JOIN pg_roles r ON r.oid = o.owner WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1);
BEGIN
    FOR c IN SELECT v.* FROM (VALUES
        ('library', NULL, 'Run ALTER EXTENSION pgq_ext UPDATE in this database; if its library is the older one, install the newer and restart the server.'),
        ('tables', 'as they should be', 'Undo the change of the table. REINDEX an index that is not valid. ALTER TABLE ... ENABLE TRIGGER for a disabled trigger. DELETE a handler without a queue.'),
        ('subscription', 'none brings jobs', 'This database hands out no job while the subscription exists. Drop the subscription if the database is to take over.'),
        ('workers', 'all have a place', 'Raise max_worker_processes, or pgq_ext.max_databases, and restart the server.'),
        ('scheduler', NULL, 'See the server log. Queues work without a scheduler, but lost attempts are not counted and storage grows.'),
        ('duties', 'none fails', 'SELECT * FROM pgq_ext.duty WHERE failing_since IS NOT NULL says why.'),
        ('lost leases', 'all are counted', 'See the checks scheduler and duties.'),
        ('repairs', 'none', 'A job was missing in shared memory because of a bug, and was added again. Please report this, with the WARNING in the server log.'),
        ('capacity', 'no bound is near', 'Raise the setting. SELECT * FROM pgq_ext.capacity shows the memory that this costs.'),
        ('rotation', 'nothing is held back', 'End the session or transaction that keeps the segment from being truncated. See SELECT * FROM pgq_ext.segment.'),
        ('snapshots', 'none is old', 'End the transaction, or drop the replication slot. Dead rows cannot be removed while the transaction or slot exists.'),
        ('prepared', 'none holds jobs', 'Run COMMIT PREPARED or ROLLBACK PREPARED. SELECT * FROM pg_prepared_xacts shows the owner of the transaction.'),
        ('open claims', 'none is older than its lease', 'End the transaction, or claim with a longer lease_time. No other worker gets the job before the transaction has ended.'),
        ('unclaimed', 'no queue is left alone', 'Start workers, or more of them. If a handler runs the jobs of the queue, see the checks of handlers.'),
        ('paused', 'none for long', 'SELECT pgq_resume_queue(...), or pgq_resume_handler(...), if it is not to be so.'),
        ('depth', 'no queue is full', 'Start more workers, or raise the limit: SELECT pgq_alter_queue(..., max_depth => ...).'),
        ('rates', 'no queue stands still after a start', 'After a crash the server does not know how many jobs have started, and counts as many as the limit allows. To start jobs at once, run SELECT pgq_alter_queue(..., rate_limit => 0), and set the limit again in another transaction. Do the same with group_rate_limit.'),
        ('retention', 'nothing is kept beyond its time', 'See the checks scheduler and duties. If the rows are locked, pg_locks shows by which session.'),
        ('schedules', 'all run in time', 'SELECT schedule, last_error FROM pgq_ext.schedule says why.'),
        ('batches', 'no batch is stuck', 'If a batch is open and has no live members, add members, or run SELECT pgq_close_batch(...). If a closed batch does not finish, see the checks scheduler and duties. The scheduler looks at batches of a dump when the restore has ended.'),
        ('callbacks', 'all callbacks could be enqueued', 'SELECT batch, last_error, next_try_at FROM pgq_ext.batch WHERE last_error IS NOT NULL says why. Create the queue, make room in it, or grant the maker the right to enqueue: the scheduler tries again.'),
        ('children', 'none waits for a dead letter', 'Redrive the dead letter: SELECT pgq_retry(...). Or delete it, which cancels the jobs: SELECT pgq_cancel(...).'),
        ('handlers', 'none is suspended', 'Remove the reason: the handler then runs within seconds. If its function was dropped or has another owner, or the handler came from a dump, check the function, then run SELECT pgq_resume_handler(...). SELECT pgq_drop_handler(...) if it is not needed. No attempt is counted.'),
        ('handler calls', 'none fails again and again', 'SELECT queue, last_error, next_try_at FROM pgq_ext.handler says why. Correct the function, or what it uses. The calls are one at a time, up to 30 s apart, until one succeeds; after a crash of the server none begins for up to an hour.'),
        ('handler workers', 'no handler lacks a worker', 'Raise pgq_ext.max_handler_workers (and max_worker_processes), and restart the server; or set fewer workers for handlers whose calls take long.'),
        ('topics', 'all patterns lead to queues', 'If a queue was full, start more workers, or raise max_depth; to let publishes fail instead, bind the queue again with {"when_full": "error"}. DELETE a row of pgq_ext.topic_binding or pgq_ext.topic_pattern without a queue, or with a bad pattern. If a view is missing, grant the rights again with pgq_grant_topic.'),
        ('watched tables', 'no change is missed', 'Call pgq_watch_table for the table and target again: it makes triggers that are missing or disabled, and takes other columns. Or stop the watch with pgq_unwatch_table. SELECT * FROM pgq_ext.watch shows all watches.')) AS v (name, ok, hint)
    LOOP
        checked_at := clock_timestamp();
        BEGIN
            -- Shared memory has the data for this check on the primary only.
            IF pg_is_in_recovery() THEN
                status := 'ok';
                detail := 'not looked at: the server is a standby';
            ELSIF stranger IS NOT NULL THEN
                RAISE '%', format('not looked at: tables or views of pgq_ext belong to %I, %s does not', stranger, 'pgq_ext.health_entries()')
                USING ERRCODE = '42501', HINT = format('If %1$I is to own all objects of pgq_ext: ALTER FUNCTION pgq_ext.health_entries() OWNER TO %1$I; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgq_ext TO %1$I.', stranger);
            ELSE
                SELECT r.status, COALESCE(r.detail, c.ok) INTO status, detail FROM pgq_ext.run_check(c.name) r;
            END IF;
            hint := CASE WHEN status <> 'ok' THEN c.hint END;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            status := 'fail';
            detail := format('%s (%s)', SQLERRM, SQLSTATE);
            hint := COALESCE(NULLIF(hint, ''), c.hint);
        END;
        "check" := c.name;
        RETURN NEXT;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.health_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.health_entries IS 'Internal: runs the checks of pgq_ext.health, each on its own, with the rights of the owner of the extension.';

-- The reader is the role of the session, not current_user: in a SECURITY DEFINER function, current_user is the owner.
CREATE FUNCTION pgq_ext.health_of_reader(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reader name = CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF NOT has_any_column_privilege(reader, 'pgq_ext.health', 'SELECT') THEN
        RAISE 'permission denied for view health'
        USING ERRCODE = '42501', HINT = format('Run GRANT SELECT ON pgq_ext.health TO %I.', reader);
    END IF;
    RETURN QUERY SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_entries() h;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.health_of_reader FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.health_of_reader IS 'Internal: the rows of the view pgq_ext.health, for roles that may read the view.';

CREATE FUNCTION pgq_ext.health_rows(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF has_function_privilege('pgq_ext.health_entries()', 'EXECUTE') THEN
        RETURN QUERY SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_entries() h;
    ELSE
        RETURN QUERY SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_of_reader() h;
    END IF;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.health_rows FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.health_rows IS 'Internal: the rows of the view pgq_ext.health.';

CREATE VIEW pgq_ext.health AS
SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_rows() h;
COMMENT ON VIEW pgq_ext.health IS
'Problems of the queues in this database, one row for each check. status: ok, warn (look at it) or fail (something does not work, or could not be checked). detail: the findings, with names of queues, schedules, processes and transactions, but no data of jobs. hint: the remedy. The view raises no error, even if the library is not loaded or has another version: a row says so.';
GRANT USAGE ON SCHEMA pgq_ext TO pg_monitor;
GRANT SELECT ON pgq_ext.health TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgq_ext.health_entries TO pg_monitor;
