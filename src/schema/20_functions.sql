-- ---- queues ----

CREATE FUNCTION pgq_create_queue(
    queue text, lease_time interval = '5 min', max_runtime interval = '0', max_attempts int = 20,
    backoff_base interval = '1 s', backoff_max interval = '1 h', backoff_jitter float8 = 0.2,
    concurrency int = 0, group_concurrency int = 0,
    log_attempts text = 'failed', keep_attempts interval = '7 days',
    keep_finished interval = '0', keep_dead interval = '30 days', notify boolean = true,
    if_not_exists boolean = false, rate_limit int = 0, rate_period interval = '1 s', fifo boolean = false,
    max_depth bigint = 0, group_rate_limit int = 0, fair boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_queue';
REVOKE ALL ON FUNCTION pgq_create_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_queue IS
'Create a queue; true if it was created. lease_time (1 s to 7 days) is how long a worker may hold a job before it is lost, max_runtime caps extensions (1 s or more; 0: no cap). A failed job is retried after min(backoff_max, backoff_base * 2^(n-1)) * uniform(1 - backoff_jitter, 1 + backoff_jitter), n = failed attempts, and is a dead letter after max_attempts. concurrency: how many jobs may be in work at a time (0: no limit). rate_limit: how many may be handed out in any rate_period (1 s or more; 0: no limit), group_rate_limit: how many of one group_key (0: no limit). group_concurrency: how many jobs of one group_key may be in work at a time (0: no limit). fifo: of one group_key one at a time, and none before those that were enqueued before it have ended. fair: of each priority groups take turns, a job of one after one of another, whatever their backlogs; jobs without a group_key are one group; not with group_rate_limit. max_depth: how many may live, waiting or in work, before pgq_enqueue raises PQ002 (0: no limit). log_attempts: of which attempts pgq_ext.attempt has a record (none, failed: and lost ones, all), kept for keep_attempts; keep_finished: how long finished jobs are kept in pgq_ext.finished_job (0: not at all). Dead letters are deleted after keep_dead (0: within seconds). notify: NOTIFY on channel pgq_<queue>. Errors: 42710 the queue exists (unless if_not_exists), 22023 bad value, 22004 no name.';

CREATE FUNCTION pgq_alter_queue(
    queue text, lease_time interval = null, max_runtime interval = null, max_attempts int = null,
    backoff_base interval = null, backoff_max interval = null, backoff_jitter float8 = null,
    concurrency int = null, group_concurrency int = null,
    log_attempts text = null, keep_attempts interval = null,
    keep_finished interval = null, keep_dead interval = null, notify boolean = null,
    rate_limit int = null, rate_period interval = null, fifo boolean = null,
    max_depth bigint = null, group_rate_limit int = null, fair boolean = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_alter_queue';
REVOKE ALL ON FUNCTION pgq_alter_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_alter_queue IS
'Change options of a queue, as in pgq_create_queue; NULL leaves one as it is. They hold from the commit on: lease_time for leases that are given after it, max_runtime also for those that are extended, what concerns the end of an attempt for those that end. Errors: 42704 no such queue, 22023 bad value.';

CREATE FUNCTION pgq_rename_queue(queue text, new_name text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_rename_queue';
REVOKE ALL ON FUNCTION pgq_rename_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_rename_queue IS
'Give the queue another name from the commit on. The queue keeps its jobs, leases, counts, limits, rights and schedules; claims that wait get jobs under the new name. The old name is free then; NOTIFY comes on the channel of the new one. Errors: 42704 no such queue, 42710 a queue has the new name, 22004 NULL, 22023 the new name is not allowed.';

CREATE FUNCTION pgq_pause_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_queue';
REVOKE ALL ON FUNCTION pgq_pause_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_queue IS
'Hand out no job of the queue from the commit on: claims find it empty, and wait. Jobs in work go on, new ones are taken. Paused twice is paused. Error: 42704 no such queue.';

CREATE FUNCTION pgq_resume_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_queue';
REVOKE ALL ON FUNCTION pgq_resume_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_queue IS
'Hand out jobs again after pgq_pause_queue, from the commit on; claims that wait are woken. Error: 42704 no such queue.';

CREATE FUNCTION pgq_drop_queue(queue text, if_exists boolean = false, force boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_drop_queue';
REVOKE ALL ON FUNCTION pgq_drop_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_drop_queue IS
'Drop a queue; true if it was dropped. Its records of attempts and finished jobs are deleted. With force its jobs and dead letters are, too, those in work included. Waits for transactions that have written jobs of it. Errors: 42704 no such queue (unless if_exists), 55006 the queue is not empty.';

CREATE FUNCTION pgq_purge_queue(queue text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_purge_queue';
REVOKE ALL ON FUNCTION pgq_purge_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_purge_queue IS
'Delete all jobs of the queue that are waiting, and return their number; waits for who has locked one of them. Jobs in work and dead letters stay. Nothing is claimed from the queue before the transaction ends. Error: 42704 no such queue.';

-- ---- producers ----

CREATE FUNCTION pgq_enqueue(
    queue text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = 'finished',
    unique_for interval = null, on_conflict text = 'keep',
    headers jsonb = null, max_attempts int = null, expires_in interval = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_enqueue';
REVOKE ALL ON FUNCTION pgq_enqueue FROM PUBLIC;
COMMENT ON FUNCTION pgq_enqueue IS
'Add a job and return its id. It can be claimed once the transaction has committed, and not before delay has passed or run_at is reached. Jobs go out by priority (high first), run_at, job_id (of a fair queue: by priority, groups in turn). group_key (1 to 255 bytes): the group that the queue''s group_concurrency, group_rate_limit, fifo and fair speak of. max_attempts NULL: what the queue says. A job that nobody has been handed when expires_in has passed is ended, and counted as expired. unique_key (1 to 255 bytes): at most one job of the queue has it, until it has ended (unique_until finished) or was handed out (claimed), and for unique_for at least; if one has it the answer is its id, and on_conflict says what becomes of it: keep (nothing), replace (it becomes the new one), preserve_run_at (but its time stays), append (the payload, an array, is appended), error. One that waits is not handed out before this transaction has ended; one in work is not changed. Errors: 42704 no such queue, PQ002 the queue is full (max_depth), 22004 queue or payload is null, 22023 bad value, 23505 the key is taken, 40001 by a job that the snapshot does not see, 53400 pgq_ext.max_leases.';

CREATE FUNCTION pgq_enqueue_many(queue text, jobs jsonb) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'pgq_enqueue_many';
REVOKE ALL ON FUNCTION pgq_enqueue_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_enqueue_many IS
'Add the jobs of a JSON array and return their ids in its order: all or none. Each element is an object; its keys are the parameters of pgq_enqueue: payload (required), priority, delay, run_at, group_key, unique_key, unique_until, unique_for, on_conflict, headers, max_attempts, expires_in. Unique keys are taken in one order, whatever that of the array. Errors: as pgq_enqueue, naming the element; PQ002 if there is not room for all.';

-- ---- workers ----

CREATE TYPE pgq_ext.claimed_job AS (
    job_id           bigint,
    lease            bigint,
    queue            text,
    payload          jsonb,
    headers          jsonb,
    group_key        text,
    priority         integer,
    attempt          integer,
    max_attempts     integer,
    enqueued_at      timestamptz,
    run_at           timestamptz,
    lease_expires_at timestamptz,
    last_error       text,
    progress         jsonb
);
COMMENT ON TYPE pgq_ext.claimed_job IS
'A job that was handed out, and the lease that proves it. attempt: 1 for the first try. progress: what earlier attempts have noted with pgq_progress. New attributes may come at the end.';

CREATE FUNCTION pgq_claim(
    queue text, max_jobs int = 1, wait interval = '0', lease_time interval = null, worker text = null,
    session_bound boolean = false) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_claim';
REVOKE ALL ON FUNCTION pgq_claim FROM PUBLIC;
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs under a lease of lease_time (1 s to 7 days; default: the queue''s). With wait (at most 60 s) waits for the first one; returns empty in time for statement_timeout. Each job must be answered: with pgq_ack, pgq_fail or pgq_release; if the lease expires, or the claiming transaction rolls back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and nothing claimed.';

CREATE FUNCTION pgq_claim_any(
    queues text[], max_jobs int = 1, wait interval = '0', lease_time interval = null, worker text = null,
    session_bound boolean = false) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_claim_any';
REVOKE ALL ON FUNCTION pgq_claim_any FROM PUBLIC;
COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues), in the order of the array, waiting on all of them at once. Of no queue: nothing, at the end of wait.';

CREATE FUNCTION pgq_ack(job_id bigint, lease bigint, result jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_ack';
REVOKE ALL ON FUNCTION pgq_ack FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack IS
'The job is done: it is deleted when the transaction commits. Where the queue''s keep_finished is not 0, pgq_ext.finished_job keeps it that long, with result. Error: PQ001 the lease is stale, which also undoes what the transaction has written for the job.';

CREATE FUNCTION pgq_ack_many(job_ids bigint[], leases bigint[]) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_ack_many';
REVOKE ALL ON FUNCTION pgq_ack_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_many IS
'As pgq_ack for many jobs (at most 10000): returns the ids whose lease was current and which are done; stale ones are left out and are no error. NULL and NULL, as array_agg makes of no rows, are nothing to do. Errors: 22023 the arrays differ in length, 22004 nulls in them, or only one of them.';

CREATE FUNCTION pgq_fail(
    job_id bigint, lease bigint, error text = null, retry_in interval = null, retry boolean = true) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_fail';
REVOKE ALL ON FUNCTION pgq_fail FROM PUBLIC;
COMMENT ON FUNCTION pgq_fail IS
'The attempt failed. Returns ''retry'': the job runs again after retry_in (default: the queue''s backoff); ''dead'': attempts are used up or retry is false, the job is in pgq_ext.dead_job; ''stale'': the lease is not current, nothing was changed. The first 8 kB of error are kept as last_error.';

CREATE FUNCTION pgq_ack_claim(
    job_ids bigint[], leases bigint[], queue text, max_jobs int = 1, lease_time interval = null,
    worker text = null) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_ack_claim';
REVOKE ALL ON FUNCTION pgq_ack_claim FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_claim IS
'As pgq_ack for each of these jobs (at most 10000), and then pgq_claim without waiting: the loop of a busy worker, one call and one commit a round. NULL and NULL, or empty arrays: nothing to acknowledge yet. If it returns nothing, also for want of leases, pgq_claim with wait is next. Undone, both halves are. Errors: PQ001 a lease is stale, and nothing was done; those of pgq_ack_many and pgq_claim.';

CREATE FUNCTION pgq_release(job_id bigint, lease bigint, delay interval = '0') RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_release';
REVOKE ALL ON FUNCTION pgq_release FROM PUBLIC;
COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and somebody else gets the job after delay (0 or more); with 0 it keeps its place in the order. False: the lease is not current, nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

CREATE FUNCTION pgq_assert_lease(job_id bigint, lease bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_assert_lease';
REVOKE ALL ON FUNCTION pgq_assert_lease FROM PUBLIC;
COMMENT ON FUNCTION pgq_assert_lease IS
'Make sure that the job is still this worker''s, to the end of the transaction: what the transaction writes for the job is then written by nobody else. Meanwhile the lease does not expire, and whoever wants to answer for the job, or to drop its queue, waits. Error: PQ001 the lease is stale, or the job was deleted.';

CREATE FUNCTION pgq_extend(job_id bigint, lease bigint, lease_time interval = null) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_extend';
REVOKE ALL ON FUNCTION pgq_extend FROM PUBLIC;
COMMENT ON FUNCTION pgq_extend IS
'Let the lease end lease_time from now (default: the length that the claim or the last extension asked for; capped by the queue''s max_runtime), and return its end. An end that is later already stays. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: its worker should stop.';

CREATE FUNCTION pgq_progress(job_id bigint, lease bigint, progress jsonb) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_progress';
REVOKE ALL ON FUNCTION pgq_progress FROM PUBLIC;
COMMENT ON FUNCTION pgq_progress IS
'Note how far the work has come: it is in job_status when this transaction has committed, and with the job when it is handed out again. The lease is asserted by it, as by pgq_assert_lease. Each call writes a version of the row: for a step in minutes, not for every record. Errors: PQ001 stale, 22004 no progress.';

-- ---- jobs by their ids ----

CREATE FUNCTION pgq_cancel(job_id bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_cancel';
REVOKE ALL ON FUNCTION pgq_cancel FROM PUBLIC;
COMMENT ON FUNCTION pgq_cancel IS
'End a job, whatever it is doing. Returns what it was: ready, scheduled, leased, or dead (then its dead letter is deleted); NULL: there is no such job. Of a leased one the lease is revoked at once: pgq_extend returns NULL, and when this transaction has committed every other answer of its worker is stale. If it is rolled back after the worker was told, the attempt counts as lost. Waits for a transaction that has already acknowledged, failed, released or asserted the lease. Error: 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_retry(job_id bigint, delay interval = '0') RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_retry';
REVOKE ALL ON FUNCTION pgq_retry FROM PUBLIC;
COMMENT ON FUNCTION pgq_retry IS
'A job that is scheduled or backs off is due delay from now; one that is ready keeps its place if delay is 0. A dead one is a job again, under its id, with all its attempts. False: it is leased, it has expired, or there is none. To bring back some: SELECT pgq_retry(job_id) FROM pgq_ext.dead_job WHERE .... Errors: 22023 bad delay, PQ002 it is dead and its queue is full, 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_redrive(queue text, max_jobs bigint = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_redrive';
REVOKE ALL ON FUNCTION pgq_redrive FROM PUBLIC;
COMMENT ON FUNCTION pgq_redrive IS
'Bring dead letters of a queue back, as pgq_retry does, those that died first; at most max_jobs (NULL: all). Returns how many; those that somebody has locked are left out. Errors: 42704 no such queue, 22023 max_jobs is negative, PQ002 the queue has no room for all of them.';

CREATE FUNCTION pgq_update(
    job_id bigint, payload jsonb = null, priority int = null, run_at timestamptz = null,
    queue text = null, group_key text = null, max_attempts int = null, headers jsonb = null) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_update';
REVOKE ALL ON FUNCTION pgq_update FROM PUBLIC;
COMMENT ON FUNCTION pgq_update IS
'Change a job that waits; NULL leaves a thing as it is. False: it is leased, it has expired, or there is none. Waits for a transaction that is changing it. No claim hands it out before this transaction ends. Errors: 42704 no such queue, 22023 bad value, PQ002 the other queue is full (max_depth), 53400 too many jobs are claimed at the same time.';

CREATE TYPE pgq_ext.job_result AS (
    job_id bigint,
    state  text,
    result jsonb,
    error  text
);
COMMENT ON TYPE pgq_ext.job_result IS
'What has become of a job. state: ready, scheduled, leased; acked, cancelled, expired, dead. New attributes may come at the end.';

CREATE FUNCTION pgq_result(job_id bigint, wait interval = '0') RETURNS SETOF pgq_ext.job_result
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_result';
REVOKE ALL ON FUNCTION pgq_result FROM PUBLIC;
COMMENT ON FUNCTION pgq_result IS
'What has become of a job: one row, with the state, what pgq_ack was given as result, and, of one that lives or is dead, the error of its last attempt; no row if there is no such job any more. With wait (at most 60 s) not before the job has ended: woken by the commit that ends it, and before statement_timeout. If the queue keeps no finished jobs (keep_finished is 0) only who waits learns the state, and nobody the result. A job that this transaction has enqueued is not waited for. Errors: 22023 bad wait.';
