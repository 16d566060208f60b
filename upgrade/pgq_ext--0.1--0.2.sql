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

ALTER TABLE pgq_ext.token_key ENABLE ROW LEVEL SECURITY;

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
-- door it comes: a restore with triggers switched off, logical replication. With the rights of the role that writes the row:
-- the owner's, or it cannot alter the sequence.
CREATE FUNCTION pgq_ext.step_job_ids(shard integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_id bigint;
BEGIN
    IF (shard BETWEEN 0 AND 1023) IS NOT TRUE THEN
        RETURN false;
    END IF;
    -- Waits for every transaction that has taken an id. Until this transaction ends, no other takes one.
    ALTER SEQUENCE pgq_ext.job_id_seq INCREMENT BY 1024;
    SELECT last_value + is_called::integer INTO next_id FROM pgq_ext.job_id_seq WHERE last_value % 1024 <> shard;
    -- A value that already belongs to the shard stays: a restore may set the sequence before or after this row.
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

CREATE FUNCTION pgq_rename_queue(queue text, new_name text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_rename_queue';
REVOKE ALL ON FUNCTION pgq_rename_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_rename_queue IS
'Give the queue another name from the commit on. The queue keeps its jobs, leases, counts, limits, rights and schedules; claims that wait get jobs under the new name. The old name is free then; NOTIFY comes on the channel of the new one. Errors: 42704 no such queue, 42710 a queue has the new name, 22004 NULL, 22023 the new name is not allowed.';

CREATE FUNCTION pgq_set_shard(shard int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_shard';
REVOKE ALL ON FUNCTION pgq_set_shard FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_shard IS
'This database is shard number 0 to 1023 of several: every id of a job leaves that remainder when it is divided by 1024, so that who has one knows where its job is. Ids grow by 1024 from here on, and are used once, as before. Waits for transactions that have enqueued, and from here to the end of this one nobody can. Called with the number that it has, it does nothing but make sure of it. Errors: 55000 there are jobs, dead letters, or records of jobs, with ids of another number, or of none; 22023 no such number; 22004 none; 25001 not in a READ COMMITTED transaction.';

ALTER TABLE pgq_ext.saved_lease ADD COLUMN lease_time bigint;
COMMENT ON TABLE pgq_ext.saved_lease IS
'Internal: leases, and what had started of queues with a rate and was taken of rates (job_id 0), as they were at a clean shutdown, restored at the start if no lease was handed out and nothing taken since (mark is that of pgq_ext.token_mark). Not dumped.';

-- What they say of themselves.
COMMENT ON FUNCTION pgq_alter_queue IS
'Change options of a queue, as in pgq_create_queue; NULL leaves one as it is. They hold from the commit on: lease_time for leases that are given after it, max_runtime also for those that are extended, what concerns the end of an attempt for those that end. Errors: 42704 no such queue, 22023 bad value.';
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs under a lease of lease_time (1 s to 7 days; default: the queue''s). With wait (at most 60 s) waits for the first one; returns empty in time for statement_timeout. Each job must be answered: with pgq_ack, pgq_fail or pgq_release; if the lease expires, or the claiming transaction rolls back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and nothing claimed.';

COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues), in the order of the array, waiting on all of them at once. Of no queue: nothing, at the end of wait.';

COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and somebody else gets the job after delay (0 or more); with 0 it keeps its place in the order. False: the lease is not current, nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

COMMENT ON FUNCTION pgq_extend IS
'Let the lease end lease_time from now (default: the length that the claim or the last extension asked for; capped by the queue''s max_runtime), and return its end. An end that is later already stays. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: its worker should stop.';

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

COMMENT ON VIEW pgq_ext.rate IS
'Rates, how much could be taken now, and when the next permit can be had. Both are NULL for a rate that is not in memory: it has not been used since the start of the server, nor before its clean stop, or was full when another rate needed its place.';

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
COMMENT ON FUNCTION pgq_ext.lease_entries IS
'Internal: the lease table. state: claiming, claimed, parked (its row is locked by somebody), moving (to another segment), changing (by a transaction that has taken the waiting job), held (by transactions that have enqueued the job once more by its unique_key: worker is one of them, as in pg_locks.virtualtransaction), lost. lease is NULL for a caller that may not read it in the view pgq_ext.lease.';

CREATE VIEW pgq_ext.job_state AS
SELECT j.job_id, j.queue_id, j.priority, j.run_at, j.attempts, j.group_id, j.group_key, j.unique_key, j.enqueued_at, j.expires_at,
       j.last_error, j.progress, j.xmax AS locked_by,
       q.queue, q.paused_at, COALESCE(j.max_attempts, q.max_attempts) AS max_attempts,
       l.state AS lease_state, l.attempt, l.worker, l.pid, l.lease_expires_at,
       j.expires_at <= pg_catalog.clock_timestamp() AS has_expired,
       j.run_at > pg_catalog.clock_timestamp() AND (j.run_at > j.enqueued_at OR j.attempts > 0) AS is_scheduled,
       q.paused AS is_paused,
       q.fifo AND EXISTS (SELECT FROM pgq_ext.job f WHERE f.queue_id = j.queue_id AND f.group_id = j.group_id AND f.job_id < j.job_id) AS is_behind_in_group,
       q.group_concurrency > 0 AND g.running >= q.group_concurrency AS is_group_full,
       COALESCE(r.next_start, o.next_start) AS group_next_start,
       q.concurrency > 0 AND e.running >= q.concurrency AS is_queue_full,
       e.next_start AS queue_next_start,
       e.waiting_claims = 0 AND COALESCE(e.last_claim_at, e.loaded_at) < pg_catalog.clock_timestamp() - interval '5 min' AS is_unclaimed
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
LEFT JOIN pgq_ext.group_entries() o ON o.queue_id = j.queue_id AND o.group_id IS NULL AND j.group_id IS NOT NULL AND r.queue_id IS NULL;
COMMENT ON VIEW pgq_ext.job_state IS
'Internal: every live job with its lease and all reasons why it is not handed out, for job_status and pgq_explain.';

CREATE OR REPLACE VIEW pgq_ext.job_status WITH (security_barrier) AS
SELECT s.job_id, s.queue,
       CASE WHEN s.lease_state IN ('claimed', 'claiming') THEN 'leased'
            WHEN s.is_scheduled THEN 'scheduled'
            ELSE 'ready' END AS state,
       CASE WHEN s.lease_state IN ('claimed', 'claiming') THEN NULL
            -- The first of the reasons of explain_job, in their order.
            WHEN s.lease_state = 'lost' THEN 'its last lease was lost; the retry is being scheduled'
            WHEN s.has_expired THEN 'nothing: it has expired'
            WHEN s.lease_state = 'held' THEN 'a transaction that has enqueued it once more (unique_key)'
            WHEN s.lease_state = 'moving' THEN 'its row is being moved to another segment'
            WHEN s.lease_state = 'changing' THEN 'a transaction that is changing or ending it'
            WHEN s.lease_state = 'parked' THEN 'another transaction has locked or changed its row'
            WHEN s.is_paused THEN 'the queue is paused'
            WHEN s.is_scheduled AND s.attempts > 0 THEN 'backoff until run_at'
            WHEN s.is_scheduled THEN 'run_at'
            WHEN s.is_group_full THEN 'one of the jobs of its group in work, of which there are as many as may be (group_concurrency)'
            WHEN s.is_behind_in_group THEN 'an earlier job of its group (fifo)'
            WHEN s.group_next_start > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate of its group (group_rate_limit), until ', s.group_next_start)
            WHEN s.queue_next_start > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate (rate_limit), until ', s.queue_next_start)
            WHEN s.is_queue_full THEN 'one of the jobs in work, of which there are as many as may be (concurrency)'
            ELSE COALESCE(pgq_ext.behind(s.queue_id, s.priority, s.run_at, s.job_id, s.group_id),
                          CASE WHEN s.is_unclaimed THEN 'a worker: nobody claims' END,
                          'a worker') END AS waits_for,
       s.priority, s.run_at, s.attempts, s.max_attempts, s.group_key, s.unique_key, s.enqueued_at, s.expires_at,
       CASE WHEN s.lease_state = 'claimed' THEN s.worker END AS worker,
       CASE WHEN s.lease_state = 'claimed' THEN s.lease_expires_at END AS lease_expires_at,
       s.last_error, s.progress
FROM pgq_ext.job_state s
WHERE pgq_ext.may_see(s.queue_id);
-- ---- why a job does not run, or what became of it ----

CREATE TYPE pgq_ext.explanation AS (
    step   text,
    detail text
);
COMMENT ON TYPE pgq_ext.explanation IS
'A reason why a job does not run, or what became of it. New attributes may come at the end.';

-- These functions are stable, so that they see what pgq_explain sees: what is committed by now, in every isolation level.
CREATE FUNCTION pgq_ext.name_of_transaction(virtualtransaction text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT COALESCE('prepared transaction "' || min(p.gid) || '"',
                    CASE WHEN min(l.pid) = pg_backend_pid() THEN 'this transaction' ELSE 'process ' || min(l.pid) END)
    FROM pg_locks l LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND l.locktype = 'transactionid' AND p.transaction = l.transactionid
    WHERE l.virtualtransaction = name_of_transaction.virtualtransaction
    HAVING count(*) > 0;
$$;
REVOKE ALL ON FUNCTION pgq_ext.name_of_transaction FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.name_of_transaction IS 'Internal: an open or prepared transaction, in words. NULL: it has ended.';

CREATE FUNCTION pgq_ext.jobs_in_work(queue_id integer, group_id bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    WITH held AS (
        SELECT l.job_id, row_number() OVER (ORDER BY l.claimed_at, l.job_id) AS n
        FROM pgq_ext.lease_entries() l JOIN pgq_ext.job j ON j.job_id = l.job_id
        WHERE l.state IN ('claimed', 'claiming') AND l.queue_id = jobs_in_work.queue_id
          AND (jobs_in_work.group_id IS NULL OR j.group_id = jobs_in_work.group_id))
    SELECT concat('in work: job ', string_agg(job_id::text, ', ' ORDER BY n) FILTER (WHERE n <= 10), CASE WHEN count(*) > 10 THEN ' and others' END)
    FROM held HAVING count(*) > 0;
$$;
REVOKE ALL ON FUNCTION pgq_ext.jobs_in_work FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.jobs_in_work IS 'Internal: jobs of the queue, or of one of its groups, that are in work, in words.';

CREATE FUNCTION pgq_ext.explain_job(job_id bigint, OUT queue_id integer, OUT step text, OUT detail text) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 5 SET search_path = pg_catalog, pg_temp AS $$
    WITH job AS MATERIALIZED (
        SELECT s.*, s.lease_state IN ('claimed', 'claiming') IS NOT TRUE AS waits,
               CASE WHEN s.lease_state = 'held' THEN pgq_ext.name_of_transaction(s.worker)
                    WHEN s.lease_state = 'changing' AND s.pid = pg_backend_pid() THEN 'this transaction'
                    WHEN s.lease_state = 'changing' THEN 'process ' || s.pid END AS holder,
               (SELECT pgq_ext.name_of_transaction(k.virtualtransaction) FROM pg_locks k
                WHERE k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted AND k.transactionid = s.locked_by) AS locker
        FROM pgq_ext.job_state s WHERE s.job_id = explain_job.job_id),
    -- The reasons for which the job is not handed out, in the order of the result.
    reason AS MATERIALIZED (
        SELECT j.queue_id, r.n, r.step, r.detail FROM job j CROSS JOIN LATERAL (VALUES
            (10, 'in work', CASE j.lease_state
                WHEN 'claimed' THEN concat('attempt ', j.attempt, ' of worker "', j.worker, '"', ', process ' || j.pid, ', lease until ', j.lease_expires_at)
                WHEN 'claiming' THEN concat('a claim of process ', j.pid, ' that has not returned') END),
            (20, 'prepared', CASE WHEN starts_with(j.locker, 'prepared') THEN concat(j.locker, ' has locked, changed or ended it')
                WHEN starts_with(j.holder, 'prepared') THEN concat(j.holder, ' has enqueued it once more (unique_key)') END),
            (30, 'lease lost', CASE WHEN j.lease_state = 'lost' THEN 'its last lease was lost; the retry is being scheduled' END),
            (40, 'expired', CASE WHEN j.waits AND j.has_expired THEN concat('no claim was given it before ', j.expires_at, ' (expires_in)') END),
            (50, 'unique key', CASE WHEN j.lease_state = 'held' AND starts_with(j.holder, 'prepared') IS NOT TRUE
                THEN concat(COALESCE(j.holder, 'a transaction'), ' has enqueued it once more (unique_key), and is open') END),
            (60, 'locked', CASE WHEN starts_with(j.locker, 'prepared') THEN NULL
                WHEN j.lease_state = 'moving' THEN 'its row is being moved to another segment'
                WHEN j.lease_state = 'changing' THEN concat(COALESCE(j.locker, j.holder, 'a transaction'), ' is changing or ending it, and is open')
                WHEN j.locker IS NOT NULL OR j.lease_state = 'parked'
                THEN concat(COALESCE(j.locker, 'a transaction'), ' has locked, changed or ended its row, and is open') END),
            (70, 'paused', CASE WHEN j.waits AND j.is_paused THEN concat('the queue is paused since ', j.paused_at) END),
            (80, 'not due', CASE WHEN j.waits AND j.is_scheduled THEN concat(CASE WHEN j.attempts > 0 THEN 'backoff' ELSE 'run_at' END, ', until ', j.run_at) END),
            (90, 'group full', CASE WHEN j.waits AND j.is_group_full THEN concat('group_concurrency; ', pgq_ext.jobs_in_work(j.queue_id, j.group_id)) END),
            (100, 'fifo', CASE WHEN j.waits AND j.is_behind_in_group THEN concat('job ', (
                SELECT min(f.job_id) FROM pgq_ext.job f WHERE f.queue_id = j.queue_id AND f.group_id = j.group_id), ' of its group goes first') END),
            (110, 'group rate', CASE WHEN j.waits AND j.group_next_start > clock_timestamp() THEN concat('group_rate_limit, until ', j.group_next_start) END),
            (120, 'rate', CASE WHEN j.waits AND j.queue_next_start > clock_timestamp() THEN concat('rate_limit, until ', j.queue_next_start) END),
            (130, 'concurrency', CASE WHEN j.waits AND j.is_queue_full THEN concat('concurrency; ', pgq_ext.jobs_in_work(j.queue_id, NULL)) END)
        ) r (n, step, detail) WHERE r.detail IS NOT NULL),
    -- Shown only if there is no such reason.
    ready AS MATERIALIZED (
        SELECT j.queue_id, r.n, r.step, r.detail FROM job j
        CROSS JOIN LATERAL (SELECT pgq_ext.behind(j.queue_id, j.priority, j.run_at, j.job_id, j.group_id) AS words) b
        CROSS JOIN LATERAL (VALUES
            (140, 'no worker', CASE WHEN j.is_unclaimed THEN 'no claim for five minutes, and none waits' END),
            (150, CASE WHEN starts_with(b.words, 'behind') THEN 'behind' ELSE 'group full' END, b.words)
        ) r (n, step, detail) WHERE r.detail IS NOT NULL AND NOT EXISTS (SELECT FROM reason))
    SELECT e.queue_id, e.step, e.detail FROM (
        TABLE reason
        UNION ALL
        TABLE ready
        UNION ALL
        SELECT j.queue_id, 160, 'ready', 'nothing holds it back: a claim gets it when its turn comes' FROM job j
        WHERE NOT EXISTS (SELECT FROM reason) AND NOT EXISTS (SELECT FROM ready)
        UNION ALL
        SELECT d.queue_id, 170, 'dead', concat(d.reason, ', at ', d.died_at, ' after ', d.attempts, ' failed attempts') FROM pgq_ext.dead_job d WHERE d.job_id = explain_job.job_id
        UNION ALL
        SELECT f.queue_id, 180, 'finished', concat(f.outcome, ' at ', f.finished_at, ', worker "' || f.worker || '"') FROM pgq_ext.finished_job f WHERE f.job_id = explain_job.job_id
        UNION ALL
        SELECT j.queue_id, 190, 'failed before', concat(j.attempts, ' of ', j.max_attempts, ' attempts; the last error: ', j.last_error) FROM job j WHERE j.attempts > 0
        UNION ALL
        SELECT d.queue_id, 190, 'failed before', concat('the last error: ', d.last_error) FROM pgq_ext.dead_job d WHERE d.job_id = explain_job.job_id AND d.last_error IS NOT NULL
        UNION ALL
        (SELECT a.queue_id, 200, 'last attempt', concat('attempt ', a.attempt, ' of worker "' || a.worker || '"', ' ended at ', a.ended_at, ': ', a.outcome,
                CASE WHEN a.outcome = 'lost' THEN concat(', ', a.reason) END)
         FROM pgq_ext.attempt a WHERE a.job_id = explain_job.job_id ORDER BY a.lease DESC LIMIT 1)
    ) e (queue_id, n, step, detail) ORDER BY e.n;
$$;
REVOKE ALL ON FUNCTION pgq_ext.explain_job FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.explain_job IS 'Internal: what pgq_explain tells of a job that has left a trace, with the job''s queue. No row: there is no trace.';

CREATE FUNCTION pgq_ext.explain_absence(job_id bigint, OUT step text, OUT detail text) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 2 SET search_path = pg_catalog, pg_temp AS $$
    WITH given AS (
        SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END AS last, COALESCE(explain_absence.job_id % 1024 <> s.shard, false) AS is_of_another_shard
        FROM pgq_ext.job_id_seq q LEFT JOIN pgq_ext.shard s ON true)
    SELECT 'unknown', CASE
        WHEN explain_absence.job_id < 1 OR explain_absence.job_id > g.last THEN concat('no job has been given this id; the last one is ', g.last)
        WHEN g.is_of_another_shard THEN 'the id is of another shard (pgq_set_shard)'
        ELSE 'there is no job, dead letter or record with this id: its enqueue has not been committed, or was rolled back; or it has ended, and its queue keeps no finished jobs (keep_finished)' END
    FROM given g
    UNION ALL
    SELECT 'open transaction', concat(o.name, ' has written jobs, and may have enqueued or ended it')
    FROM given g CROSS JOIN LATERAL (
        SELECT DISTINCT pgq_ext.name_of_transaction(l.virtualtransaction) AS name
        FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
        WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.relation IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = 'pgq_ext.job'::regclass)
        ORDER BY 1 LIMIT 10) o
    WHERE explain_absence.job_id BETWEEN 1 AND g.last AND NOT g.is_of_another_shard AND o.name IS NOT NULL;
$$;
REVOKE ALL ON FUNCTION pgq_ext.explain_absence FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.explain_absence IS 'Internal: what pgq_explain tells of a job that has left no trace.';

CREATE FUNCTION pgq_explain(job_id bigint) RETURNS SETOF pgq_ext.explanation
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'pgq_explain';
REVOKE ALL ON FUNCTION pgq_explain FROM PUBLIC;
COMMENT ON FUNCTION pgq_explain IS
'Say why a job does not run, or what became of it: a row for each reason, in a fixed order, then a row for what is known of its attempts. Also answers for ids that are in no view: of dead and finished jobs, as far as these are kept, and unknown ones. Waits for nothing and changes nothing. A job of a closed queue is explained to members of pg_monitor and roles with the right inspect; for other roles its id is unknown. Error: 22004 job_id is NULL.';

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
'Internal: true if the caller may read that column of a view of pgq_ext by another grant than that to pg_monitor. For other readers columns with tokens and payloads are NULL.';

CREATE VIEW pgq_ext.dead_letter WITH (security_barrier) AS
SELECT q.queue, d.job_id, d.died_at, d.reason, d.attempts, COALESCE(d.max_attempts, q.max_attempts) AS max_attempts, d.group_key,
       d.unique_key, d.priority, d.enqueued_at, d.run_at, d.last_error,
       CASE WHEN pgq_ext.may_read('dead_letter', 'headers') THEN d.headers END AS headers,
       CASE WHEN pgq_ext.may_read('dead_letter', 'payload') THEN d.payload END AS payload
FROM pgq_ext.dead_job d
JOIN pgq_ext.queue q USING (queue_id)
WHERE pgq_ext.may_see(q.queue_id);
COMMENT ON VIEW pgq_ext.dead_letter IS
'Dead letters of the queues that the reader may see: rows of pgq_ext.dead_job, with the queue''s name; headers and payload are NULL for members of pg_monitor without another grant. reason: why the job died; last_error: what its last attempt failed with.';

CREATE OR REPLACE FUNCTION pgq_ext.check_tables() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
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
    FROM pgq_ext.segment_entries() e JOIN pg_constraint k ON k.confrelid = e.relation AND k.contype = 'f';
END $$;

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
-- While no queue has that name there are no rights to go by: the schedule's maker, the owner and pg_monitor see it.
WHERE CASE WHEN q.queue_id IS NOT NULL THEN pgq_ext.may_see(q.queue_id)
           ELSE pg_catalog.pg_has_role(t.maker, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE')
                OR pg_catalog.pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
                                           WHERE c.oid OPERATOR(pg_catalog.=) 'pgq_ext.timetable'::pg_catalog.regclass), 'USAGE') END;

-- The reader is the role of the session: in a SECURITY DEFINER function current_user is the owner.
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
'Schedules. payload, options: NULL for members of pg_monitor without another grant. next_run_at: its next tick, or, in the past, the one that could not run yet; NULL while it is paused. last_run_at: when it has enqueued last, and last_job_id: that job, or the one that had its unique key. last_error: why its last tick has no job, or that ticks were left out; NULL: all is well.';

COMMENT ON VIEW pgq_ext.lease IS
'Jobs in work: who holds them and until when; lease is NULL for members of pg_monitor without another grant. Jobs that were deleted by SQL are not shown: pgq_extend, pgq_ack and pgq_fail tell their workers. in_transaction: an open transaction uses the lease, so it does not expire before that ends.';

COMMENT ON VIEW pgq_ext.lock IS
'Locks that are held: the slot, of how many, the token (NULL for members of pg_monitor without another grant), who has got it (pid: NULL after a restart), until when, how many sessions wait for the name. One whose time is over is shown until somebody takes it, or for some seconds. in_transaction: somebody has taken it, or is giving it back, in a transaction that has not ended.';

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
            schedule, lock, rate, dead_letter}'::pg_catalog.name[])
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

-- ---- queues that stand still after a start ----

CREATE FUNCTION pgq_ext.unknown_starts(OUT queue_id integer, OUT until timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_unknown_starts';
REVOKE ALL ON FUNCTION pgq_ext.unknown_starts FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.unknown_starts IS 'Internal: of queues with a rate of which it is not known how many jobs have started, until when that counts.';

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
REVOKE ALL ON FUNCTION pgq_ext.check_rates FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_rates IS 'Internal: a check of pgq_ext.health.';

-- It asks with the rights of the owner, so that who watches needs no others, waits for nobody, and has no more than a few
-- rows of each table read.
CREATE OR REPLACE FUNCTION pgq_ext.health_entries(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp SET intervalstyle = postgres SET datestyle = iso SET lock_timeout = '100ms' SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    c record;
    -- Code that this role has added to a table or a view would run with the rights of this function's owner.
    stranger text = (SELECT r.rolname
                     FROM (SELECT k.relowner AS owner FROM pg_class k WHERE k.relnamespace = 'pgq_ext'::regnamespace
                           UNION SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = 'pgq_ext'::regnamespace) o
                     JOIN pg_roles r ON r.oid = o.owner WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1);
BEGIN
    FOR c IN SELECT v.* FROM (VALUES
        ('library', NULL, 'Run ALTER EXTENSION pgq_ext UPDATE in this database; if its library is the older one, install the newer and restart the server.'),
        ('tables', 'as they should be', 'Undo the change of the table. REINDEX an index that is not valid. ALTER TABLE ... ENABLE TRIGGER for a disabled trigger.'),
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
        ('unclaimed', 'no queue is left alone', 'Start workers, or more of them.'),
        ('paused', 'none for long', 'SELECT pgq_resume_queue(...), if it is not to be so.'),
        ('depth', 'no queue is full', 'Start more workers, or raise the limit: SELECT pgq_alter_queue(..., max_depth => ...).'),
        ('rates', 'no queue stands still after a start', 'After a crash the server does not know how many jobs have started, and counts as many as the limit allows. To start jobs at once, run SELECT pgq_alter_queue(..., rate_limit => 0), and set the limit again in another transaction. Do the same with group_rate_limit.'),
        ('retention', 'nothing is kept beyond its time', 'See the checks scheduler and duties. If the rows are locked, pg_locks shows by which session.'),
        ('schedules', 'all run in time', 'SELECT schedule, last_error FROM pgq_ext.schedule says why.')) AS v (name, ok, hint)
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

-- Who updates is a superuser; all belongs to the owner of the tables.
DO $$
DECLARE
    owner pg_catalog.regrole := (SELECT relowner::pg_catalog.regrole FROM pg_catalog.pg_class
                                 WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.queue'::pg_catalog.regclass);
    function pg_catalog.regprocedure;
BEGIN
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.shard OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.explanation OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.job_state OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.dead_letter OWNER TO %s', owner);
    FOR function IN
        SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_depend d ON d.objid OPERATOR(pg_catalog.=) p.oid
        WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
            AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
            AND d.refobjid OPERATOR(pg_catalog.=) (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pgq_ext')
            AND p.proowner OPERATOR(pg_catalog.=) (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user)
    LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s OWNER TO %s', function, owner);
    END LOOP;
END $$;
