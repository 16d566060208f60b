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
    -- ALTER SEQUENCE waits for every transaction that has taken a job id. Until this transaction ends, no other
    -- transaction takes a job id.
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
'Internal: makes all new job ids leave the remainder shard when they are divided by 1024. False: shard is not between 0 and 1023.';

CREATE TABLE pgq_ext.shard (
    only_row boolean DEFAULT true PRIMARY KEY CHECK (only_row),
    shard    integer NOT NULL CHECK (pgq_ext.step_job_ids(shard))
);
COMMENT ON TABLE pgq_ext.shard IS
'The shard number of this database: new job ids leave this remainder when they are divided by 1024. No row: the database is not a shard. Set by pgq_set_shard.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.shard', '');

CREATE FUNCTION pgq_rename_queue(queue text, new_name text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_rename_queue';
REVOKE ALL ON FUNCTION pgq_rename_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_rename_queue IS
'Give the queue another name from the commit on. The queue keeps its jobs, leases, counts, limits, rights and schedules; claims that wait get jobs under the new name. From then on the old name is free, and NOTIFY uses the channel of the new name. Errors: 42704 no such queue, 42710 a queue has the new name, 22004 NULL, 22023 the new name is not allowed.';

CREATE FUNCTION pgq_ack_next(
    job_id bigint, lease bigint, queue text, lease_time interval = null, worker text = null)
RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_ack_next';
REVOKE ALL ON FUNCTION pgq_ack_next FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_next IS
'As pgq_ack_claim for one job, without arrays: acknowledge this job, and claim the next one without waiting. NULL for both job_id and lease: no job to acknowledge yet. Errors: PQ001 the lease is stale, and nothing was done; 22004 only one of job_id and lease is NULL; the errors of pgq_claim.';

CREATE FUNCTION pgq_set_shard(shard int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_shard';
REVOKE ALL ON FUNCTION pgq_set_shard FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_shard IS
'Make this database a shard with a number from 0 to 1023: every id of a job leaves that number as remainder when it is divided by 1024, so that a client finds the database of a job by its id. From then on ids grow by 1024; no id is used twice. Waits for transactions that have enqueued; no session can enqueue before this transaction ends. If the database has that number already, the call only makes sure that new ids have it. Errors: 55000 there are jobs, dead letters, or records whose ids have another number, or no number; 22023 number out of range; 22004 NULL; 25001 not in a READ COMMITTED transaction.';

ALTER TABLE pgq_ext.saved_lease ADD COLUMN lease_time bigint;
COMMENT ON TABLE pgq_ext.saved_lease IS
'Internal: leases as they were at a clean stop of the server; also (rows with job_id 0) the hand-outs that rate limits count, and the permits taken of rates. The next start restores the rows whose mark is still the value of pgq_ext.token_mark, since then no lease and no permit was given in between. Not dumped.';

-- What they say of themselves.
COMMENT ON FUNCTION pgq_alter_queue IS
'Change options of a queue, as in pgq_create_queue; NULL leaves an option unchanged. The new values hold from the commit on: lease_time for leases that are given after it, max_runtime also for leases that are extended after it, options about the end of an attempt, and undo_rolled_back_claims, for attempts that end after it. Errors: 42704 no such queue, 22023 bad value, 55000 undo_rolled_back_claims is given and the database needs pgq_ext.add_queue_columns().';
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs, each with a lease of lease_time (1 s to 7 days; default: lease_time of the queue). With wait (at most 60 s), waits for the first job; returns no job in time for statement_timeout. Each job must be ended with pgq_ack, pgq_fail or pgq_release; if the time of the lease is over, or the claiming transaction is rolled back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and no job claimed.';

COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues): takes jobs of the queues in the order of the array, and waits for jobs of all of them at once. With an empty array, returns no job at the end of wait.';

COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and another claim may take the job after delay (0 or more); with 0 the job keeps its place in the order. False: the lease is stale, and nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

COMMENT ON FUNCTION pgq_extend IS
'Let the lease end lease_time from now (default: the length that the claim or the last extension asked for; limited by max_runtime of the queue), and return its end. If the lease already ends later, its end does not change. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: the worker should stop.';

-- New arguments of pgq_enqueue. The function keeps its OID, so that grants, views and functions that use it stay, and open sessions
-- find it: its row gets what the row of a function with these arguments has. Calls with fewer arguments get the new defaults.
CREATE FUNCTION pgq_ext.enqueue_with_more_arguments(
    queue text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = 'finished',
    unique_for interval = null, on_conflict text = 'keep',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = 'cancel') RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_enqueue';
DO $$
DECLARE
    changed bigint;
BEGIN
    UPDATE pg_catalog.pg_proc f
    SET pronargs = n.pronargs, pronargdefaults = n.pronargdefaults, proargtypes = n.proargtypes, proargnames = n.proargnames, proargdefaults = n.proargdefaults
    FROM pg_catalog.pg_proc n
    WHERE n.oid OPERATOR(pg_catalog.=) 'pgq_ext.enqueue_with_more_arguments'::pg_catalog.regproc AND f.proname OPERATOR(pg_catalog.=) 'pgq_enqueue'
      AND f.oid IN (SELECT d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
                    WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
                      AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.extname OPERATOR(pg_catalog.=) 'pgq_ext');
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed OPERATOR(pg_catalog.<>) 1 THEN
        RAISE 'function pgq_enqueue is missing, or is not a member of extension "pgq_ext"'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION pgq_ext ADD FUNCTION, then update the extension.';
    END IF;
END $$;
DROP FUNCTION pgq_ext.enqueue_with_more_arguments;
COMMENT ON FUNCTION pgq_enqueue IS
'Add a job and return its id. The job can be claimed after the commit of the transaction, and not before delay is over or run_at is reached. Jobs are handed out in the order of priority (high first), run_at, job_id; in a queue with fair, groups take turns within a priority. group_key (1 to 255 bytes): the group of the job, for group_concurrency, group_rate_limit, fifo and fair of the queue. max_attempts NULL: the value of the queue. A job that no claim has handed out when expires_in is over is ended, and counted as expired. unique_key (1 to 255 bytes): at most one job of the queue has the key, until that job has ended (unique_until finished) or was handed out (claimed), and for at least unique_for. If a job has the key, its id is returned, and on_conflict says what happens to that job: keep (nothing), replace (it gets the attributes of the new job), preserve_run_at (as replace, but it keeps its run_at), append (the payload, an array, is appended), error. If that job waits, it is not handed out before this transaction has ended; if it is in work, it is not changed. batch: the job becomes a member of that batch of pgq_create_batch. after (at most 1000 job ids): the job is blocked until these jobs, its parents, have ended; delay counts from then. on_parent_failure: what happens when a parent has ended in another way than by an acknowledgement: cancel (the job is cancelled), run (it runs all the same), hold (it stays blocked while the parent is a dead letter). The call waits for transactions that are ending or changing a parent. Errors: 42704 no such queue, batch or parent, PQ002 the queue is full (max_depth), 22004 queue or payload is null, 22023 bad value, 23505 the key is taken, or its job is no member of the batch, or a job with parents meets the job of its key, 54000 too many parents, 40001 a job has the key that the snapshot does not see, 53400 pgq_ext.max_leases, 55000 the batch is closed or finished.';

-- New arguments of pgq_retry and pgq_redrive, in the same way.
CREATE FUNCTION pgq_ext.retry_with_more_arguments(
    job_id bigint, delay interval = '0', error_like text = null, died_since timestamptz = null,
    died_before timestamptz = null, group_key text = null) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_retry';
CREATE FUNCTION pgq_ext.redrive_with_more_arguments(
    queue text, max_jobs bigint = null, error_like text = null, died_since timestamptz = null,
    died_before timestamptz = null, group_key text = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_redrive';
DO $$
DECLARE
    verb text;
    changed bigint;
BEGIN
    FOREACH verb IN ARRAY ARRAY['retry', 'redrive'] LOOP
        UPDATE pg_catalog.pg_proc f
        SET pronargs = n.pronargs, pronargdefaults = n.pronargdefaults, proargtypes = n.proargtypes, proargnames = n.proargnames, proargdefaults = n.proargdefaults
        FROM pg_catalog.pg_proc n
        WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.format('pgq_ext.%s_with_more_arguments', verb)::pg_catalog.regproc
          AND f.proname OPERATOR(pg_catalog.=) pg_catalog.format('pgq_%s', verb)
          AND f.oid IN (SELECT d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
                        WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
                          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.extname OPERATOR(pg_catalog.=) 'pgq_ext');
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed OPERATOR(pg_catalog.<>) 1 THEN
            RAISE 'function pgq_% is missing, or is not a member of extension "pgq_ext"', verb
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION pgq_ext ADD FUNCTION, then update the extension.';
        END IF;
    END LOOP;
END $$;
DROP FUNCTION pgq_ext.retry_with_more_arguments;
DROP FUNCTION pgq_ext.redrive_with_more_arguments;
COMMENT ON FUNCTION pgq_retry IS
'Make a scheduled or ready job due delay from now; a ready job keeps its place if delay is 0. A dead letter becomes a job again, with the same id and all its attempts. The other arguments are filters, as in pgq_redrive: the job is left as it is unless it matches all that are given; a job that is no dead letter matches no time range. False: the job does not match, it is leased, it has expired, it is blocked, or there is no such job. Errors: 22023 bad delay or filter, 22025 error_like ends with the escape character, PQ002 the queue of the dead letter is full, 53400 too many jobs are claimed at the same time.';

COMMENT ON FUNCTION pgq_redrive IS
'Bring dead letters of a queue back, as pgq_retry does, in the order in which they died; at most max_jobs (NULL: all). Returns their number. The other arguments are filters (NULL: no filter); a dead letter must match all of them. error_like (1 to 1000 bytes): a pattern of LIKE for the whole last_error. died_since, died_before: the dead letter has died at died_since or later, and before died_before. group_key: the group of the job. A dead letter that another transaction has locked is left out. Errors: 42704 no such queue, 22023 max_jobs is negative or a bad filter, 22025 error_like ends with the escape character, PQ002 the queue has no room for all of them.';

-- New arguments of pgq_create_queue and pgq_alter_queue, in the same way.
CREATE FUNCTION pgq_ext.create_queue_with_more_arguments(
    queue text, lease_time interval = '5 min', max_runtime interval = '0', max_attempts int = 20,
    backoff_base interval = '1 s', backoff_max interval = '1 h', backoff_jitter float8 = 0.2,
    concurrency int = 0, group_concurrency int = 0,
    log_attempts text = 'failed', keep_attempts interval = '7 days',
    keep_finished interval = '0', keep_dead interval = '30 days', notify boolean = true,
    if_not_exists boolean = false, rate_limit int = 0, rate_period interval = '1 s', fifo boolean = false,
    max_depth bigint = 0, group_rate_limit int = 0, fair boolean = false,
    undo_rolled_back_claims boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_queue';
CREATE FUNCTION pgq_ext.alter_queue_with_more_arguments(
    queue text, lease_time interval = null, max_runtime interval = null, max_attempts int = null,
    backoff_base interval = null, backoff_max interval = null, backoff_jitter float8 = null,
    concurrency int = null, group_concurrency int = null,
    log_attempts text = null, keep_attempts interval = null,
    keep_finished interval = null, keep_dead interval = null, notify boolean = null,
    rate_limit int = null, rate_period interval = null, fifo boolean = null,
    max_depth bigint = null, group_rate_limit int = null, fair boolean = null,
    undo_rolled_back_claims boolean = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_alter_queue';
DO $$
DECLARE
    verb text;
    changed bigint;
BEGIN
    FOREACH verb IN ARRAY ARRAY['create_queue', 'alter_queue'] LOOP
        UPDATE pg_catalog.pg_proc f
        SET pronargs = n.pronargs, pronargdefaults = n.pronargdefaults, proargtypes = n.proargtypes, proargnames = n.proargnames, proargdefaults = n.proargdefaults
        FROM pg_catalog.pg_proc n
        WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.format('pgq_ext.%s_with_more_arguments', verb)::pg_catalog.regproc
          AND f.proname OPERATOR(pg_catalog.=) pg_catalog.format('pgq_%s', verb)
          AND f.oid IN (SELECT d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
                        WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) 'e'
                          AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.extname OPERATOR(pg_catalog.=) 'pgq_ext');
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed OPERATOR(pg_catalog.<>) 1 THEN
            RAISE 'function pgq_% is missing, or is not a member of extension "pgq_ext"', verb
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION pgq_ext ADD FUNCTION, then update the extension.';
        END IF;
    END LOOP;
END $$;
DROP FUNCTION pgq_ext.create_queue_with_more_arguments;
DROP FUNCTION pgq_ext.alter_queue_with_more_arguments;

-- The update from version 0.1 does not add this column: every session that looks up a queue would wait for it.
CREATE FUNCTION pgq_ext.add_queue_columns() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added boolean := false;
BEGIN
    LOCK TABLE pgq_ext.queue IN ACCESS EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'pgq_ext.queue'::regclass AND attname = 'undo_rolled_back_claims' AND NOT attisdropped) THEN
        -- The library reads columns by position, and a dropped column keeps its position.
        IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'pgq_ext.queue'::regclass AND attisdropped) THEN
            RAISE 'table "pgq_ext.queue" has a dropped column'
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Dump the database, and restore it.';
        ELSIF (SELECT relnatts FROM pg_class WHERE oid = 'pgq_ext.queue'::regclass) <> 24 THEN
            RAISE 'table "pgq_ext.queue" has a column that is not of pgq_ext'
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Drop the column, dump the database, and restore it.';
        END IF;
        ALTER TABLE pgq_ext.queue ADD COLUMN undo_rolled_back_claims boolean NOT NULL DEFAULT false;
        added := true;
    END IF;
    COMMENT ON COLUMN pgq_ext.queue.undo_rolled_back_claims IS 'Whether a rollback of a claim gives its jobs back at once, and counts no attempt.';
    RETURN added;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.add_queue_columns() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.add_queue_columns() IS
'Add the columns of queue options that are newer than version 0.1 to a database that was updated from that version. Locks pgq_ext.queue in ACCESS EXCLUSIVE mode, for the time of a change of the catalog: so it waits for transactions that have read or changed that table, and later calls that look up a queue wait for it. Set lock_timeout before. Returns true if something was added. May be called again. Error: 55000 the table has a dropped column, or a column that is not of pgq_ext.';

CREATE FUNCTION pgq_run_again(job_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_again';
REVOKE ALL ON FUNCTION pgq_run_again FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_again IS
'Enqueue a job once more that has finished, and that keep_finished of its queue has kept; return the id of the new job. The new job has the payload, priority, group_key, unique_key, max_attempts and headers of the finished one; headers that are an object get the key run_again_of, with the id of the finished job. It is due now, and has no batch, no parents and no expiry. Each call makes a new job. NULL: no finished job with this id is kept. Errors: 23505 another job has the unique key, PQ002 the queue is full (max_depth), 42501 the caller may not enqueue, 42704 the queue does not exist any more.';

COMMENT ON FUNCTION pgq_update IS
'Change a waiting job; NULL leaves an attribute unchanged. False: the job is leased, it has expired, or there is no such job. Waits for a transaction that is changing the job. No claim hands the job out before this transaction ends. Errors: 42704 no such queue, 22023 bad value, 55000 the job is blocked, so its run_at cannot be changed, PQ002 the other queue is full (max_depth), 53400 too many jobs are claimed at the same time.';

COMMENT ON FUNCTION pgq_schedule_preview IS
'Return the next n (at most 10000) times at which a schedule with this cron expression would run, up to the year 9999. Errors: 22004 no cron, 22023 bad value, or a cron that would not run in the next 40 years.';

COMMENT ON FUNCTION pgq_lock IS
'Take a named lock, alone or as one of slots (1 to 1024) holders, for ttl (1 s or more). Returns a token, greater than all earlier tokens of the lock, or NULL: not taken within wait (at most 60 s; first come, first served). The lock is held from the call on, also for other sessions, and is undone by rollback. Before the transaction has ended no other session gets it, even if ttl is over. With session_bound the lock also ends with the session, and costs no write; it still ends after ttl. owner is a label (default: application_name). Errors: 22023 bad value, 53400 pgq_ext.max_locks reached, 40P01 a deadlock.';

COMMENT ON FUNCTION pgq_take IS
'Take permits of a rate (at most its burst): true if they were taken. With wait (at most 60 s), permits that will be free in that time are reserved, and the call returns when they are. False: the permits are not free in time. A rollback does not give permits back. A rate that this transaction has created has no permits. Errors: 42704 no such rate, 22023 bad value, 53400 pgq_ext.max_rates reached, 55000 a wait for a rate that this transaction has created.';

COMMENT ON TABLE pgq_ext.run IS
'Runs that pgq_run_once has begun, one row for each name and period (NULL: once for all time): token and owner of the last try, when that try began, when the run was finished (NULL: it is not finished), its result, and the number of tries. For each name and period, the newest pgq_ext.keep_runs finished runs are kept, and as many unfinished runs.';

COMMENT ON VIEW pgq_ext.rate IS
'Rates, the number of permits that could be taken now, and the time of the next permit. Both are NULL for a rate that is not in memory: it was not used since the start of the server, nor before the last clean stop, or it was full when another rate needed its place in memory.';

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
'Internal: the leases in shared memory. state: claiming, claimed, parked (another transaction has locked the row), moving (to another segment), changing (by a transaction that has taken the waiting job), held (by transactions that have met the job by its unique_key: worker is one of them, as in pg_locks.virtualtransaction), lost. lease is NULL for a caller that may not read the column in the view pgq_ext.lease.';

-- ---- why a job does not run, or what became of it ----

CREATE TYPE pgq_ext.explanation AS (
    step   text,
    detail text
);
COMMENT ON TYPE pgq_ext.explanation IS
'A reason why a job does not run, or a fact about its past. Later versions may add attributes at the end.';

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
COMMENT ON FUNCTION pgq_ext.name_of_transaction IS 'Internal: an open or prepared transaction, in words. NULL: the transaction has ended.';

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
COMMENT ON FUNCTION pgq_ext.jobs_in_work IS 'Internal: the jobs in work of the queue, or of one of its groups, in words.';

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
            (65, 'blocked', CASE WHEN j.waits AND j.is_blocked THEN concat('waits for ', j.awaits) END),
            (70, 'paused', CASE WHEN j.waits AND j.is_paused THEN concat('the queue is paused since ', j.paused_at) END),
            (80, 'not due', CASE WHEN j.waits AND j.is_scheduled AND NOT j.is_blocked THEN concat(CASE WHEN j.attempts > 0 THEN 'backoff' ELSE 'run_at' END, ', until ', j.run_at) END),
            (90, 'group full', CASE WHEN j.waits AND j.is_group_full THEN concat('group_concurrency; ', pgq_ext.jobs_in_work(j.queue_id, j.group_id)) END),
            (100, 'fifo', CASE WHEN j.waits AND j.is_behind_in_group THEN concat('job ', (
                SELECT min(f.job_id) FROM pgq_ext.job f WHERE f.queue_id = j.queue_id AND f.group_id = j.group_id), ' of its group goes first') END),
            (110, 'group rate', CASE WHEN j.waits AND j.group_next_start > clock_timestamp() THEN concat('group_rate_limit, until ', j.group_next_start) END),
            (120, 'rate', CASE WHEN j.waits AND j.queue_next_start > clock_timestamp() THEN concat('rate_limit, until ', j.queue_next_start) END),
            (130, 'concurrency', CASE WHEN j.waits AND j.is_queue_full THEN concat('concurrency; ', pgq_ext.jobs_in_work(j.queue_id, NULL)) END)
        ) r (n, step, detail) WHERE r.detail IS NOT NULL),
    -- The reasons why no claim has taken a ready job yet. They are shown only if `reason` has no row, so nothing
    -- keeps the job back.
    ready AS MATERIALIZED (
        SELECT j.queue_id, r.n, r.step, r.detail FROM job j
        CROSS JOIN LATERAL (SELECT pgq_ext.behind(j.queue_id, j.priority, j.run_at, j.job_id, j.group_id) AS words) b
        CROSS JOIN LATERAL (VALUES
            (132, 'handler suspended', CASE WHEN j.handler_state = 'suspended' THEN concat(j.handler_reason, '; since ', j.handler_since) END),
            (134, 'handler paused', CASE WHEN j.handler_state = 'paused' THEN concat('since ', j.handler_since, ' (pgq_pause_handler)') END),
            (136, 'handler rests', CASE WHEN j.handler_next_try_at IS NOT NULL THEN concat('its calls have failed; no call begins until ', j.handler_next_try_at) END),
            (138, 'no worker slot', CASE WHEN j.handler_state = 'waiting for a worker slot' THEN 'the handler has no worker, and no slot is free (pgq_ext.max_handler_workers)' END),
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
COMMENT ON FUNCTION pgq_ext.explain_job IS 'Internal: the rows of pgq_explain for a job that is live or has records, with its queue. No row: the job has no records.';

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
COMMENT ON FUNCTION pgq_ext.explain_absence IS 'Internal: the rows of pgq_explain for a job that has no records.';

CREATE FUNCTION pgq_explain(job_id bigint) RETURNS SETOF pgq_ext.explanation
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'pgq_explain';
REVOKE ALL ON FUNCTION pgq_explain FROM PUBLIC;
COMMENT ON FUNCTION pgq_explain IS
'Explain why a job does not run, or how it has ended: one row for each reason, in a fixed order, then a row about its attempts. Also answers for ids that are in no view: dead and finished jobs, as long as their records are kept, and unknown ids. Waits for no lock and changes nothing. A job of a closed queue is explained to members of pg_monitor and roles with the right inspect; for other roles its id is unknown. Error: 22004 job_id is NULL.';

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
'Internal: true if the caller may read that column of a view of pgq_ext by a grant other than the grant to pg_monitor. For other readers, columns with tokens and payloads are NULL.';

CREATE FUNCTION pgq_ext.blocked_jobs(queue_id integer) RETURNS bigint
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_blocked_jobs';
REVOKE ALL ON FUNCTION pgq_ext.blocked_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.blocked_jobs IS 'Internal: the number of blocked jobs of that queue. NULL: the jobs are not counted yet.';

-- A view cannot name the column batch_id of pgq_ext.job: a database that was updated from 0.1 does not have the column
-- before pgq_ext.add_batch_columns(). This function is STABLE, so that a query that does not read the column "batch" of a
-- view does not call the function.
CREATE FUNCTION pgq_ext.batch_of(job record) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_batch_of';
COMMENT ON FUNCTION pgq_ext.batch_of IS 'Internal: the batch of that row of pgq_ext.job or dead_job. NULL: the job is a member of none, or the table has no column for batches.';

CREATE FUNCTION pgq_ext.is_in_work(job_id bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_is_in_work';
REVOKE ALL ON FUNCTION pgq_ext.is_in_work FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.is_in_work IS 'Internal: true if a worker has that job, or a claim is looking at it.';

CREATE TYPE pgq_ext.member_counts AS (
    live      bigint,
    in_work   bigint,
    dead      bigint,
    added     bigint,
    cancelled bigint,
    expired   bigint,
    deleted   bigint
);
COMMENT ON TYPE pgq_ext.member_counts IS 'Internal: numbers of members of a batch. live: rows of pgq_ext.job, in_work: those that are in work, dead: dead letters. added, cancelled, expired, deleted: by the notes.';

CREATE FUNCTION pgq_ext.members_of(batch bigint) RETURNS pgq_ext.member_counts
LANGUAGE c STABLE PARALLEL UNSAFE COST 1000 AS 'MODULE_PATHNAME', 'pgq_members_of';
REVOKE ALL ON FUNCTION pgq_ext.members_of FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.members_of IS 'Internal: counts the members of that batch, by the index of members. NULL: there is no such batch, or the caller may not see it.';

CREATE VIEW pgq_ext.dead_letter WITH (security_barrier) AS
SELECT q.queue, d.job_id, d.died_at, d.reason, d.attempts, COALESCE(d.max_attempts, q.max_attempts) AS max_attempts, d.group_key,
       d.unique_key, d.priority, d.enqueued_at, d.run_at, d.last_error,
       CASE WHEN pgq_ext.may_read('dead_letter', 'headers') THEN d.headers END AS headers,
       CASE WHEN pgq_ext.may_read('dead_letter', 'payload') THEN d.payload END AS payload,
       pgq_ext.batch_of(d) AS batch
FROM pgq_ext.dead_job d
JOIN pgq_ext.queue q USING (queue_id)
WHERE pgq_ext.may_see(q.queue_id);
COMMENT ON VIEW pgq_ext.dead_letter IS
'Dead letters of the queues that the reader may see: rows of pgq_ext.dead_job, with the name of the queue; headers and payload are NULL for members of pg_monitor without another grant. reason: why the job became a dead letter; last_error: the error of its last attempt.';

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
    FROM pgq_ext.segment_entries() e JOIN pg_constraint k ON k.confrelid = e.relation AND k.contype = 'f'
    UNION ALL
    SELECT 'warn', format('pgq_ext.queue_handler has a handler of the queue with queue_id %s, which does not exist', h.queue_id)
    FROM pgq_ext.queue_handler h WHERE NOT EXISTS (SELECT FROM pgq_ext.queue q WHERE q.queue_id = h.queue_id);
END $$;

-- Functions whose comments have changed.
CREATE OR REPLACE FUNCTION pgq_ext.queue_paused() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    -- Keep a time that the row already has: it may come from a dump, or from the publisher of a subscription.
    NEW.paused_at := CASE WHEN NEW.paused THEN COALESCE(NEW.paused_at, pg_catalog.clock_timestamp()) END;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION pgq_ext.check_scheduler() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION pgq_ext.check_capacity() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN c.used >= c.bound THEN 'fail' ELSE 'warn' END,
           format('%s: %s of %s (%s)', c.name, c.used, c.bound, c.guc)
    FROM pgq_ext.capacity_entries() c
    -- A full window, timer or table of batches is no fault: the rest is read from the tables.
    WHERE c.used > 0.8 * c.bound AND c.guc NOT IN ('pgq_ext.window_size', 'pgq_ext.timer_size', 'pgq_ext.max_watched_batches');
END $$;

CREATE OR REPLACE FUNCTION pgq_ext.check_prepared() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION pgq_ext.check_retention() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
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

-- ---- checkpoints ----

CREATE TABLE pgq_ext.job_checkpoint (
    job_id  bigint NOT NULL,
    step    text COLLATE "C" NOT NULL,
    value   jsonb NOT NULL,
    -- Time at which this row was written to this table: by the worker, or by a restore.
    kept_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (job_id, step)
);
REVOKE ALL ON TABLE pgq_ext.job_checkpoint FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_checkpoint IS
'The values that workers have kept for steps of their jobs with pgq_checkpoint. The scheduler deletes the rows of a job that exists neither as a job nor as a dead letter, when they are at least 5 minutes old.';
COMMENT ON COLUMN pgq_ext.job_checkpoint.kept_at IS 'Time at which the row was written to this table; after a restore, the time of the restore.';

CREATE FUNCTION pgq_ext.job_checkpoint_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    -- The scheduler deletes a checkpoint without a job when it is 5 minutes old. A restore may write the
    -- checkpoint before the job. So keep the time of the restore, not the time in the dump.
    NEW.kept_at := pg_catalog.clock_timestamp();
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.job_checkpoint_kept() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_checkpoint_kept() IS
'Internal: sets kept_at in pgq_ext.job_checkpoint.';

CREATE TRIGGER job_checkpoint_kept BEFORE INSERT ON pgq_ext.job_checkpoint
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_checkpoint_kept();
ALTER TABLE pgq_ext.job_checkpoint ENABLE ALWAYS TRIGGER job_checkpoint_kept;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_checkpoint', '');

CREATE FUNCTION pgq_checkpoint(job_id bigint, lease bigint, step text, value jsonb = null) RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_checkpoint';
REVOKE ALL ON FUNCTION pgq_checkpoint FROM PUBLIC;
COMMENT ON FUNCTION pgq_checkpoint IS
'Return the value that was kept for this step of the job. If none was kept, keep value for the step when this transaction commits, and return it; with value NULL keep nothing, and return NULL. So a worker whose attempt follows a failed one learns which steps are done, and with which results. step: 1 to 200 bytes. A job has at most 1000 steps. The values stay with the job while it waits, is in work, or is a dead letter; the scheduler deletes them some minutes after its end. The lease is asserted as by pgq_assert_lease. Errors: PQ001 the lease is stale, 22004 no step, 22023 step is too long or empty, 54000 the job has 1000 steps.';

-- ---- batches: see src/batches/README.md ----

CREATE FUNCTION pgq_ext.add_batch_columns() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ring regclass;
    segment regclass;
    added boolean := false;
BEGIN
    -- In the order in which all code locks these tables. From here on no other session enqueues or ends a job until this transaction ends.
    LOCK TABLE pgq_ext.job, pgq_ext.dead_job, pgq_ext.finished_job IN ACCESS EXCLUSIVE MODE;
    FOREACH ring IN ARRAY ARRAY['pgq_ext.job', 'pgq_ext.dead_job', 'pgq_ext.finished_job']::regclass[]
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = ring AND attname = 'batch_id' AND NOT attisdropped);
        -- The library reads columns by position, and a dropped column keeps its position.
        IF EXISTS (SELECT FROM pg_attribute a WHERE a.attisdropped
                   AND (a.attrelid = ring OR a.attrelid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ring)))
        THEN
            RAISE 'table "%" has, or a partition of it has, a dropped column', ring
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Dump the database, and restore it.';
        END IF;
        EXECUTE format('ALTER TABLE %s ADD COLUMN batch_id bigint, %s ADD COLUMN parents smallint', ring,
            CASE WHEN ring = 'pgq_ext.job'::regclass THEN 'ADD COLUMN blocked bigint,' ELSE '' END);
        CONTINUE WHEN ring = 'pgq_ext.finished_job'::regclass;
        FOR segment IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ring ORDER BY i.inhrelid
        LOOP
            EXECUTE format('CREATE INDEX %I ON %s (batch_id, job_id) WHERE batch_id IS NOT NULL',
                (SELECT relname FROM pg_class WHERE oid = segment) || '_by_batch', segment);
            CONTINUE WHEN ring <> 'pgq_ext.job'::regclass;
            EXECUTE format('CREATE INDEX %I ON %s (job_id) WHERE blocked IS NOT NULL',
                (SELECT relname FROM pg_class WHERE oid = segment) || '_blocked', segment);
        END LOOP;
        added := true;
    END LOOP;
    COMMENT ON COLUMN pgq_ext.job.batch_id IS 'The batch of which the job is a member; NULL: the job is in no batch. Set when the job is enqueued, and never changed.';
    COMMENT ON COLUMN pgq_ext.job.blocked IS 'The job waits until its parents have ended, and then for this number of microseconds; NULL: the job is not blocked.';
    COMMENT ON COLUMN pgq_ext.job.parents IS 'Number of parents of the job; NULL: none. Set when the job is enqueued, and never changed.';
    RETURN added;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.add_batch_columns() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.add_batch_columns() IS
'Prepare a database for batches and dependencies that was updated from version 0.1: add the columns and indexes that a new database has. Locks the tables of jobs in ACCESS EXCLUSIVE mode: so it waits for all open and prepared transactions that have used these tables, and later calls wait for it. Reads every job once. Set lock_timeout before. Returns true if something was added. May be called again. Error: 55000 a table has a dropped column.';

CREATE SEQUENCE pgq_ext.batch_id_seq AS bigint MAXVALUE 137438953471;

CREATE TABLE pgq_ext.job_batch (
    -- A number of batch_id_seq, and 16 random bits.
    batch_id     bigint PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    closed_at    timestamptz,
    finished_at  timestamptz,
    failed_at    timestamptz,
    succeeded_at timestamptz,
    cancelled_at timestamptz,
    -- A callback can still come.
    pending      boolean NOT NULL DEFAULT true,
    -- The row was not written by pgq_create_batch, but for example by a restore, and the scheduler has not looked at the batch.
    restored     boolean NOT NULL DEFAULT true,
    -- The role with whose rights the callbacks are enqueued. In a dump only maker_name identifies the role.
    maker        oid,
    maker_name   text NOT NULL,
    on_success   jsonb,
    on_failure   jsonb,
    on_finish    jsonb,
    metadata     jsonb,
    -- A callback could not be enqueued: the time of the next try, the number of tries in a row that have failed, and
    -- the last error.
    due_at       timestamptz,
    failures     integer NOT NULL DEFAULT 0,
    last_error   text
);
CREATE INDEX job_batch_pending ON pgq_ext.job_batch (batch_id) WHERE pending;
CREATE INDEX job_batch_due ON pgq_ext.job_batch (due_at) WHERE pending AND due_at IS NOT NULL;
CREATE INDEX job_batch_settled ON pgq_ext.job_batch (finished_at) WHERE NOT pending;
REVOKE ALL ON TABLE pgq_ext.job_batch FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_batch IS
'Batches, one row for each, created by pgq_create_batch. The scheduler marks here which callbacks it has enqueued.';

CREATE FUNCTION pgq_ext.job_batch_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_batch_changed';
REVOKE ALL ON FUNCTION pgq_ext.job_batch_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_batch_changed() IS
'Internal: finds the role with whose rights the callbacks of a batch are enqueued, and tells the scheduler of batches that SQL has written.';

CREATE TRIGGER job_batch_changed BEFORE INSERT OR UPDATE ON pgq_ext.job_batch
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_batch_changed();
ALTER TABLE pgq_ext.job_batch ENABLE ALWAYS TRIGGER job_batch_changed;

CREATE FUNCTION pgq_ext.job_batch_kept() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_batch_kept';
REVOKE ALL ON FUNCTION pgq_ext.job_batch_kept() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_batch_kept() IS
'Internal: refuses to delete a batch by SQL while the batch has jobs or dead letters, or can still get a callback.';

CREATE TRIGGER job_batch_kept BEFORE DELETE ON pgq_ext.job_batch
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_batch_kept();
CREATE TRIGGER job_batch_not_truncated BEFORE TRUNCATE ON pgq_ext.job_batch
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.job_batch_kept();

CREATE TABLE pgq_ext.batch_note (
    batch_id bigint NOT NULL,
    what     smallint NOT NULL,
    n        bigint NOT NULL
);
CREATE INDEX batch_note_by_batch ON pgq_ext.batch_note (batch_id, what);
-- Without a replica identity, DELETE fails when the table is published, for example by FOR ALL TABLES.
ALTER TABLE pgq_ext.batch_note REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.batch_note FROM PUBLIC;
COMMENT ON TABLE pgq_ext.batch_note IS
'Notes about members of batches: n members were added (what is 1), have become dead letters (2), or have ended in another way than by an acknowledgement (3 and more). A session adds to the number of the note of additions that it has written last; see src/rows/batch_note.h.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.batch_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_batch', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.batch_note', '');

CREATE FUNCTION pgq_create_batch(
    on_success jsonb = null, on_failure jsonb = null, on_finish jsonb = null, metadata jsonb = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_batch';
REVOKE ALL ON FUNCTION pgq_create_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_batch IS
'Create a batch, and return its id: jobs become its members by the argument batch of pgq_enqueue. Each callback is an object as in pgq_enqueue_many, with the key queue, and without a batch or a unique key. The scheduler enqueues on_failure when the first member has become a dead letter; on_finish when the batch is closed and all members have ended; on_success when the batch is closed and all members were acknowledged. Each is enqueued once, with the headers batch and event. metadata: any value, kept with the batch. The batch belongs to the current role. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 a callback has no queue or payload, 22023 bad value, 55000 the database needs pgq_ext.add_batch_columns().';

CREATE FUNCTION pgq_close_batch(batch bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_close_batch';
REVOKE ALL ON FUNCTION pgq_close_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_close_batch IS
'Close a batch: from the commit on only a transaction that has the lease of a member in hand (pgq_assert_lease) can add jobs. Does nothing if the batch is closed. Errors: 42704 no such batch, or the batch belongs to a role of which the caller is no member; 22004 NULL.';

-- ---- jobs by their ids: for programs that keep no leases ----

CREATE FUNCTION pgq_finish(job_ids bigint[]) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_finish';
REVOKE ALL ON FUNCTION pgq_finish FROM PUBLIC;
COMMENT ON FUNCTION pgq_finish IS
'End jobs by their ids as if they were acknowledged, whether they wait or a worker has them (at most 10000). Returns the ids of the jobs that were ended, in ascending order; other ids, also those of dead letters, are left out. NULL, which array_agg returns for no rows, stands for no jobs. A job that was waiting counts as handed out and acknowledged. For a job that a worker has, and its lease, the call does what pgq_cancel does, and it waits for the same transactions. Errors: 22004 an element is NULL, 54000 too many elements, 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_ext.lease_of(
    job bigint, OUT job_id bigint, OUT lease bigint, OUT queue_id integer, OUT state text, OUT attempt integer,
    OUT worker text, OUT pid integer, OUT claimed_at timestamptz, OUT lease_expires_at timestamptz,
    OUT in_transaction boolean, OUT session_bound boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 COST 1 AS 'MODULE_PATHNAME', 'pgq_lease_of';
REVOKE ALL ON FUNCTION pgq_ext.lease_of FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lease_of IS
'The lease of one job: one row, as the view pgq_ext.lease would show it, or no row. state: claimed (a worker has the job) or lost (the lease has ended without an answer, and its attempt is not counted in the row of the job yet). Takes the same time however many leases there are. lease is NULL for a caller that may not read the column in the view pgq_ext.lease. A caller that may not see the queue gets no row.';

CREATE FUNCTION pgq_ext.first_jobs(
    queue_id integer, most integer, after_priority integer = null, after_run_at timestamptz = null, after_job_id bigint = null,
    OUT job_id bigint, OUT priority integer, OUT run_at timestamptz, OUT enqueued_at timestamptz, OUT attempts integer,
    OUT group_key text, OUT unique_key text, OUT last_error text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 SET enable_seqscan = off SET enable_bitmapscan = off AS 'MODULE_PATHNAME', 'pgq_first_jobs';
REVOKE ALL ON FUNCTION pgq_ext.first_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.first_jobs IS
'The first live jobs of a queue, at most most (1 to 10000), in the order of priority DESC, run_at, job_id, after the job with these three values (NULL: from the first job on). For readers of the view pgq_ext.job_status, who see the same jobs there; a queue that the reader may not see has no rows. Reads only these rows, however many jobs the queue has. Errors: 42501 the caller may not read pgq_ext.job_status, 22004 an argument is NULL, 22023 bad most.';

CREATE FUNCTION pgq_cancel_batch(batch bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_cancel_batch';
REVOKE ALL ON FUNCTION pgq_cancel_batch FROM PUBLIC;
COMMENT ON FUNCTION pgq_cancel_batch IS
'Cancel a batch: close it, and delete its waiting members. Returns how many were deleted. The scheduler ends the other members as soon as no transaction uses their leases. Then on_finish is enqueued; on_success is not. Errors: 42704 no such batch, or the batch belongs to a role of which the caller is no member; 22004 NULL; 55000 a subscription replicates jobs into this database.';

-- ---- dependencies: see src/dependencies/README.md ----

CREATE TABLE pgq_ext.job_dependency (
    parent_id  bigint NOT NULL,
    child_id   bigint NOT NULL,
    on_failure smallint NOT NULL,
    ref        text
);
CREATE INDEX job_dependency_by_parent ON pgq_ext.job_dependency (parent_id, child_id);
CREATE INDEX job_dependency_by_child ON pgq_ext.job_dependency (child_id);
-- Without a replica identity, DELETE fails when the table is published, for example by FOR ALL TABLES.
ALTER TABLE pgq_ext.job_dependency REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.job_dependency FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_dependency IS
'Dependencies: a child waits for the end of its parent (after of pgq_enqueue). on_failure: what happens to the child if the parent ends in another way than by an acknowledgement. Rows are never updated; see src/rows/dependency_row.h.';

CREATE TABLE pgq_ext.job_outcome (
    job_id   bigint NOT NULL,
    outcome  smallint NOT NULL,
    ended_at timestamptz NOT NULL,
    queue_id integer NOT NULL,
    result   jsonb,
    error    text
);
CREATE INDEX job_outcome_by_id ON pgq_ext.job_outcome (job_id);
ALTER TABLE pgq_ext.job_outcome REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.job_outcome FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_outcome IS
'Outcomes: how jobs with children have ended. A row is kept until the last child of the job is gone. A job may have several rows with the same outcome. See src/rows/dependency_row.h.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_dependency', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_outcome', '');

CREATE FUNCTION pgq_ext.dependency_came() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_dependency_came';
REVOKE ALL ON FUNCTION pgq_ext.dependency_came() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.dependency_came() IS
'Internal: notes that SQL has inserted dependencies or outcomes, so that jobs that end have to look for children.';

CREATE TRIGGER dependency_came BEFORE INSERT ON pgq_ext.job_dependency
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_came();
ALTER TABLE pgq_ext.job_dependency ENABLE ALWAYS TRIGGER dependency_came;

CREATE FUNCTION pgq_ext.dependency_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_dependency_changed';
REVOKE ALL ON FUNCTION pgq_ext.dependency_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.dependency_changed() IS
'Internal: lets a child no longer wait for a parent after SQL has deleted the dependency, and refuses to change a dependency by SQL.';

-- These triggers do not fire for statements of the extension, for logical replication and for session_replication_role
-- = replica.
CREATE TRIGGER dependency_changed BEFORE UPDATE OR DELETE ON pgq_ext.job_dependency
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_changed();
CREATE TRIGGER dependency_truncated AFTER TRUNCATE ON pgq_ext.job_dependency
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.dependency_changed();

CREATE TRIGGER outcome_came BEFORE INSERT ON pgq_ext.job_outcome
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_came();
ALTER TABLE pgq_ext.job_outcome ENABLE ALWAYS TRIGGER outcome_came;

CREATE TYPE pgq_ext.parent AS (
    job_id bigint,
    ref    text,
    state  text,
    result jsonb,
    error  text
);
COMMENT ON TYPE pgq_ext.parent IS 'A row of pgq_parents.';

CREATE FUNCTION pgq_parents(job_id bigint, lease bigint) RETURNS SETOF pgq_ext.parent
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_parents';
REVOKE ALL ON FUNCTION pgq_parents FROM PUBLIC;
COMMENT ON FUNCTION pgq_parents IS
'Return the parents of a job that a worker has: the jobs after which it was enqueued. job_id: the id of the parent. ref: the name of the parent, if one call has enqueued parent and child. state: acked, cancelled, expired, purged, dropped, deleted; dead: the parent is a dead letter, or was a dead letter that was deleted; waiting or leased: the parent was a dead letter, and was redriven; unknown: the parent was deleted while triggers were disabled. result: as passed to pgq_ack. error: the last error of a dead letter. The lease is asserted as by pgq_assert_lease. Error: PQ001 the lease is stale.';

-- ---- handlers ----

CREATE TABLE pgq_ext.queue_handler (
    queue_id       integer NOT NULL PRIMARY KEY,
    -- The OID of the function, and its schema, name, owner and kind of argument when the handler was set. The
    -- handler is suspended if the function of that OID does not agree with them.
    function       oid NOT NULL,
    schema_name    text NOT NULL,
    function_name  text NOT NULL,
    function_owner oid NOT NULL,
    takes_array    boolean NOT NULL,
    workers        integer NOT NULL CHECK (workers BETWEEN 1 AND 1000),
    timeout        interval NOT NULL CHECK (timeout BETWEEN '1 s' AND '7 days'),
    batch          integer NOT NULL CHECK (batch BETWEEN 1 AND 10000),
    idle           interval NOT NULL CHECK (idle BETWEEN '0' AND '1 day'),
    run_as         oid NOT NULL,
    run_as_name    text NOT NULL,
    -- True: the handler may run as a superuser, since a superuser has set it.
    superuser      boolean NOT NULL,
    paused         boolean NOT NULL,
    -- stamp: a number of the database in which the handler was set; a restored or copied database has another
    -- number. server: the major version of the server on which the handler was set.
    stamp          bigint NOT NULL,
    server         integer NOT NULL,
    set_at         timestamptz NOT NULL
);
REVOKE ALL ON TABLE pgq_ext.queue_handler FROM PUBLIC;
COMMENT ON TABLE pgq_ext.queue_handler IS
'Handlers, one row for each queue that has one: made by pgq_set_handler. Read them through the view pgq_ext.handler, and change them by the functions.';

CREATE FUNCTION pgq_ext.queue_handler_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_handler_changed';
REVOKE ALL ON FUNCTION pgq_ext.queue_handler_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_handler_changed() IS
'Internal: tells the scheduler and the workers that a handler has changed.';

CREATE TRIGGER queue_handler_changed BEFORE INSERT OR UPDATE OR DELETE ON pgq_ext.queue_handler
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_handler_changed();
ALTER TABLE pgq_ext.queue_handler ENABLE ALWAYS TRIGGER queue_handler_changed;
CREATE TRIGGER queue_handler_truncated AFTER TRUNCATE ON pgq_ext.queue_handler
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.queue_handler_changed();
ALTER TABLE pgq_ext.queue_handler ENABLE ALWAYS TRIGGER queue_handler_truncated;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.queue_handler', '');

CREATE FUNCTION pgq_set_handler(
    queue text, handler regprocedure, workers int = 1, timeout interval = '1 min', batch int = 1,
    idle interval = '10 s', run_as regrole = (pg_catalog.quote_ident(current_user))::pg_catalog.regrole) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_set_handler';
REVOKE ALL ON FUNCTION pgq_set_handler FROM PUBLIC;
COMMENT ON FUNCTION pgq_set_handler IS
'Let background workers of the server run the jobs of the queue: for each job, call the function handler, and acknowledge the job in the same transaction; or change the handler of the queue. handler: a function of one argument of type pgq_ext.claimed_job that returns jsonb (the result of the job) or void; or, for work on many jobs at once, of type pgq_ext.claimed_job[] that returns void. If the call raises an error, all its changes are rolled back, and the attempt has failed with that error. workers (1 to 1000): how many workers may run jobs of this queue at a time; pgq_ext.max_handler_workers is the limit for the server. timeout (1 s to 7 days): a call that takes longer is cancelled, and has failed. batch (1 to 10000): how many jobs one transaction runs; if it fails, its jobs run again one by one, and only jobs that fail alone lose an attempt. idle (0 to 1 day): how long a worker without work waits before it ends. run_as: the role as which the workers log in; the caller must be able to SET ROLE to it. The caller and run_as need the right to claim from the queue, and EXECUTE on pgq_claim, pgq_ack and the function. Errors: 42704 no such queue, 22004 an argument is NULL, 22023 bad value, 42P13 the function has the wrong arguments or result, 42883 no such function, 42501 the caller or run_as lacks a right, 55000 run_as may not log in.';

CREATE FUNCTION pgq_drop_handler(queue text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_drop_handler';
REVOKE ALL ON FUNCTION pgq_drop_handler FROM PUBLIC;
COMMENT ON FUNCTION pgq_drop_handler IS
'Drop the handler of the queue; its jobs stay. Takes effect at the commit. A call in progress goes on, and its job ends as if nothing had happened. False: the queue has no handler. Errors: 42704 no such queue, 42501 the caller neither administers the queue nor can SET ROLE to the run_as of the handler.';

CREATE FUNCTION pgq_pause_handler(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_handler';
REVOKE ALL ON FUNCTION pgq_pause_handler FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_handler IS
'Begin no further call of the handler of the queue. Takes effect at the commit; calls in progress go on. Clients may still claim from the queue. Does nothing if the handler is paused already. Errors: as pgq_drop_handler; 42704 the queue has no handler.';

CREATE FUNCTION pgq_resume_handler(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_handler';
REVOKE ALL ON FUNCTION pgq_resume_handler FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_handler IS
'Let the handler of the queue run again, after pgq_pause_handler, or after a restore: a handler that came from a dump, or whose function has changed its owner or was created again, does not run before this call. The caller must be able to set the same handler with pgq_set_handler, and gets the same errors. Error: 42704 the queue has no handler.';

CREATE FUNCTION pgq_ext.handler_entries(
    OUT queue_id integer, OUT running integer, OUT state text, OUT reason text, OUT since timestamptz, OUT next_try_at timestamptz,
    OUT calls bigint, OUT failures bigint, OUT last_error text, OUT failures_in_row integer) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_handler_entries';
REVOKE ALL ON FUNCTION pgq_ext.handler_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.handler_entries IS 'Internal: the handlers in shared memory. last_error is NULL for a caller that may not read the column in the view pgq_ext.handler. failures_in_row: failed calls in a row, of different jobs, with the same SQLSTATE.';

CREATE VIEW pgq_ext.handler WITH (security_barrier) AS
SELECT q.queue,
       pg_catalog.format('%I.%I(pgq_ext.claimed_job%s)', h.schema_name, h.function_name, CASE WHEN h.takes_array THEN '[]' END) AS handler,
       COALESCE(r.rolname::text, h.run_as_name) AS run_as, h.workers, COALESCE(e.running, 0) AS running, h.batch, h.timeout,
       CASE WHEN pg_catalog.current_setting('pgq_ext.max_handler_workers', true) OPERATOR(pg_catalog.=) '0' AND NOT h.paused THEN 'suspended'
            ELSE COALESCE(e.state, CASE WHEN h.paused THEN 'paused' ELSE 'idle' END) END AS state,
       CASE WHEN pg_catalog.current_setting('pgq_ext.max_handler_workers', true) OPERATOR(pg_catalog.=) '0' THEN 'pgq_ext.max_handler_workers is 0'
            ELSE e.reason END AS reason, e.since, e.next_try_at,
       COALESCE(e.calls, 0) AS calls, COALESCE(e.failures, 0) AS failures,
       CASE WHEN pgq_ext.may_read('handler', 'last_error') THEN e.last_error END AS last_error
FROM pgq_ext.queue_handler h
JOIN pgq_ext.queue q USING (queue_id)
LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) h.run_as
LEFT JOIN pgq_ext.handler_entries() e USING (queue_id)
WHERE pgq_ext.may_see(q.queue_id);
COMMENT ON VIEW pgq_ext.handler IS
'Handlers of queues: the functions that background workers of the server call for the jobs. running: workers that have a place at the queue now, at most workers. state: active (a worker runs jobs), idle (there is no job, or none may run now), paused (pgq_pause_handler), suspended (it cannot run, for the reason in reason; no attempt is spent), waiting for a worker slot (pgq_ext.max_handler_workers or max_worker_processes is used up). since: begin of that state, if it is paused or suspended. next_try_at: no call begins before this time, because calls have failed. calls, failures: calls since the start of the server, and those that have failed; a batch that failed and its single calls count separately. last_error: of the last failed call; NULL for members of pg_monitor without another grant.';

-- ---- topics: see src/topics/README.md ----

CREATE TABLE pgq_ext.topic_binding (
    queue_id   integer NOT NULL,
    pattern    text COLLATE "C" NOT NULL,
    -- What a publish does if the queue is full: 'error' or 'skip'.
    when_full  text NOT NULL DEFAULT 'error' CHECK (when_full IN ('error', 'skip')),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    maker_name text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (queue_id, pattern)
);
REVOKE ALL ON TABLE pgq_ext.topic_binding FROM PUBLIC;
COMMENT ON TABLE pgq_ext.topic_binding IS
'Which queues get the jobs that are published to which topics, one row for each binding made by pgq_bind.';

CREATE FUNCTION pgq_ext.topic_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_topic_changed';
REVOKE ALL ON FUNCTION pgq_ext.topic_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.topic_changed() IS
'Internal: lets all sessions read the bindings, or the patterns with rights, again.';

-- For each row, because logical replication fires no triggers for each statement.
CREATE TRIGGER topic_binding_changed AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.topic_binding
FOR EACH ROW EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_binding ENABLE ALWAYS TRIGGER topic_binding_changed;
CREATE TRIGGER topic_binding_truncated AFTER TRUNCATE ON pgq_ext.topic_binding
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_binding ENABLE ALWAYS TRIGGER topic_binding_truncated;

CREATE SEQUENCE pgq_ext.topic_pattern_id_seq AS integer;

CREATE TABLE pgq_ext.topic_pattern (
    pattern_id integer PRIMARY KEY DEFAULT pg_catalog.nextval('pgq_ext.topic_pattern_id_seq'),
    pattern    text COLLATE "C" NOT NULL UNIQUE
);
REVOKE ALL ON TABLE pgq_ext.topic_pattern FROM PUBLIC;
COMMENT ON TABLE pgq_ext.topic_pattern IS
'The patterns of topics for which a right was granted. The privileges of the view pgq_ext.topic_rights_ID are the rights.';

CREATE TRIGGER topic_pattern_changed AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.topic_pattern
FOR EACH ROW EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_pattern ENABLE ALWAYS TRIGGER topic_pattern_changed;
CREATE TRIGGER topic_pattern_truncated AFTER TRUNCATE ON pgq_ext.topic_pattern
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_pattern ENABLE ALWAYS TRIGGER topic_pattern_truncated;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_binding', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_pattern_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_pattern', '');

CREATE FUNCTION pgq_bind(pattern text, queue text, options jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_bind';
REVOKE ALL ON FUNCTION pgq_bind FROM PUBLIC;
COMMENT ON FUNCTION pgq_bind IS
'Bind a queue to a pattern: from the commit on, the queue gets each job that is published to a topic that the pattern matches. A pattern is a text of words with dots between them, at most 255 bytes. The word * matches one word of the topic, # any number of words or none, another word only itself. options: {"when_full": "error"} (default: a publish fails with PQ002 if the queue is full) or {"when_full": "skip"} (it leaves the queue out). If the binding exists, its options are set. Errors: 42704 no such queue, 42501 the caller has no right admin on the queue, 22023 a bad pattern or option, 22004 NULL.';

CREATE FUNCTION pgq_unbind(pattern text, queue text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unbind';
REVOKE ALL ON FUNCTION pgq_unbind FROM PUBLIC;
COMMENT ON FUNCTION pgq_unbind IS
'Remove the binding of a queue to exactly this pattern; false if there is none. Jobs that were published before stay. Errors: 42704 no such queue, 42501 the caller has no right admin on the queue, 22004 NULL.';

CREATE TYPE pgq_ext.published_job AS (
    queue  text,
    job_id bigint
);
COMMENT ON TYPE pgq_ext.published_job IS 'A row of pgq_publish and pgq_publish_many: a queue that has got a job, and the id of the job.';

CREATE FUNCTION pgq_publish(
    topic text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = 'finished',
    unique_for interval = null, on_conflict text = 'keep',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = 'cancel', must_route boolean = false)
    RETURNS SETOF pgq_ext.published_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_publish';
REVOKE ALL ON FUNCTION pgq_publish FROM PUBLIC;
COMMENT ON FUNCTION pgq_publish IS
'Publish a job to a topic: enqueue one job in each queue that is bound to a pattern which matches the topic, in one transaction: in all of these queues or in none. A topic is a text of words with dots between them, at most 255 bytes. The other arguments are those of pgq_enqueue, and hold for each job by itself. The header topic of each job is the topic. Returns the jobs in the order of the ids of their queues; no row if no pattern matches. must_route: then raise PQ003 instead. The caller needs no right on the queues. Errors: PQ003 no queue (with must_route), PQ002 a queue is full and its binding does not say skip, 22023 a bad topic, 22004 NULL, and the errors of pgq_enqueue.';

CREATE FUNCTION pgq_publish_many(jobs jsonb) RETURNS SETOF pgq_ext.published_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 300 AS 'MODULE_PATHNAME', 'pgq_publish_many';
REVOKE ALL ON FUNCTION pgq_publish_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_publish_many IS
'Publish many jobs, in one transaction: all or none. jobs: an array of objects whose keys are the arguments of pgq_publish, for example [{"topic": "order.paid", "payload": {"n": 1}}]; topic and payload are required. Each topic is routed once, and each queue gets its jobs together. Returns the jobs in the order of the ids of their queues, and of the elements; as many rows as there are jobs. after takes ids of jobs only, and there is no ref, since an element can become several jobs. If a queue is full, jobs whose bindings say skip are left out one by one: the jobs without a unique key from a certain element on. Errors: as pgq_publish and pgq_enqueue_many; 0A000 a ref.';

CREATE TYPE pgq_ext.route AS (
    queue   text,
    pattern text
);
COMMENT ON TYPE pgq_ext.route IS 'A row of pgq_route: a queue that gets the jobs of the topic, and a pattern that matches.';

CREATE FUNCTION pgq_route(topic text) RETURNS SETOF pgq_ext.route
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_route';
REVOKE ALL ON FUNCTION pgq_route FROM PUBLIC;
COMMENT ON FUNCTION pgq_route IS
'Return which queues would get a job that is published to the topic, and by which patterns: one row for each binding. pattern is NULL if the caller may not inspect the queue. Errors: 22004 NULL, 22023 a bad topic.';

CREATE FUNCTION pgq_grant_topic(pattern text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_grant_topic';
REVOKE ALL ON FUNCTION pgq_grant_topic FROM PUBLIC;
COMMENT ON FUNCTION pgq_grant_topic IS
'Grant a role rights on a pattern of topics. publish: to publish to the topics that the pattern matches. subscribe: to bind patterns that this pattern contains, to queues of which the role is admin. role: a role, or public for all roles. The first grant for a pattern closes the topics that it matches: from then on only roles with a right may publish to them, or bind patterns that match them. Errors: 42501 the caller is neither a superuser nor the owner of the tables, 42704 no such role, 22023 a bad pattern or right, 22004 NULL.';

CREATE FUNCTION pgq_revoke_topic(pattern text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_revoke_topic';
REVOKE ALL ON FUNCTION pgq_revoke_topic FROM PUBLIC;
COMMENT ON FUNCTION pgq_revoke_topic IS
'Take back rights of pgq_grant_topic. The topics stay closed. Bindings stay. Errors: as pgq_grant_topic; 55000 no right on exactly this pattern was granted; 0LP01 another role has granted the right.';

CREATE VIEW pgq_ext.binding WITH (security_barrier) AS
SELECT b.pattern, q.queue, b.when_full, b.created_at, b.maker_name AS maker
FROM pgq_ext.topic_binding b JOIN pgq_ext.queue q USING (queue_id)
WHERE pgq_ext.may_see(b.queue_id);
COMMENT ON VIEW pgq_ext.binding IS
'Which queues get the jobs of which topics, one row for each binding of pgq_bind to a queue that the caller may inspect.';

-- ---- watched tables: see src/row_changes/README.md ----

CREATE FUNCTION pgq_ext.row_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_row_changed';
REVOKE ALL ON FUNCTION pgq_ext.row_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.row_changed() IS
'Internal: the function of the triggers that pgq_watch_table makes. It enqueues a job for each row that a statement has changed. A role that calls pgq_watch_table needs EXECUTE on this function, too; a role that writes to a watched table does not.';

CREATE FUNCTION pgq_watch_table("table" regclass, target text, columns text[] = null, key text[] = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_watch_table';
REVOKE ALL ON FUNCTION pgq_watch_table FROM PUBLIC;
COMMENT ON FUNCTION pgq_watch_table IS
'Watch a table: each INSERT, UPDATE and DELETE enqueues, in its transaction, one job for each row that it changes. The payload is {"op", "table", "key", "new", "old"}: op is INSERT, UPDATE or DELETE; key, new and old are objects or null. target: the name of a queue, ''queue:NAME'', or ''topic:NAME'' to publish the jobs to a topic. columns: the columns in new and old; default: all columns. An UPDATE that changes none of these columns of a row enqueues no job for the row. columns => ''{}'': a coalescing watch, whose jobs have only {"table", "key"}; while such a job waits, further changes with the same key enqueue no other job. key: the columns by which the old and new version of a row are recognized; default: the primary key. The function makes three triggers on the table, and on each partition. A second call for the same table and target replaces the watch, and makes triggers that are missing. The jobs are enqueued with the rights of the owner of the table. TRUNCATE, logical replication and session_replication_role = replica enqueue nothing. Errors: 42704 no such queue, 42703 no such column, 42809 the relation cannot be watched, 42501 the caller may not create triggers on the table or call pgq_ext.row_changed, or the owner of the table may not enqueue, 22023 a bad value, 22004 NULL.';

CREATE FUNCTION pgq_unwatch_table("table" regclass, target text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unwatch_table';
REVOKE ALL ON FUNCTION pgq_unwatch_table FROM PUBLIC;
COMMENT ON FUNCTION pgq_unwatch_table IS
'Stop watching a table for this target: drop the triggers of pgq_watch_table on the table and its partitions. False if there are none. Jobs that were enqueued before stay. Errors: 42501 the caller does not own the table, 22023 a bad target, 22004 NULL.';

CREATE FUNCTION pgq_ext.watch_entries(
    OUT relation oid, OUT part_of oid, OUT target text, OUT columns text[], OUT key text[], OUT coalescing boolean,
    OUT triggers text[], OUT status text, OUT problem text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_watch_entries';
REVOKE ALL ON FUNCTION pgq_ext.watch_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.watch_entries IS
'Internal: rows of the view pgq_ext.watch. status: ok, warn, or fail if writes to the table fail.';

CREATE VIEW pgq_ext.watch AS
SELECT e.relation::pg_catalog.regclass AS "table", e.target, e.columns, e.key, e.coalescing, e.triggers,
       e.part_of::pg_catalog.regclass AS part_of, e.problem
FROM pgq_ext.watch_entries() e;
COMMENT ON VIEW pgq_ext.watch IS
'Watched tables, one row for each table or partition and target. columns: the columns in new and old; NULL: all. key: the columns of the key; NULL: the table has none. triggers: their names, in the order INSERT, UPDATE, DELETE; NULL for one that is missing. part_of: the partitioned table whose watch includes this partition; jobs name that table. problem: why the watch misses changes, or why writes to the table fail; NULL: none.';

CREATE VIEW pgq_ext.job_state AS
SELECT j.job_id, j.queue_id, j.priority, j.run_at, j.attempts, j.group_id, j.group_key, j.unique_key, j.enqueued_at, j.expires_at,
       j.last_error, j.progress, j.xmax AS locked_by,
       q.queue, q.paused_at, COALESCE(j.max_attempts, q.max_attempts) AS max_attempts,
       l.state AS lease_state, l.attempt, l.worker, l.pid, l.lease_expires_at,
       j.expires_at <= pg_catalog.clock_timestamp() AS has_expired,
       j.run_at > pg_catalog.clock_timestamp() AND (j.run_at > j.enqueued_at OR j.attempts > 0) AS is_scheduled,
       -- The run_at of blocked jobs. (A database that was updated from version 0.1 may lack the column blocked.)
       j.run_at = '9999-12-01 00:00:00+00' AS is_blocked,
       CASE WHEN j.run_at = '9999-12-01 00:00:00+00' THEN (
           SELECT CASE WHEN pg_catalog.count(*) = 0 THEN (
                           SELECT CASE WHEN pg_catalog.count(*) = 0 THEN 'the scheduler: no parents of it are known'
                                       WHEN pg_catalog.count(o.job_id) < pg_catalog.count(*)
                                       THEN pg_catalog.concat('the scheduler: it is not known how job ', pg_catalog.min(d.parent_id) FILTER (WHERE o.job_id IS NULL), ' has ended')
                                       ELSE 'the scheduler: its parents have ended' END
                           FROM pgq_ext.job_dependency d
                           LEFT JOIN pgq_ext.job_outcome o ON o.job_id = d.parent_id
                           WHERE d.child_id = j.job_id)
                       ELSE pg_catalog.concat('the end of job ', pg_catalog.min(w.parent_id), ' (', (pg_catalog.array_agg(w.state ORDER BY w.parent_id))[1], ')',
                                              CASE WHEN pg_catalog.count(*) > 1 THEN pg_catalog.concat(' and of ', pg_catalog.count(*) - 1, CASE WHEN pg_catalog.count(*) > 2 THEN ' others' ELSE ' other' END) END) END
           FROM (SELECT d.parent_id,
                        CASE WHEN p.job_id IS NULL THEN 'dead'
                             WHEN p.job_id IN (SELECT e.job_id FROM pgq_ext.lease_entries() e WHERE e.state IN ('claimed', 'claiming')) THEN 'in work'
                             WHEN p.run_at = '9999-12-01 00:00:00+00' THEN 'blocked'
                             ELSE 'waiting' END AS state
                 FROM pgq_ext.job_dependency d
                 -- LATERAL with LIMIT keeps the planner from reading all jobs for each blocked one.
                 LEFT JOIN LATERAL (SELECT l.job_id, l.run_at FROM pgq_ext.job l WHERE l.job_id = d.parent_id LIMIT 1) p ON true
                 LEFT JOIN LATERAL (SELECT l.job_id FROM pgq_ext.dead_job l WHERE l.job_id = d.parent_id AND p.job_id IS NULL LIMIT 1) x ON true
                 WHERE d.child_id = j.job_id AND (p.job_id IS NOT NULL OR x.job_id IS NOT NULL)) w) END AS awaits,
       q.paused AS is_paused,
       q.fifo AND EXISTS (SELECT FROM pgq_ext.job f WHERE f.queue_id = j.queue_id AND f.group_id = j.group_id AND f.job_id < j.job_id) AS is_behind_in_group,
       q.group_concurrency > 0 AND g.running >= q.group_concurrency AS is_group_full,
       COALESCE(r.next_start, o.next_start) AS group_next_start,
       q.concurrency > 0 AND e.running >= q.concurrency AS is_queue_full,
       e.next_start AS queue_next_start,
       e.waiting_claims = 0 AND COALESCE(e.last_claim_at, e.loaded_at) < pg_catalog.clock_timestamp() - interval '5 min' AS is_unclaimed,
       h.state AS handler_state, h.reason AS handler_reason, h.since AS handler_since, h.next_try_at AS handler_next_try_at,
       pgq_ext.batch_of(j) AS batch
FROM pgq_ext.job j
JOIN pgq_ext.queue q USING (queue_id)
LEFT JOIN pgq_ext.queue_entries() e USING (queue_id)
-- The state of the handler explains why a job waits only if no claim is waiting: a waiting claim would take the
-- job.
LEFT JOIN pgq_ext.handler_entries() h ON h.queue_id = j.queue_id AND e.waiting_claims = 0
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
'Internal: every live job with its lease and all reasons why the job is not handed out, for job_status and pgq_explain.';

CREATE OR REPLACE VIEW pgq_ext.job_status WITH (security_barrier) AS
SELECT s.job_id, s.queue,
       CASE WHEN s.lease_state IN ('claimed', 'claiming') THEN 'leased'
            WHEN s.is_blocked THEN 'blocked'
            WHEN s.is_scheduled THEN 'scheduled'
            ELSE 'ready' END AS state,
       CASE WHEN s.lease_state IN ('claimed', 'claiming') THEN NULL
            -- Show the first reason that applies. The reasons have the same order as in explain_job().
            WHEN s.lease_state = 'lost' THEN 'its last lease was lost; the retry is being scheduled'
            WHEN s.has_expired THEN 'nothing: it has expired'
            WHEN s.lease_state = 'held' THEN 'a transaction that has enqueued it once more (unique_key)'
            WHEN s.lease_state = 'moving' THEN 'its row is being moved to another segment'
            WHEN s.lease_state = 'changing' THEN 'a transaction that is changing or ending it'
            WHEN s.lease_state = 'parked' THEN 'another transaction has locked or changed its row'
            WHEN s.is_blocked THEN s.awaits
            WHEN s.is_paused THEN 'the queue is paused'
            WHEN s.is_scheduled AND s.attempts > 0 THEN 'backoff until run_at'
            WHEN s.is_scheduled THEN 'run_at'
            WHEN s.is_group_full THEN 'one of the jobs of its group in work, of which there are as many as may be (group_concurrency)'
            WHEN s.is_behind_in_group THEN 'an earlier job of its group (fifo)'
            WHEN s.group_next_start > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate of its group (group_rate_limit), until ', s.group_next_start)
            WHEN s.queue_next_start > pg_catalog.clock_timestamp() THEN pg_catalog.concat('the rate (rate_limit), until ', s.queue_next_start)
            WHEN s.is_queue_full THEN 'one of the jobs in work, of which there are as many as may be (concurrency)'
            WHEN s.handler_state = 'suspended' THEN pg_catalog.concat('its handler, which is suspended: ', s.handler_reason)
            WHEN s.handler_state = 'paused' THEN 'its handler, which is paused'
            WHEN s.handler_next_try_at IS NOT NULL THEN pg_catalog.concat('its handler, which rests until ', s.handler_next_try_at)
            WHEN s.handler_state = 'waiting for a worker slot' THEN 'a worker slot for its handler (pgq_ext.max_handler_workers)'
            ELSE COALESCE(pgq_ext.behind(s.queue_id, s.priority, s.run_at, s.job_id, s.group_id),
                          CASE WHEN s.is_unclaimed THEN 'a worker: nobody claims' END,
                          'a worker') END AS waits_for,
       s.priority, s.run_at, s.attempts, s.max_attempts, s.group_key, s.unique_key, s.enqueued_at, s.expires_at,
       CASE WHEN s.lease_state = 'claimed' THEN s.worker END AS worker,
       CASE WHEN s.lease_state = 'claimed' THEN s.lease_expires_at END AS lease_expires_at,
       s.last_error, s.progress, s.batch
FROM pgq_ext.job_state s
WHERE pgq_ext.may_see(s.queue_id);

-- The view batch is made of two, since only a view with security_barrier keeps the planner from calling members_of()
-- once for each column.
CREATE VIEW pgq_ext.batch_state WITH (security_barrier) AS
SELECT b.batch_id, b.created_at, b.closed_at, b.finished_at, b.failed_at, b.succeeded_at, b.cancelled_at, b.metadata,
       b.due_at, b.last_error,
       CASE WHEN b.finished_at IS NOT NULL THEN 'finished' WHEN b.closed_at IS NOT NULL THEN 'closed' ELSE 'open' END AS state,
       COALESCE(r.rolname::text, b.maker_name) AS maker,
       pgq_ext.members_of(b.batch_id) AS members
FROM pgq_ext.job_batch b
LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) b.maker
WHERE pg_catalog.pg_has_role(b.maker, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE')
      OR pg_catalog.pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
                                 WHERE c.oid OPERATOR(pg_catalog.=) 'pgq_ext.job_batch'::pg_catalog.regclass), 'USAGE');
COMMENT ON VIEW pgq_ext.batch_state IS
'Internal: the batches that the reader may see, with the numbers of their members, for the view batch.';

CREATE VIEW pgq_ext.batch WITH (security_barrier) AS
SELECT s.batch_id AS batch, (s.members).added AS total,
       (s.members).live - (s.members).in_work AS waiting, (s.members).in_work AS leased,
       GREATEST((s.members).added - (s.members).live - (s.members).dead - (s.members).cancelled - (s.members).expired - (s.members).deleted, 0) AS acked,
       (s.members).dead, (s.members).cancelled, (s.members).expired, s.state, s.created_at, s.closed_at, s.finished_at,
       CASE WHEN pgq_ext.may_read('batch', 'metadata') THEN s.metadata END AS metadata,
       (s.members).deleted, s.failed_at, s.succeeded_at, s.cancelled_at, s.maker, s.due_at AS next_try_at, s.last_error
FROM pgq_ext.batch_state s;
COMMENT ON VIEW pgq_ext.batch IS
'Batches that the reader may see: those of roles of which the reader is a member; all for the owner and members of pg_monitor. total: members that were added. waiting, leased, dead: members of which a row is left. acked: members that were acknowledged. cancelled, expired, deleted: members that have ended in this way (deleted: purged, dropped with their queue, deleted by SQL, or deleted as a dead letter). state: open, closed, finished. failed_at, finished_at, succeeded_at: when the callback on_failure, on_finish, on_success was enqueued, or was due if the batch has none. last_error: why a callback could not be enqueued. next_try_at: when the scheduler tries again. metadata: NULL for members of pg_monitor without another grant. Reading the numbers of a batch takes about as long as reading the rows of its members.';

-- ---- views ----

ALTER FUNCTION pgq_ext.oldest_ready STABLE;

CREATE OR REPLACE VIEW pgq_ext.queue_status WITH (security_barrier) AS
SELECT q.queue,
       e.ready,
       e.scheduled,
       e.leased::bigint AS leased,
       e.dead_letters AS dead,
       CASE WHEN e.ready > 0 THEN pg_catalog.clock_timestamp() - pgq_ext.oldest_ready(q.queue_id) END AS oldest_ready_age,
       COALESCE(e.waiting_claims, 0) AS waiting_claims,
       e.last_claim_at,
       q.paused,
       e.depth,
       pgq_ext.blocked_jobs(q.queue_id) AS blocked
FROM pgq_ext.queue q
LEFT JOIN pgq_ext.queue_entries() e USING (queue_id)
WHERE pgq_ext.may_see(q.queue_id);

-- A condition of the reader sees no rows that the reader may not.
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

CREATE OR REPLACE VIEW pgq_ext.health AS
SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_rows() h;

COMMENT ON VIEW pgq_ext.schedule IS
'Schedules. payload, options: NULL for members of pg_monitor without another grant. next_run_at: time of the next tick; a time in the past: the tick that could not run yet; NULL while the schedule is paused. last_run_at: time at which the schedule has last enqueued. last_job_id: the job that was enqueued then, or that had its unique key. last_error: why the last tick has no job, or that ticks were skipped; NULL: no problem.';

COMMENT ON VIEW pgq_ext.lease IS
'Jobs in work, with their worker and the end of the lease; lease is NULL for members of pg_monitor without another grant. Jobs that SQL has deleted are not shown; their workers learn that from pgq_extend, pgq_ack and pgq_fail. in_transaction: an open transaction uses the lease, so the lease does not expire before that transaction ends.';

COMMENT ON VIEW pgq_ext.lock IS
'Named locks that are held: the slot and the number of slots, the token (NULL for members of pg_monitor without another grant), the holder (pid: NULL after a restart), the end, and the number of sessions that wait for the name. A lock whose time is over is shown until another session takes it, or for some seconds. in_transaction: a transaction that has not ended has taken the lock, or is giving it back.';

COMMENT ON VIEW pgq_ext.health IS
'Problems of the queues in this database, one row for each check. status: ok, warn (look at it) or fail (something does not work, or could not be checked). detail: the findings, with names of queues, schedules, processes and transactions, but no data of jobs. hint: the remedy. The view raises no error, even if the library is not loaded or has another version: a row says so.';

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
            schedule, lock, rate, dead_letter, handler, batch, binding, watch}'::pg_catalog.name[])
        UNION ALL
        SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, p.proowner, 'EXECUTE', pg_catalog.acldefault('f', p.proowner),
               0, pg_catalog.format('GRANT EXECUTE ON FUNCTION pgq_ext.%I TO PUBLIC', p.proname)
        FROM pg_catalog.pg_proc p WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgq_ext'::pg_catalog.regnamespace
            AND p.proname OPERATOR(pg_catalog.=) ANY ('{may_see, may_read, queue_entries, oldest_ready, blocked_jobs, stat_entries, latency_entries, lease_entries, lease_of,
            first_jobs, group_entries, behind, capacity_entries, segment_entries, snapshot_holders, duty_entries,
            lock_entries, rate_entries, handler_entries, watch_entries, batch_of, members_of, health_rows, health_of_reader}'::pg_catalog.name[])
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
COMMENT ON FUNCTION pgq_ext.unknown_starts IS 'Internal: queues with a rate limit for which the number of recent hand-outs is unknown, and until when that matters.';

CREATE FUNCTION pgq_ext.skip_entries(OUT queue_id integer, OUT skipped bigint, OUT last_skip_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_skip_entries';
REVOKE ALL ON FUNCTION pgq_ext.skip_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.skip_entries IS 'Internal: for each queue from which publishes have left out jobs because it was full (when_full skip): how many jobs since the start of the server, also by transactions that were rolled back, and when the last time was.';

CREATE FUNCTION pgq_ext.is_pattern(pattern text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_is_pattern';
REVOKE ALL ON FUNCTION pgq_ext.is_pattern FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.is_pattern IS 'Internal: true if pgq_bind accepts the pattern.';

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

CREATE OR REPLACE FUNCTION pgq_ext.check_unclaimed() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION pgq_ext.check_paused() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" for %s', q.queue, COALESCE(pgq_ext.ago(q.paused_at)::text, 'nobody knows how long'))
    FROM pgq_ext.queue q WHERE q.paused AND COALESCE(q.paused_at, '-infinity') < clock_timestamp() - interval '1 h'
    UNION ALL
    SELECT 'warn', format('handler of queue "%s" for %s', q.queue, pgq_ext.ago(h.since))
    FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id)
    WHERE h.state = 'paused' AND h.since < clock_timestamp() - interval '1 h';
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
REVOKE ALL ON FUNCTION pgq_ext.check_batches FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_batches IS 'Internal: a check of pgq_ext.health.';

CREATE FUNCTION pgq_ext.check_callbacks() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('batch %s: %s tries to enqueue a callback have failed', b.batch_id, b.failures)
    FROM (SELECT * FROM pgq_ext.job_batch o WHERE o.pending ORDER BY o.batch_id LIMIT 10000) b
    WHERE b.last_error IS NOT NULL ORDER BY b.batch_id LIMIT 100;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.check_callbacks FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_callbacks IS 'Internal: a check of pgq_ext.health.';

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
REVOKE ALL ON FUNCTION pgq_ext.check_children FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_children IS 'Internal: a check of pgq_ext.health.';

CREATE FUNCTION pgq_ext.check_handlers() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" for %s: %s', q.queue, pgq_ext.ago(h.since), h.reason)
    FROM pgq_ext.handler_entries() h JOIN pgq_ext.queue q USING (queue_id) WHERE h.state = 'suspended' ORDER BY h.since;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.check_handlers FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_handlers IS 'Internal: a check of pgq_ext.health.';

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
REVOKE ALL ON FUNCTION pgq_ext.check_handler_calls FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_handler_calls IS 'Internal: a check of pgq_ext.health.';

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
REVOKE ALL ON FUNCTION pgq_ext.check_handler_workers FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_handler_workers IS 'Internal: a check of pgq_ext.health.';

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
REVOKE ALL ON FUNCTION pgq_ext.check_topics FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_topics IS 'Internal: a check of pgq_ext.health.';

CREATE FUNCTION pgq_ext.check_watched_tables() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT e.status, format('table %s, target %s: %s', e.relation::regclass, e.target, e.problem)
    FROM pgq_ext.watch_entries() e WHERE e.problem IS NOT NULL;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.check_watched_tables FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.check_watched_tables IS 'Internal: a check of pgq_ext.health.';

-- It asks with the rights of the owner, so that who watches needs no others, waits for nobody, and has no more than a few
-- rows of each table read.
CREATE OR REPLACE FUNCTION pgq_ext.health_entries(
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

-- Who updates is a superuser; all belongs to the owner of the tables.
DO $$
DECLARE
    owner pg_catalog.regrole := (SELECT relowner::pg_catalog.regrole FROM pg_catalog.pg_class
                                 WHERE oid OPERATOR(pg_catalog.=) 'pgq_ext.queue'::pg_catalog.regclass);
    function pg_catalog.regprocedure;
BEGIN
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.shard OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.queue_handler OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.job_checkpoint OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.job_batch OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.batch_note OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.job_dependency OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.job_outcome OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.topic_binding OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TABLE pgq_ext.topic_pattern OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER SEQUENCE pgq_ext.topic_pattern_id_seq OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.published_job OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.route OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.binding OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.watch OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER SEQUENCE pgq_ext.batch_id_seq OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.explanation OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.parent OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.job_state OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.dead_letter OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.handler OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER TYPE pgq_ext.member_counts OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.batch_state OWNER TO %s', owner);
    EXECUTE pg_catalog.format('ALTER VIEW pgq_ext.batch OWNER TO %s', owner);
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

-- Other descriptions that differ from those of 0.1.
COMMENT ON FUNCTION pgq_ext.announce() IS
'Internal: tells the launcher, at the commit of the transaction, that this database has the extension.';
COMMENT ON TABLE pgq_ext.queue IS
'Queues and their options. Rows are made by pgq_create_queue and removed by pgq_drop_queue. Options may also be changed by UPDATE, which checks them as pgq_create_queue does.';
COMMENT ON FUNCTION pgq_ext.queue_changed() IS
'Internal: checks rows of pgq_ext.queue that SQL statements write directly, as the functions do, and refuses to delete the row of a queue that has jobs or dead letters.';
COMMENT ON FUNCTION pgq_ext.queue_appeared() IS
'Internal: tells the launcher of a new queue if the database has no running scheduler.';
COMMENT ON COLUMN pgq_ext.queue.paused_at IS
'Time since when the queue is paused, by pgq_pause_queue or by UPDATE; NULL: the queue is not paused.';
COMMENT ON FUNCTION pgq_ext.queue_paused() IS
'Internal: sets paused_at in pgq_ext.queue when a queue is paused or resumed.';
COMMENT ON TABLE pgq_ext.job IS
'Live jobs, one row for each job: inserted by pgq_enqueue, deleted by pgq_ack. Partitioned into segments, which the first pgq_create_queue makes.';
COMMENT ON COLUMN pgq_ext.job.attempts IS
'Number of attempts of the job that have failed so far.';
COMMENT ON COLUMN pgq_ext.job.max_attempts IS
'Number of failed attempts after which the job becomes a dead letter; NULL: max_attempts of the queue.';
COMMENT ON COLUMN pgq_ext.job.progress IS
'The last progress that a worker of the job has noted with pgq_progress.';
COMMENT ON COLUMN pgq_ext.job.fence IS
'Token of the last lease whose end was written to this row, or a greater number if SQL has changed the row. Leases of the job that are not greater than the fence are stale.';
COMMENT ON FUNCTION pgq_ext.job_changed() IS
'Internal: tells memory of rows of pgq_ext.job that were written by INSERT, UPDATE, COPY or logical replication, or removed by DELETE or TRUNCATE, and counts these rows.';
COMMENT ON FUNCTION pgq_ext.job_fence() IS
'Internal: sets the fence of a job whose payload or headers are changed by SQL, so that a worker that had got the old content before the last start of the server cannot acknowledge the job.';
COMMENT ON TABLE pgq_ext.unique_key IS
'Unique keys that stay taken for a time (unique_for), even after their job has ended: one row for each job that was enqueued with unique_for, deleted when that time is over.';
COMMENT ON TABLE pgq_ext.token_key IS
'Internal: the secret key that tells real lease tokens from invented ones after a restart.';
COMMENT ON COLUMN pgq_ext.dead_job.fence IS
'Token of the lease of the last attempt. A negative number: that lease was lost, and its worker has not reported the reason of the failure.';
COMMENT ON TABLE pgq_ext.dead_job IS
'Dead letters: jobs whose attempts are used up, or that were failed without retry. A dead letter is deleted when it is older than keep_dead of its queue. Partitioned into segments like pgq_ext.job.';
COMMENT ON TABLE pgq_ext.attempt IS
'Attempts that have ended, of queues with log_attempts: one row for each attempt, written by the transaction that ends the attempt. Rows are kept for keep_attempts of the queue; then their segment is truncated. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.attempt.outcome IS
'How the attempt has ended: acked, failed, released, lost or cancelled.';
COMMENT ON COLUMN pgq_ext.attempt.reason IS
'For a lost attempt: how its lease was lost. For a failed attempt: why it was the last attempt of the job, if it was.';
COMMENT ON COLUMN pgq_ext.attempt.error IS
'For a failed attempt: the error that was passed to pgq_fail.';
COMMENT ON TABLE pgq_ext.finished_job IS
'Finished jobs (acknowledged, cancelled or expired) of queues with keep_finished: written by the transaction that ends the job, and kept for keep_finished; then their segment is truncated. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.finished_job.attempts IS
'Number of attempts of the job that had failed.';
COMMENT ON COLUMN pgq_ext.finished_job.outcome IS
'How the job has ended: acked, cancelled or expired.';
COMMENT ON COLUMN pgq_ext.finished_job.worker IS
'The worker that has acknowledged the job; NULL if its lease was from before a start of the server.';
COMMENT ON COLUMN pgq_ext.finished_job.result IS
'The result that was passed to pgq_ack.';
COMMENT ON FUNCTION pgq_ext.segment_entries IS
'Internal: the segments of pgq_ext.job and of the tables of records. empty_since: time since when new transactions need no row of the segment.';
COMMENT ON VIEW pgq_ext.rotation_blocker IS
'Internal: what keeps a segment without live rows from being truncated: sessions with a snapshot, transactions that have locked the segment for at least a second, an error of the scheduler (also in the server log), a subscription that brings rows of the segment.';
COMMENT ON VIEW pgq_ext.segment IS
'Segments: the tables that store jobs and records, which are partitions of parent. state: current (takes new rows), survivors (has rows that were moved from other segments), closed (is truncated as soon as its rows are gone or were kept for their time), empty. live_rows: number of rows, counted now, so the view reads every job and record. size: bytes of heap, TOAST and indexes. age: time since the oldest live job was enqueued, or the oldest record was written. held_by: what keeps a closed segment from being truncated; NULL: nothing that this view can see. truncations, moved_in, moved_out (rows): counted since the start of the server, in most cases.';
COMMENT ON FUNCTION pgq_pause_queue IS
'Hand out no job of the queue from the commit on: for claims the queue is empty, so claims with wait go on waiting. Jobs in work go on, and new jobs can be enqueued. Does nothing if the queue is paused already. Error: 42704 no such queue.';
COMMENT ON FUNCTION pgq_drop_queue IS
'Drop a queue; true if it was dropped. The queue''s records of attempts and finished jobs are deleted. With force, its jobs (also those in work) and dead letters are deleted, too. Waits for transactions that have written jobs of the queue. Errors: 42704 no such queue (unless if_exists), 55006 the queue is not empty, 2BP01 a table is watched for it (without force).';
COMMENT ON FUNCTION pgq_purge_queue IS
'Delete all waiting jobs of the queue, and return their number; waits for transactions that have locked such a job. Jobs in work and dead letters stay. No job of the queue can be claimed before the transaction ends. Error: 42704 no such queue.';
COMMENT ON FUNCTION pgq_enqueue_many IS
'Add the jobs of a JSON array and return their ids in the order of the array: all jobs or none. Each element is an object; its keys are the parameters of pgq_enqueue: payload (required), priority, delay, run_at, group_key, unique_key, unique_until, unique_for, on_conflict, headers, max_attempts, expires_in, batch, after, on_parent_failure; after may also have names of other elements, which these have as their key ref. Ids are given so that parents have smaller ones than their children. Calls with several unique keys do not deadlock, whatever the order of the elements. Errors: as pgq_enqueue, naming the element; PQ002 if the queue has no room for all jobs.';
COMMENT ON TYPE pgq_ext.claimed_job IS
'A job that was handed out, and the lease that proves the right to the job. attempt: 1 for the first attempt. progress: the last progress that an earlier attempt has noted with pgq_progress. Later versions may add attributes at the end.';
COMMENT ON FUNCTION pgq_ack IS
'Tell that the job is done: its row is deleted when the transaction commits. If keep_finished of the queue is not 0, pgq_ext.finished_job keeps the job with its result for that time. Error: PQ001 the lease is stale; the error also undoes what the transaction has written for the job.';
COMMENT ON FUNCTION pgq_ack_many IS
'As pgq_ack for many jobs (at most 10000): returns the ids of the jobs that were acknowledged. A job whose lease is stale is left out, without an error. Two NULLs, which array_agg returns for no rows, stand for no jobs. Errors: 22023 the arrays differ in length, 22004 an element or only one of the arrays is NULL.';
COMMENT ON FUNCTION pgq_ack_claim IS
'As pgq_ack for each of these jobs (at most 10000), and then pgq_claim without waiting: the loop of a busy worker, with one call and one commit for each round. Two NULLs or empty arrays: no job to acknowledge yet. If the call returns no job, also because leases ran short, call pgq_claim with wait next. A rollback undoes both the acks and the claim. Errors: PQ001 a lease is stale, and nothing was done; the errors of pgq_ack_many and pgq_claim.';
COMMENT ON FUNCTION pgq_assert_lease IS
'Make sure that the job stays with this worker until the end of the transaction, so that no other worker can write the same effects of the job. Until then the lease does not expire, and sessions that want to end the job, or to drop its queue, wait. Error: PQ001 the lease is stale, or the job was deleted.';
COMMENT ON FUNCTION pgq_progress IS
'Note the progress of the work on a job: the view job_status shows it when this transaction has committed, and the next attempt gets it with the job. The lease is asserted as by pgq_assert_lease. Each call writes a new version of the job''s row, so note a step of minutes, not every record. Errors: PQ001 the lease is stale, 22004 no progress.';
COMMENT ON FUNCTION pgq_cancel IS
'End a job in any state. Returns the state that the job had: ready, scheduled, blocked, leased, or dead (then its dead letter is deleted); NULL: there is no such job. The lease of a leased job is revoked at once: pgq_extend returns NULL, and when this transaction has committed, every other call with the lease finds it stale. If this transaction is rolled back after the worker was told, the attempt counts as lost. Waits for a transaction that has already acknowledged, failed, released or asserted the lease. Error: 53400 too many jobs are claimed at the same time.';
COMMENT ON TYPE pgq_ext.job_result IS
'The state and the result of a job. state: ready, scheduled, blocked, leased; acked, cancelled, expired, dead. Later versions may add attributes at the end.';
COMMENT ON FUNCTION pgq_result IS
'Return one row with the state of a job, the result that was passed to pgq_ack and, for a live or dead job, the error of its last attempt; no row if there is no such job any more. With wait (at most 60 s), waits until the job has ended; the commit that ends the job ends the wait, and the call returns before statement_timeout. If the queue keeps no finished jobs (keep_finished is 0), only a call that waits learns the state of a finished job, and no call gets the result. Does not wait for a job that this transaction has enqueued. Errors: 22023 bad wait.';
COMMENT ON FUNCTION pgq_grant IS
'Give a role (or ''public'': all roles) rights on a queue: enqueue, claim, inspect, admin (which includes inspect). Only a superuser or the owner can make the first grant, which closes the queue: from then on, EXECUTE on the functions is not enough to use the queue, and admin on the queue is the right to grant. Rights are privileges of the view pgq_ext.rights_<queue_id>, which is dropped with the queue. Errors: 42704 no such queue or role, 42501 the caller may not grant, 22023 no such right.';
COMMENT ON FUNCTION pgq_revoke IS
'Take rights on a queue away from a role, or from ''public''. Rights that the role has as a member of another role stay, and the queue stays closed. The change takes effect at the commit, also for claims that wait. Errors: as pgq_grant; 55000 the queue has no rights, 0LP01 another role has granted the rights.';
COMMENT ON FUNCTION pgq_ext.may_see IS
'Internal: true if the views show the queue and its jobs to the caller: the queue is open, or the caller has the right inspect or is a member of pg_monitor.';
COMMENT ON TABLE pgq_ext.timetable IS
'Schedules, one row for each: made by pgq_schedule. The scheduler writes the next time of a schedule in the transaction that enqueues its job. Read schedules through the view pgq_ext.schedule, and change them by the functions.';
COMMENT ON FUNCTION pgq_ext.timetable_changed() IS
'Internal: finds the role with whose rights a schedule enqueues, and tells the scheduler that the schedule has changed.';
COMMENT ON FUNCTION pgq_unschedule IS
'Drop a schedule; jobs that it has enqueued stay. False: there is no schedule with that name.';
COMMENT ON FUNCTION pgq_pause_schedule IS
'Stop the schedule: from the commit on, it enqueues no job. Does nothing if the schedule is paused already. Error: 42704 no such schedule.';
COMMENT ON FUNCTION pgq_resume_schedule IS
'Go on after pgq_pause_schedule, with the next tick from now; the ticks of the pause enqueue no jobs. Error: 42704 no such schedule.';
COMMENT ON FUNCTION pgq_ext.is_leased IS
'Internal: true if a worker has that job, a claim is looking at it, or a transaction holds it. False if its lease was lost, or if the job is set aside because its row is locked.';
COMMENT ON FUNCTION pgq_ext.behind IS
'Internal: how many jobs are handed out before that ready job, in words. NULL: none, or memory does not know.';
COMMENT ON FUNCTION pgq_ext.queue_entries IS
'Internal: the queues in shared memory. ready, scheduled, dead_letters: NULL until the scheduler has counted them. depth: number of live jobs, plus the jobs for which open transactions have taken room; NULL without max_depth, and until the jobs are counted.';
COMMENT ON FUNCTION pgq_ext.oldest_ready IS
'Internal: the time since when the oldest ready job of that queue has been due, among committed jobs that no worker has. NULL: no job is ready, or the first rows of more than 64 priorities would have to be read.';
COMMENT ON FUNCTION pgq_ext.recount IS
'Count the jobs and dead letters of the queue again, for example after rows were changed while the triggers of their table were off, or after a TRUNCATE of a single segment. Takes about 0.3 s for a million jobs, and waits only for another count of the same queue.';
COMMENT ON FUNCTION pgq_ext.stat_entries IS
'Internal: the counters of the queues in shared memory.';
COMMENT ON FUNCTION pgq_ext.latency_entries IS
'Internal: the histograms of the queues in shared memory. counts: for each boundary le_seconds, the number of shorter times; count: the number of all times.';
COMMENT ON FUNCTION pgq_ext.group_entries IS
'Internal: the groups that shared memory knows, of queues with group_rate_limit, and the time from which the next job of each group may be handed out, if that time is not over. group_id: NULL for all groups that memory does not know, while their jobs have to wait.';
COMMENT ON FUNCTION pgq_ext.capacity_entries IS
'Internal: the limits of shared memory.';
COMMENT ON FUNCTION pgq_check IS
'Compare shared memory with the rows of this database, and the counters with the entries that they count. Returns one line for each fault, and no line if there is none. Finds jobs that no claim would find (and files them), jobs with two leases, counters that do not add up, jobs and dead letters whose queue or batch does not exist, notes of batches that do not exist. Reads every job. A hint without a row is no fault: a claim drops it.';
COMMENT ON VIEW pgq_ext.job_status IS
'Every live job, its state (ready, scheduled, blocked, leased) and the reason why it waits, in words.';
COMMENT ON VIEW pgq_ext.queue_latency IS
'Histograms of the times that jobs have waited and run since stats_since of queue_stats: for each queue and phase, the number of jobs with a time shorter than le_seconds, and the sum of all times. wait: from the time at which the job became due (the later of enqueue and run_at) to its hand-out, unless that was rolled back. run: from the hand-out to the commit of ack, fail, release or cancel. total: from the enqueue to the commit of the ack.';
COMMENT ON VIEW pgq_ext.capacity IS
'The limits of shared memory, for the whole server: the entries in use, the most that were in use since the start, the limit, the setting that changes the limit, and the bytes of shared memory that it costs to raise the setting by one.';
COMMENT ON VIEW pgq_ext.duty IS
'Duties of the scheduler of this database, for each queue (lost leases: counts their attempts; window, timer: read ahead; counts: counts the jobs if the number is not known; handler: starts workers for the handler of the queue) and for the database (presence, notify, queues, token mark, rotation, retention, expiry, reconcile, locks, schedules, handlers, checkpoints, batches, children). next_run_at: NULL if the duty runs as soon as there is work. failing_since: time of the first of the present failures; failures: number of errors since then. The other duties go on, and a failing duty is tried again after 1 s, 2 s ... 1 min.';
COMMENT ON TYPE pgq_ext.finding IS
'Internal: a finding of a check of pgq_ext.health. status: ok (to be shown although there is no problem), warn, fail.';
COMMENT ON FUNCTION pgq_ext.library_version IS
'Internal: the version of the library that the server has loaded.';
COMMENT ON FUNCTION pgq_ext.library_serves IS
'Internal: true if the library serves SQL objects of that version: its own version and the version before.';
COMMENT ON FUNCTION pgq_ext.verify_tables IS
'Internal: raises the error that other functions raise if the tables of the extension are not as expected.';
COMMENT ON FUNCTION pgq_ext.workers IS
'Internal: the processes of the launcher and of the scheduler of this database, and the number of schedulers that could not be started because worker slots are missing.';
COMMENT ON FUNCTION pgq_ext.late_leases IS
'Internal: for each queue with leases whose time is over: how many of them the scheduler has not counted yet, how many are kept by open transactions, and for both the seconds since the oldest ended.';
COMMENT ON FUNCTION pgq_ext.list IS
'Internal: the first few elements, and how many more there are.';
COMMENT ON FUNCTION pgq_ext.run_check IS
'Internal: the findings of a check, in one line; detail is NULL if the check has found nothing.';
COMMENT ON FUNCTION pgq_ext.held_lock_changed() IS
'Internal: makes memory read the locks again after SQL, such as a restore, has written rows of held_lock.';
COMMENT ON TABLE pgq_ext.rate_limit IS
'Rates that pgq_create_rate has made. See the view pgq_ext.rate.';
COMMENT ON FUNCTION pgq_unlock IS
'Give the named lock back, at commit. For a run: give the run up, so that another caller may begin it. Waits for transactions that have asserted the lock. False: the lock is not held with that token any more.';
COMMENT ON FUNCTION pgq_assert_lock IS
'Make sure that the named lock, or run, stays held with that token until the end of the transaction. Error: PQ001 the lock is not held with that token.';
COMMENT ON FUNCTION pgq_run_done IS
'Finish a run when this transaction commits: no caller begins the run again in its period. Error: PQ001 the token is stale; the error also undoes what the transaction has written.';
COMMENT ON FUNCTION pgq_create_rate IS
'Create a rate: at most permits (1 to 100000) in any time span of the length of period (1 s to 366 days, without months), and at most burst of them (default 1) at once. False: the rate exists, with if_not_exists. The transaction cannot be prepared. Error: 42710 the rate exists.';
COMMENT ON FUNCTION pgq_drop_rate IS
'Remove a rate. False: there is no such rate, with if_exists. Error: 42704 there is no such rate.';
COMMENT ON FUNCTION pgq_ext.lock_entries IS
'Internal: the rows of the view pgq_ext.lock. The token is NULL for a caller that may not read that column of the view.';
COMMENT ON FUNCTION pgq_ext.rate_entries IS
'Internal: the rates that are in memory, for the view pgq_ext.rate.';
COMMENT ON FUNCTION pgq_create_queue IS
'Create a queue; true if it was created. lease_time (1 s to 7 days): how long a worker may have a job before the lease is lost. max_runtime: upper bound of an attempt''s length with extensions (1 s or more; 0: no bound). A failed job is retried after min(backoff_max, backoff_base * 2^(n-1)) * uniform(1 - backoff_jitter, 1 + backoff_jitter), n = failed attempts, and becomes a dead letter after max_attempts. concurrency: how many jobs may be in work at the same time (0: no limit). rate_limit: how many jobs may be handed out in any rate_period (1 s or more; 0: no limit). group_rate_limit: how many jobs of one group_key may be handed out in any rate_period (0: no limit). group_concurrency: how many jobs of one group_key may be in work at the same time (0: no limit). fifo: the jobs of one group_key are handed out one at a time, each after all jobs of the group that were enqueued before it have ended. fair: within a priority groups take turns, one job in each turn, whatever their backlogs; jobs without a group_key are one group; not with group_rate_limit. max_depth: how many jobs may live, waiting or in work, before pgq_enqueue raises PQ002 (0: no limit). log_attempts: which attempts get a record in pgq_ext.attempt (none; failed: also lost ones; all), kept for keep_attempts. keep_finished: how long finished jobs are kept in pgq_ext.finished_job (0: not at all). Dead letters are deleted after keep_dead (0: within seconds). notify: send NOTIFY on channel pgq_<queue>. undo_rolled_back_claims: a rollback of a claim gives its jobs back at once, and counts no attempt; so a job whose transaction always fails is handed out again without delay or end. Errors: 42710 the queue exists (unless if_not_exists), 22023 bad value, 22004 no name, 55000 undo_rolled_back_claims is set and the database needs pgq_ext.add_queue_columns().';
COMMENT ON FUNCTION pgq_fail IS
'Tell that the attempt has failed. Returns ''retry'': the job runs again after retry_in (default: the backoff of the queue); ''dead'': the attempts are used up or retry is false, and the job is in pgq_ext.dead_job; ''stale'': the lease is stale, and nothing was changed. The first 8 kB of error are kept as last_error.';
COMMENT ON FUNCTION pgq_schedule IS
'Enqueue a job again and again: make the schedule of that name, or change it. A changed schedule keeps its next tick if cron and timezone are the same, and stays paused if it was paused. cron: minute, hour, day of month, month, day of week, with seconds before them if there are six fields, as in crontab(5); or @yearly, @monthly, @weekly, @daily, @hourly; or an interval as in ''every 90 s'', counted from 2000-01-01 UTC. If the hour field names hours, a tick runs once where the clocks of timezone skip or repeat that time (a skipped tick runs right after); with * as hour, ticks follow elapsed time. The headers of the job have the name of the schedule and the time of the tick, as schedule and scheduled_at. missed: what happens to ticks that could not run, because the server was down or the queue was full: skip (no job), one (one job for all missed ticks), all (one job for each, for at most the newest 1000). options: an object with other parameters of pgq_enqueue, such as priority or unique_key. The schedule enqueues with the rights of the role that has last called this function for it. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 no schedule, cron or queue, 22023 bad value, or a cron that would not run in the next 40 years.';
COMMENT ON VIEW pgq_ext.queue_status IS
'One row for each queue: how many jobs are ready, scheduled, leased, dead, blocked (they wait for the end of other jobs), how long the oldest ready job has been due (NULL if the first rows of more than 64 priorities would have to be read), how many claims wait. The counts come from memory and include committed jobs only. They are NULL after a start, and after a TRUNCATE by a user, until the scheduler has counted the rows. depth: the number that max_depth limits, with jobs that open transactions are enqueuing; NULL if max_depth is 0.';
COMMENT ON VIEW pgq_ext.queue_stats IS
'Counters of each queue since stats_since (the start of the server, in most cases). Changes that were rolled back are not counted, except by claims, empty_claims, stale_calls, rejected and ghosts, which count calls or their findings whether or not the transaction commits. Jobs handed out that are not acked, failed, released, cancelled, lost or uncounted (the lease ended, but no attempt could be counted) are in work. deduplicated: enqueues that have met a job with the same unique key. rejected: enqueues into a full queue. ghosts: hints that a claim has dropped, because the row did not exist any more. repaired: jobs that memory had forgotten because of a fault, and that the reconciler has found; reconciled: how often the reconciler has read all jobs. p50, p95: percentiles of the last 5 to 10 minutes, of the times in queue_latency; NULL if there were none.';
COMMENT ON FUNCTION pgq_extend_lock IS
'Hold the named lock, or run, for ttl from now (default: the last ttl); its time never becomes shorter. Returns the new end, which takes effect when the transaction has committed. NULL: the lock is not held with that token any more.';
COMMENT ON FUNCTION pgq_run_once IS
'Ask for a task that only one caller may run: once for all time, or once in each period (1 s or more, without months), counted from 2000-01-01 UTC. A token: the caller has the run, and calls pgq_run_done with the token in the transaction of the work. NULL: the run is finished, or another caller has it and did not give it up within wait. A caller that has not finished or extended (pgq_extend_lock) the run within ttl, or was rolled back, loses it. Errors: as pgq_lock.';
