-- ---- why a job does not run, and what became of a job ----

CREATE TYPE pgq_ext.explanation AS (
    step   text,
    detail text
);
COMMENT ON TYPE pgq_ext.explanation IS
'A reason why a job does not run, or a fact about its past. Later versions may add attributes at the end.';

-- These functions are STABLE, so they use the snapshot of pgq_explain, which at every isolation level sees all that
-- is committed by now.
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
