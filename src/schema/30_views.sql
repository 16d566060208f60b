-- ---- functions that read shared memory ----

CREATE FUNCTION pgq_ext.is_leased(job_id bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_is_leased';
REVOKE ALL ON FUNCTION pgq_ext.is_leased FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.is_leased IS 'Internal: true if a worker has that job, a claim is looking at it, or a transaction holds it. False if its lease was lost, or if the job is set aside because its row is locked.';

-- This function is STABLE, so that a query that does not read "waits_for" neither calls the function nor needs the
-- right to call it.
CREATE FUNCTION pgq_ext.behind(
    queue_id integer, priority integer, run_at timestamptz, job_id bigint, group_id bigint) RETURNS text
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_behind';
REVOKE ALL ON FUNCTION pgq_ext.behind FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.behind IS 'Internal: how many jobs are handed out before that ready job, in words. NULL: none, or memory does not know.';

CREATE FUNCTION pgq_ext.lease_entries(
    OUT job_id bigint, OUT lease bigint, OUT queue_id integer, OUT state text, OUT attempt integer,
    OUT worker text, OUT pid integer, OUT claimed_at timestamptz, OUT lease_expires_at timestamptz,
    OUT in_transaction boolean, OUT session_bound boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_lease_entries';
REVOKE ALL ON FUNCTION pgq_ext.lease_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lease_entries IS
'Internal: the leases in shared memory. state: claiming, claimed, parked (another transaction has locked the row), moving (to another segment), changing (by a transaction that has taken the waiting job), held (by transactions that have met the job by its unique_key: worker is one of them, as in pg_locks.virtualtransaction), lost. lease is NULL for a caller that may not read the column in the view pgq_ext.lease.';

CREATE FUNCTION pgq_ext.queue_entries(
    OUT queue_id integer, OUT ready bigint, OUT scheduled bigint, OUT leased integer, OUT dead_letters bigint, OUT waiting_claims integer, OUT running integer, OUT next_start timestamptz, OUT depth bigint, OUT last_claim_at timestamptz,
    OUT loaded_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_entries';
REVOKE ALL ON FUNCTION pgq_ext.queue_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_entries IS 'Internal: the queues in shared memory. ready, scheduled, dead_letters: NULL until the scheduler has counted them. depth: number of live jobs, plus the jobs for which open transactions have taken room; NULL without max_depth, and until the jobs are counted.';

-- As blocked_jobs(), this function is STABLE, so that a query that does not read the column does not call it.
CREATE FUNCTION pgq_ext.oldest_ready(queue_id integer) RETURNS timestamptz
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_oldest_ready';
REVOKE ALL ON FUNCTION pgq_ext.oldest_ready FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.oldest_ready IS 'Internal: the time since when the oldest ready job of that queue has been due, among committed jobs that no worker has. NULL: no job is ready, or the first rows of more than 64 priorities would have to be read.';

CREATE FUNCTION pgq_ext.blocked_jobs(queue_id integer) RETURNS bigint
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_blocked_jobs';
REVOKE ALL ON FUNCTION pgq_ext.blocked_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.blocked_jobs IS 'Internal: the number of blocked jobs of that queue. NULL: the jobs are not counted yet.';

CREATE FUNCTION pgq_ext.recount(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_recount';
REVOKE ALL ON FUNCTION pgq_ext.recount FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.recount IS 'Count the jobs and dead letters of the queue again, for example after rows were changed while the triggers of their table were off, or after a TRUNCATE of a single segment. Takes about 0.3 s for a million jobs, and waits only for another count of the same queue.';

CREATE FUNCTION pgq_ext.stat_entries(
    OUT queue_id integer, OUT loaded_at timestamptz, OUT enqueued bigint, OUT deduplicated bigint,
    OUT claims bigint, OUT empty_claims bigint, OUT handed_out bigint, OUT acked bigint,
    OUT failed bigint, OUT released bigint, OUT cancelled bigint, OUT lost bigint,
    OUT dead_lettered bigint, OUT expired bigint, OUT uncounted bigint, OUT stale_calls bigint,
    OUT rejected bigint, OUT ghosts bigint, OUT repaired bigint, OUT reconciled bigint,
    OUT wait_p50 interval, OUT wait_p95 interval, OUT run_p50 interval, OUT run_p95 interval,
    OUT total_p50 interval, OUT total_p95 interval) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_stat_entries';
REVOKE ALL ON FUNCTION pgq_ext.stat_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.stat_entries IS 'Internal: the counters of the queues in shared memory.';

CREATE FUNCTION pgq_ext.latency_entries(
    OUT queue_id integer, OUT phase text, OUT le_seconds float8[], OUT counts bigint[], OUT count bigint, OUT sum_seconds float8) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_latency_entries';
REVOKE ALL ON FUNCTION pgq_ext.latency_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.latency_entries IS 'Internal: the histograms of the queues in shared memory. counts: for each boundary le_seconds, the number of shorter times; count: the number of all times.';

CREATE FUNCTION pgq_ext.group_entries(
    OUT queue_id integer, OUT group_id bigint, OUT next_start timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_group_entries';
REVOKE ALL ON FUNCTION pgq_ext.group_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.group_entries IS 'Internal: the groups that shared memory knows, of queues with group_rate_limit, and the time from which the next job of each group may be handed out, if that time is not over. group_id: NULL for all groups that memory does not know, while their jobs have to wait.';

CREATE FUNCTION pgq_ext.capacity_entries(
    OUT name text, OUT used bigint, OUT peak bigint, OUT bound bigint, OUT guc text,
    OUT entry_bytes bigint) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_capacity_entries';
REVOKE ALL ON FUNCTION pgq_ext.capacity_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.capacity_entries IS 'Internal: the limits of shared memory.';

CREATE FUNCTION pgq_ext.duty_entries(
    OUT duty text, OUT queue_id integer, OUT last_run_at timestamptz, OUT next_run_at timestamptz,
    OUT failures integer, OUT failing_since timestamptz, OUT last_error text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_duty_entries';
REVOKE ALL ON FUNCTION pgq_ext.duty_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.duty_entries IS 'Internal: the duties of the scheduler.';

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

CREATE FUNCTION pgq_ext.first_jobs(
    queue_id integer, most integer, after_priority integer = null, after_run_at timestamptz = null, after_job_id bigint = null,
    OUT job_id bigint, OUT priority integer, OUT run_at timestamptz, OUT enqueued_at timestamptz, OUT attempts integer,
    OUT group_key text, OUT unique_key text, OUT last_error text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 SET enable_seqscan = off SET enable_bitmapscan = off AS 'MODULE_PATHNAME', 'pgq_first_jobs';
REVOKE ALL ON FUNCTION pgq_ext.first_jobs FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.first_jobs IS
'The first live jobs of a queue, at most most (1 to 10000), in the order of priority DESC, run_at, job_id, after the job with these three values (NULL: from the first job on). For readers of the view pgq_ext.job_status, who see the same jobs there; a queue that the reader may not see has no rows. Reads only these rows, however many jobs the queue has. Errors: 42501 the caller may not read pgq_ext.job_status, 22004 an argument is NULL, 22023 bad most.';

-- ---- for administrators ----

CREATE FUNCTION pgq_check() RETURNS SETOF text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_check';
REVOKE ALL ON FUNCTION pgq_check FROM PUBLIC;
COMMENT ON FUNCTION pgq_check IS
'Compare shared memory with the rows of this database, and the counters with the entries that they count. Returns one line for each fault, and no line if there is none. Finds jobs that no claim would find (and files them), jobs with two leases, counters that do not add up, jobs and dead letters whose queue or batch does not exist, notes of batches that do not exist. Reads every job. A hint without a row is no fault: a claim drops it.';

-- ---- views for people ----

CREATE VIEW pgq_ext.lease WITH (security_barrier) AS
SELECT l.job_id, l.lease, q.queue, j.group_key, l.attempt, l.worker, l.pid, l.claimed_at,
       l.lease_expires_at, l.session_bound, l.in_transaction
FROM pgq_ext.lease_entries() l
JOIN pgq_ext.queue q USING (queue_id)
JOIN pgq_ext.job j ON j.job_id = l.job_id
WHERE l.state = 'claimed';
COMMENT ON VIEW pgq_ext.lease IS
'Jobs in work, with their worker and the end of the lease; lease is NULL for members of pg_monitor without another grant. Jobs that SQL has deleted are not shown; their workers learn that from pgq_extend, pgq_ack and pgq_fail. in_transaction: an open transaction uses the lease, so the lease does not expire before that transaction ends.';

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

CREATE VIEW pgq_ext.job_status WITH (security_barrier) AS
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
COMMENT ON VIEW pgq_ext.job_status IS
'Every live job, its state (ready, scheduled, blocked, leased) and the reason why it waits, in words.';

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

CREATE VIEW pgq_ext.queue_status WITH (security_barrier) AS
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
COMMENT ON VIEW pgq_ext.queue_status IS
'One row for each queue: how many jobs are ready, scheduled, leased, dead, blocked (they wait for the end of other jobs), how long the oldest ready job has been due (NULL if the first rows of more than 64 priorities would have to be read), how many claims wait. The counts come from memory and include committed jobs only. They are NULL after a start, and after a TRUNCATE by a user, until the scheduler has counted the rows. depth: the number that max_depth limits, with jobs that open transactions are enqueuing; NULL if max_depth is 0.';

CREATE VIEW pgq_ext.queue_stats WITH (security_barrier) AS
SELECT q.queue, s.loaded_at AS stats_since, s.enqueued, s.deduplicated, s.claims, s.empty_claims, s.handed_out, s.acked, s.failed,
       s.released, s.cancelled, s.lost, s.dead_lettered, s.expired, s.uncounted, s.stale_calls, s.rejected, s.ghosts, s.repaired,
       s.reconciled, s.wait_p50, s.wait_p95, s.run_p50, s.run_p95, s.total_p50, s.total_p95
FROM pgq_ext.stat_entries() s
JOIN pgq_ext.queue q USING (queue_id);
COMMENT ON VIEW pgq_ext.queue_stats IS
'Counters of each queue since stats_since (the start of the server, in most cases). Changes that were rolled back are not counted, except by claims, empty_claims, stale_calls, rejected and ghosts, which count calls or their findings whether or not the transaction commits. Jobs handed out that are not acked, failed, released, cancelled, lost or uncounted (the lease ended, but no attempt could be counted) are in work. deduplicated: enqueues that have met a job with the same unique key. rejected: enqueues into a full queue. ghosts: hints that a claim has dropped, because the row did not exist any more. repaired: jobs that memory had forgotten because of a fault, and that the reconciler has found; reconciled: how often the reconciler has read all jobs. p50, p95: percentiles of the last 5 to 10 minutes, of the times in queue_latency; NULL if there were none.';

CREATE VIEW pgq_ext.queue_latency WITH (security_barrier) AS
SELECT q.queue, l.phase, b.le_seconds, b.count, l.sum_seconds
FROM pgq_ext.latency_entries() l
JOIN pgq_ext.queue q USING (queue_id)
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(pg_catalog.array_append(l.le_seconds, 'Infinity')),
                              pg_catalog.unnest(pg_catalog.array_append(l.counts, l.count))) AS b (le_seconds, count);
COMMENT ON VIEW pgq_ext.queue_latency IS
'Histograms of the times that jobs have waited and run since stats_since of queue_stats: for each queue and phase, the number of jobs with a time shorter than le_seconds, and the sum of all times. wait: from the time at which the job became due (the later of enqueue and run_at) to its hand-out, unless that was rolled back. run: from the hand-out to the commit of ack, fail, release or cancel. total: from the enqueue to the commit of the ack.';

CREATE VIEW pgq_ext.capacity AS
SELECT name, used, peak, bound, guc, entry_bytes FROM pgq_ext.capacity_entries();
COMMENT ON VIEW pgq_ext.capacity IS
'The limits of shared memory, for the whole server: the entries in use, the most that were in use since the start, the limit, the setting that changes the limit, and the bytes of shared memory that it costs to raise the setting by one.';

CREATE VIEW pgq_ext.duty WITH (security_barrier) AS
SELECT d.duty, q.queue, d.last_run_at, d.next_run_at, d.failures, d.failing_since, d.last_error
FROM pgq_ext.duty_entries() d
LEFT JOIN pgq_ext.queue q USING (queue_id);
COMMENT ON VIEW pgq_ext.duty IS
'Duties of the scheduler of this database, for each queue (lost leases: counts their attempts; window, timer: read ahead; counts: counts the jobs if the number is not known; handler: starts workers for the handler of the queue) and for the database (presence, notify, queues, token mark, rotation, retention, expiry, reconcile, locks, schedules, handlers, checkpoints, batches, children). next_run_at: NULL if the duty runs as soon as there is work. failing_since: time of the first of the present failures; failures: number of errors since then. The other duties go on, and a failing duty is tried again after 1 s, 2 s ... 1 min.';
