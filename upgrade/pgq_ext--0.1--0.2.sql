-- What 0.2 has beyond 0.1: the same statements as in src/schema, in their order.

\echo Use "ALTER EXTENSION pgq_ext UPDATE" to load this file. \quit

-- What is written by this script is written by a superuser, so nothing of others may be fired by it: not what always fires either,
-- which the owner of the tables can have made.
LOCK TABLE pgq_ext.unique_key IN SHARE ROW EXCLUSIVE MODE;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass
               AND tgenabled OPERATOR(pg_catalog.=) ANY (ARRAY['A', 'R']::"char"[]))
       OR EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass
               AND ev_enabled OPERATOR(pg_catalog.=) ANY (ARRAY['A', 'R']::"char"[]))
    THEN
        RAISE 'table "pgq_ext.unique_key" has triggers or rules that are not of pgq_ext, and always fire'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Drop them, then update the extension.';
    END IF;
END $$;

-- REPLICA IDENTITY of src/schema, without the lock of ALTER TABLE, for which who works would wait until this is committed.
SET LOCAL session_replication_role = replica; -- nothing of who may add a trigger there is fired
DELETE FROM pgq_ext.unique_key a USING pgq_ext.unique_key b
WHERE a.job_id OPERATOR(pg_catalog.=) b.job_id AND a.until OPERATOR(pg_catalog.=) b.until AND a.ctid OPERATOR(pg_catalog.<) b.ctid;
SET LOCAL session_replication_role = origin;
CREATE UNIQUE INDEX unique_key_by_job ON pgq_ext.unique_key (job_id, until);
UPDATE pg_catalog.pg_index SET indisreplident = true WHERE indexrelid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key_by_job'::pg_catalog.regclass;
UPDATE pg_catalog.pg_class SET relreplident = 'i' WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.unique_key'::pg_catalog.regclass;
UPDATE pg_catalog.pg_class SET relreplident = 'f' WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.run'::pg_catalog.regclass;

-- Segments that are there already get what create_segments() gives to new ones.
DO $$
DECLARE
    segment pg_catalog.regclass;
BEGIN
    FOR segment IN SELECT i.inhrelid FROM pg_catalog.pg_inherits i
                   WHERE i.inhparent IN ('pgq_ext.job'::pg_catalog.regclass, 'pgq_ext.dead_job'::pg_catalog.regclass)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 1000000,
            autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000,
            toast.autovacuum_vacuum_threshold = 1000000, toast.autovacuum_vacuum_insert_threshold = -1)', segment);
    END LOOP;
END $$;

-- ---- ids that know their shard ----

-- A dump has the value of a member's sequence and not its step, but it has this row, and a CHECK is asked of it by whatever
-- door it comes: a restore with triggers switched off, logical replication.
CREATE FUNCTION pgq_ext.step_job_ids(shard integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    IF shard NOT BETWEEN 0 AND 1023 THEN
        RETURN false;
    END IF;
    -- Waits for every transaction that has taken an id, and no other takes one before this one ends.
    ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1024;
    SELECT last_value + is_called::integer INTO next_id FROM pgq_ext.job_id_seq WHERE last_value % 1024 <> shard;
    -- One that is of the shard stays as it is, so that a restore may bring it before this row, or after.
    IF FOUND THEN
        next_id := next_id + (shard - next_id % 1024 + 1024) % 1024;
        EXECUTE pg_catalog.format('ALTER SEQUENCE pgq_ext.job_id_seq RESTART WITH %s', next_id);
    END IF;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.step_job_ids FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.step_job_ids IS
'Internal: from the next one on ids of jobs leave the remainder shard when they are divided by 1024. False: there is no shard of that number.';

CREATE TABLE pgq_ext.shard (
    only_row boolean DEFAULT true PRIMARY KEY CHECK (only_row),
    shard    integer NOT NULL CHECK (pgq_ext.step_job_ids(shard))
);
COMMENT ON TABLE pgq_ext.shard IS
'Which shard this database is: ids of its jobs leave this remainder when they are divided by 1024. No row: none. Set by pgq_set_shard.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.shard', '');

CREATE FUNCTION pgq_set_shard(shard int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_shard';
REVOKE ALL ON FUNCTION pgq_set_shard FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_shard IS
'This database is shard number 0 to 1023 of several: every id of a job leaves that remainder when it is divided by 1024, so that who has one knows where its job is. Ids grow by 1024 from here on, and are used once, as before. Waits for transactions that have enqueued, and from here to the end of this one nobody can. Called with the number that it has, it does nothing but make sure of it. Errors: 55000 there are jobs, dead letters, or records of jobs, with ids of another number, or of none; 22023 no such number; 22004 none; 25001 not in a READ COMMITTED transaction.';

ALTER TABLE pgq_ext.saved_lease ADD COLUMN lease_time bigint;

-- What they say of themselves.
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs under a lease of lease_time (1 s to 7 days; default: the queue''s). With wait (at most 60 s) waits for the first one; returns empty in time for statement_timeout. Each job must be answered: with pgq_ack, pgq_fail or pgq_release; if the lease expires, or the claiming transaction rolls back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and nothing claimed.';

COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues), in the order of the array, waiting on all of them at once. Of no queue: nothing, at the end of wait.';

COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and somebody else gets the job after delay (0 or more); with 0 it keeps its place in the order. False: the lease is not current, nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

COMMENT ON FUNCTION pgq_extend IS
'Let the lease end lease_time from now (default: the length that the claim or the last extension asked for; capped by the queue''s max_runtime), and return its end; a later end stays. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: its worker should stop.';

COMMENT ON FUNCTION pgq_enqueue IS
'Add a job and return its id. It can be claimed once the transaction has committed, and not before delay has passed or run_at is reached. Jobs go out by priority (high first), run_at, job_id (of a fair queue: by priority, groups in turn). group_key (1 to 255 bytes): the group that the queue''s group_concurrency, group_rate_limit, fifo and fair speak of. max_attempts NULL: what the queue says. A job that nobody has been handed when expires_in has passed is ended, and counted as expired. unique_key (1 to 255 bytes): at most one job of the queue has it, until it has ended (unique_until finished) or was handed out (claimed), and for unique_for at least; if one has it the answer is its id, and on_conflict says what becomes of it: keep (nothing), replace (it becomes the new one), preserve_run_at (but its time stays), append (the payload, an array, is appended), error. One that waits is not handed out before this transaction has ended; one in work is not changed. Errors: 42704 no such queue, PQ002 the queue is full (max_depth), 22004 queue or payload is null, 22023 bad value, 23505 the key is taken, 40001 by a job that the snapshot does not see, 53400 pgq_ext.max_leases.';

COMMENT ON FUNCTION pgq_retry IS
'A job that is scheduled or backs off is due delay from now; one that is ready keeps its place if delay is 0. A dead one is a job again, under its id, with all its attempts. False: it is leased, it has expired, or there is none. To bring back some: SELECT pgq_retry(job_id) FROM pgq_ext.dead_job WHERE .... Errors: 22023 bad delay, PQ002 it is dead and its queue is full, 53400 too many jobs are claimed at the same time.';

COMMENT ON FUNCTION pgq_update IS
'Change a job that waits; NULL leaves a thing as it is. False: it is leased, it has expired, or there is none. Waits for a transaction that is changing it. No claim hands it out before this transaction ends. Errors: 42704 no such queue, 22023 bad value, PQ002 the other queue is full (max_depth), 53400 too many jobs are claimed at the same time.';

COMMENT ON FUNCTION pgq_schedule_preview IS
'The next n (at most 10000) moments at which such a schedule would run, up to the year 9999. Errors: 22004 no cron, 22023 bad value, or a cron that would not run in the next 40 years.';

COMMENT ON FUNCTION pgq_lock IS
'Hold a name, alone or as one of slots (1 to 1024), for ttl (1 s and more). Returns a token, greater than those of all who held it before, or NULL: not got within wait (at most 60 s; first come, first served). It is held from the call, by others'' eyes too, and is undone by rollback; before the transaction has ended nobody else gets it, whatever ttl is. With session_bound it also ends with the session, and costs no write; ttl counts all the same. owner is a label (default: application_name). Errors: 22023 bad value, 53400 pgq_ext.max_locks reached, 40P01 a deadlock.';

COMMENT ON FUNCTION pgq_take IS
'Take permits of a rate (at most its burst): true, go ahead. With wait (at most 60 s) they are reserved, and waited for, if they can be had in that time. False: not yet. What was taken is not given back by rollback. A rate that this transaction has created is empty. Errors: 42704 no such rate, 22023 bad value, 53400 pgq_ext.max_rates reached, 55000 a wait for a rate that this transaction has created.';

COMMENT ON TABLE pgq_ext.run IS
'What pgq_run_once has begun, a row for each name and period (NULL: once for ever): the token and owner of the last try, when it began, when it was finished (NULL: it is not), with which result, and how many tries there were. Of each name and period the newest pgq_ext.keep_runs that are finished are kept, and as many that are not.';

-- An operator of the schema of the extension may have been nearer to these than one of pg_catalog.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_constraint c ON d.objid OPERATOR(pg_catalog.=) c.oid
               WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
               AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass
               AND c.conrelid OPERATOR(pg_catalog.=) 'pgq_ext.queue'::pg_catalog.regclass)
    THEN
        ALTER TABLE pgq_ext.queue DROP CONSTRAINT queue_backoff_jitter_check,
            ADD CONSTRAINT queue_backoff_jitter_check CHECK (backoff_jitter BETWEEN 0::float8 AND 1::float8);
    END IF;
END $$;
CREATE OR REPLACE VIEW pgq_ext.job_status WITH (security_barrier) AS
SELECT j.job_id, q.queue,
       CASE WHEN l.state IN ('claimed', 'claiming') THEN 'leased'
            WHEN j.run_at > pg_catalog.clock_timestamp() AND (j.run_at > j.enqueued_at OR j.attempts > 0) THEN 'scheduled'
            ELSE 'ready' END AS state,
       CASE WHEN l.state IN ('claimed', 'claiming') THEN NULL
            WHEN l.state = 'lost' THEN 'its last lease was lost; the retry is being scheduled'
            WHEN l.state = 'parked' THEN 'another transaction has locked or changed its row'
            WHEN j.expires_at <= pg_catalog.clock_timestamp() THEN 'nothing: it has expired'
            WHEN l.state = 'changing' THEN 'a transaction that is changing or ending it'
            WHEN l.state = 'held' THEN 'a transaction that has enqueued it once more (unique_key)'
            WHEN l.state = 'moving' THEN 'its row is being moved to another segment'
            WHEN j.run_at > pg_catalog.clock_timestamp() AND j.attempts > 0 THEN 'backoff until run_at'
            WHEN j.run_at > pg_catalog.clock_timestamp() AND j.run_at > j.enqueued_at THEN 'run_at'
            WHEN q.paused THEN 'the queue is paused'
            WHEN q.fifo AND EXISTS (SELECT FROM pgq_ext.job f WHERE f.queue_id = j.queue_id AND f.group_id = j.group_id AND f.job_id < j.job_id) THEN 'an earlier job of its group (fifo)'
            WHEN q.group_concurrency > 0 AND g.running >= q.group_concurrency THEN 'one of the jobs of its group in work, of which there are as many as may be (group_concurrency)'
            WHEN COALESCE(r.next_start, o.next_start) > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate of its group (group_rate_limit), until ', COALESCE(r.next_start, o.next_start))
            WHEN q.concurrency > 0 AND e.running >= q.concurrency THEN 'one of the jobs in work, of which there are as many as may be (concurrency)'
            WHEN e.next_start > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate (rate_limit), until ', e.next_start)
            ELSE COALESCE(pgq_ext.behind(j.queue_id, j.priority, j.run_at, j.job_id, j.group_id),
                          CASE WHEN e.waiting_claims = 0 AND COALESCE(e.last_claim_at, e.loaded_at) < pg_catalog.clock_timestamp() - interval '5 min'
                               THEN 'a worker: nobody claims' END,
                          'a worker') END AS waits_for,
       j.priority, j.run_at, j.attempts, COALESCE(j.max_attempts, q.max_attempts) AS max_attempts,
       j.group_key, j.unique_key, j.enqueued_at, j.expires_at,
       CASE WHEN l.state = 'claimed' THEN l.worker END AS worker,
       CASE WHEN l.state = 'claimed' THEN l.lease_expires_at END AS lease_expires_at,
       j.last_error, j.progress
FROM pgq_ext.job j
JOIN pgq_ext.queue q USING (queue_id)
LEFT JOIN pgq_ext.queue_entries() e USING (queue_id)
LEFT JOIN pgq_ext.lease_entries() l ON l.job_id = j.job_id
LEFT JOIN (
    SELECT w.queue_id, w.group_id, pg_catalog.count(*) AS running
    FROM pgq_ext.lease_entries() h
    JOIN pgq_ext.job w ON w.job_id = h.job_id AND w.group_id IS NOT NULL
    WHERE h.state IN ('claimed', 'claiming')
    GROUP BY w.queue_id, w.group_id) g ON g.queue_id = j.queue_id AND g.group_id = j.group_id
LEFT JOIN pgq_ext.group_entries() r ON r.queue_id = j.queue_id AND r.group_id = j.group_id
LEFT JOIN pgq_ext.group_entries() o ON o.queue_id = j.queue_id AND o.group_id IS NULL AND j.group_id IS NOT NULL AND r.queue_id IS NULL
WHERE pgq_ext.may_see(q.queue_id);

CREATE OR REPLACE VIEW pgq_ext.segment AS
SELECT s.segment, s.relation, s.parent, s.state, s.live_rows, s.size, s.age,
       CASE WHEN s.state <> 'closed' THEN NULL
            ELSE NULLIF(pg_catalog.concat_ws(', ', CASE WHEN s.live_rows > 0 THEN 'live rows' END,
                 (SELECT pg_catalog.string_agg(DISTINCT b.what, ', ') FROM pgq_ext.rotation_blocker b WHERE b.segment = s.segment)), '') END AS held_by,
       s.truncations, s.moved_in, s.moved_out
FROM (SELECT e.segment, e.relation::pg_catalog.regclass AS relation, i.inhparent::pg_catalog.regclass AS parent,
             CASE WHEN e.is_current THEN 'current'
                  WHEN pg_catalog.pg_relation_size(e.relation) = 0 THEN 'empty'
                  WHEN e.is_survivors THEN 'survivors'
                  ELSE 'closed' END AS state,
             COALESCE(j.live_rows, 0) AS live_rows,
             pg_catalog.pg_total_relation_size(e.relation) AS size,
             CASE WHEN pg_catalog.isfinite(j.oldest) THEN pg_catalog.clock_timestamp() - j.oldest END AS age,
             e.truncations, e.moved_in, e.moved_out
      FROM pgq_ext.segment_entries() e
      JOIN pg_catalog.pg_inherits i ON i.inhrelid = e.relation
      -- A line for each ring.
      LEFT JOIN (SELECT segment, pg_catalog.count(*) AS live_rows, pg_catalog.min(enqueued_at) AS oldest
                 FROM pgq_ext.job GROUP BY segment
                 UNION ALL
                 SELECT segment, pg_catalog.count(*), pg_catalog.min(died_at)
                 FROM pgq_ext.dead_job GROUP BY segment
                 UNION ALL
                 SELECT segment, pg_catalog.count(*), pg_catalog.min(ended_at)
                 FROM pgq_ext.attempt GROUP BY segment
                 UNION ALL
                 SELECT segment, pg_catalog.count(*), pg_catalog.min(finished_at)
                 FROM pgq_ext.finished_job GROUP BY segment) j ON j.segment = e.segment) s;

CREATE FUNCTION pgq_ext.may_read(view text, "column" text) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_read';
COMMENT ON FUNCTION pgq_ext.may_read IS
'Internal: may the caller read that column of a view of pgq_ext by another grant than that to pg_monitor? Columns with tokens and payloads are NULL for readers that may not.';

-- A condition of the reader sees no rows that the reader may not.
ALTER VIEW pgq_ext.queue_status SET (security_barrier);
ALTER VIEW pgq_ext.queue_stats SET (security_barrier);
ALTER VIEW pgq_ext.queue_latency SET (security_barrier);
ALTER VIEW pgq_ext.duty SET (security_barrier);

CREATE OR REPLACE VIEW pgq_ext.schedule WITH (security_barrier) AS
SELECT t.schedule, t.cron, t.timezone, t.queue,
       CASE WHEN pgq_ext.may_read('schedule', 'payload') THEN t.payload END AS payload, t.missed,
       CASE WHEN pgq_ext.may_read('schedule', 'options') THEN t.options END AS options, t.paused,
       CASE WHEN NOT t.paused THEN t.next_run_at END AS next_run_at,
       t.last_run_at, t.last_job_id, t.last_error
FROM pgq_ext.timetable t LEFT JOIN pgq_ext.queue q USING (queue)
-- Without its queue nobody knows the rights there: it is its maker's.
WHERE CASE WHEN q.queue_id IS NOT NULL THEN pgq_ext.may_see(q.queue_id)
           ELSE pg_catalog.pg_has_role(t.maker, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE')
                OR pg_catalog.pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
                                           WHERE c.oid OPERATOR(pg_catalog.=) 'pgq_ext.timetable'::pg_catalog.regclass), 'USAGE') END;

-- The role that asks is the session's: with the rights of the owner nobody knows the reader any more.
CREATE FUNCTION pgq_ext.health_of_reader(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reader name = CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    IF NOT has_any_column_privilege(reader, 'pgq_ext.health', 'SELECT') THEN
        RAISE 'permission denied for view health'
        USING ERRCODE = '42501', HINT = format('GRANT SELECT ON pgq_ext.health TO %I.', reader);
    END IF;
    RETURN QUERY SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_entries() h;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.health_of_reader FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.health_of_reader IS 'Internal: what the view pgq_ext.health shows, to roles that may read it.';

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
COMMENT ON FUNCTION pgq_ext.health_rows IS 'Internal: what the view pgq_ext.health shows.';

CREATE OR REPLACE VIEW pgq_ext.health AS
SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_rows() h;

COMMENT ON VIEW pgq_ext.schedule IS
'Schedules. payload, options: NULL for readers by pg_monitor alone. next_run_at: its next tick, or, in the past, the one that could not run yet; NULL while it is paused. last_run_at: when it has enqueued last, and last_job_id: that job, or the one that had its unique key. last_error: why its last tick has no job, or that ticks were left out; NULL: all is well.';

COMMENT ON VIEW pgq_ext.lease IS
'Jobs in work: who holds them and until when; lease is NULL for readers by pg_monitor alone. Not those that somebody has deleted by hand: their workers are told by pgq_extend, pgq_ack and pgq_fail. in_transaction: an open transaction uses the lease, so it does not expire before that ends.';

COMMENT ON VIEW pgq_ext.lock IS
'Locks that are held: the slot, of how many, the token (NULL for readers by pg_monitor alone), who has got it (pid: NULL after a restart), until when, how many sessions wait for the name. One whose time is over is shown until somebody takes it, or for some seconds. in_transaction: somebody has taken it, or is giving it back, in a transaction that has not ended.';

COMMENT ON VIEW pgq_ext.health IS
'Is all well? One row a check. status: ok, warn (look at it) or fail (something does not work, or could not be looked at). detail: what was found; names of queues, schedules, processes and transactions, nothing of the jobs. hint: what to do. Never an error, also where the library is not loaded or of another version: that is a row.';

-- ---- the readers of the views: see src/catalog/reader.h ----

-- GRANT in the script of an extension makes all privileges of the object initial ones, which no dump has: also those
-- that the owner has granted. So the ones that were initial are noted, and get the new one only.
DO $$
DECLARE
    item record;
    initial aclitem[];
BEGIN
    FOR item IN
        SELECT 'pg_catalog.pg_class'::pg_catalog.regclass AS class, c.oid, c.relowner AS owner, 'SELECT' AS privilege, pg_catalog.acldefault('r', c.relowner) AS by_default,
               'pg_monitor'::pg_catalog.regrole::pg_catalog.oid AS role, pg_catalog.format('GRANT SELECT ON pgq_ext.%I TO pg_monitor', c.relname) AS command
        FROM pg_catalog.pg_class c WHERE c.relnamespace OPERATOR(pg_catalog.=) 'pgq_ext'::pg_catalog.regnamespace
            AND c.relname OPERATOR(pg_catalog.=) ANY ('{queue, queue_status, queue_stats, queue_latency, job_status, lease, capacity, segment, duty,
            schedule, lock, rate}'::pg_catalog.name[])
        UNION ALL
        SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, p.proowner, 'EXECUTE', pg_catalog.acldefault('f', p.proowner),
               0, pg_catalog.format('GRANT EXECUTE ON FUNCTION pgq_ext.%I TO PUBLIC', p.proname)
        FROM pg_catalog.pg_proc p WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgq_ext'::pg_catalog.regnamespace
            AND p.proname OPERATOR(pg_catalog.=) ANY ('{may_see, may_read, queue_entries, oldest_ready, stat_entries, latency_entries, lease_entries,
            group_entries, behind, capacity_entries, segment_entries, snapshot_holders, duty_entries,
            lock_entries, rate_entries, health_rows, health_of_reader}'::pg_catalog.name[])
    LOOP
        initial := (SELECT i.initprivs FROM pg_catalog.pg_init_privs i WHERE i.objoid OPERATOR(pg_catalog.=) item.oid
                    AND i.classoid OPERATOR(pg_catalog.=) item.class::pg_catalog.oid AND i.objsubid OPERATOR(pg_catalog.=) 0);
        EXECUTE item.command;
        initial := COALESCE(initial, item.by_default);
        IF NOT EXISTS (SELECT FROM pg_catalog.aclexplode(initial) a
                       WHERE a.grantee OPERATOR(pg_catalog.=) item.role AND a.privilege_type OPERATOR(pg_catalog.=) item.privilege) THEN
            initial := pg_catalog.array_append(initial, pg_catalog.makeaclitem(item.role, item.owner, item.privilege, false));
        END IF;
        UPDATE pg_catalog.pg_init_privs i SET initprivs = initial WHERE i.objoid OPERATOR(pg_catalog.=) item.oid
            AND i.classoid OPERATOR(pg_catalog.=) item.class::pg_catalog.oid AND i.objsubid OPERATOR(pg_catalog.=) 0;
        -- From 17 on the roles are noted, too.
        DELETE FROM pg_catalog.pg_shdepend d WHERE d.deptype OPERATOR(pg_catalog.=) 'i'
            AND d.dbid OPERATOR(pg_catalog.=) (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
            AND d.classid OPERATOR(pg_catalog.=) item.class::pg_catalog.oid AND d.objid OPERATOR(pg_catalog.=) item.oid
            AND d.refobjid OPERATOR(pg_catalog.<>) ALL (SELECT a.grantee FROM pg_catalog.aclexplode(initial) a);
    END LOOP;
END $$;

-- Who updates is a superuser; all belongs to the owner of the tables.
DO $$
DECLARE
    owner pg_catalog.regrole := (SELECT relowner::pg_catalog.regrole FROM pg_catalog.pg_class
                                 WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.queue'::pg_catalog.regclass);
BEGIN
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.shard OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER FUNCTION pgq_ext.step_job_ids OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER FUNCTION pgq_ext.may_read OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER FUNCTION pgq_ext.health_of_reader OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER FUNCTION pgq_ext.health_rows OWNER TO %s', owner);
END $$;
