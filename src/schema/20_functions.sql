-- ---- queues ----

CREATE FUNCTION pgq_create_queue(
    queue text, lease_time interval = '5 min', max_runtime interval = '0', max_attempts int = 20,
    backoff_base interval = '1 s', backoff_max interval = '1 h', backoff_jitter float8 = 0.2,
    concurrency int = 0, group_concurrency int = 0,
    log_attempts text = 'failed', keep_attempts interval = '7 days',
    keep_finished interval = '0', keep_dead interval = '30 days', notify boolean = true,
    if_not_exists boolean = false, rate_limit int = 0, rate_period interval = '1 s', fifo boolean = false,
    max_depth bigint = 0, group_rate_limit int = 0, fair boolean = false,
    undo_rolled_back_claims boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_queue';
REVOKE ALL ON FUNCTION pgq_create_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_queue IS
'Create a queue; true if it was created. lease_time (1 s to 7 days): how long a worker may have a job before the lease is lost. max_runtime: upper bound of an attempt''s length with extensions (1 s or more; 0: no bound). A failed job is retried after min(backoff_max, backoff_base * 2^(n-1)) * uniform(1 - backoff_jitter, 1 + backoff_jitter), n = failed attempts, and becomes a dead letter after max_attempts. concurrency: how many jobs may be in work at the same time (0: no limit). rate_limit: how many jobs may be handed out in any rate_period (1 s or more; 0: no limit). group_rate_limit: how many jobs of one group_key may be handed out in any rate_period (0: no limit). group_concurrency: how many jobs of one group_key may be in work at the same time (0: no limit). fifo: the jobs of one group_key are handed out one at a time, each after all jobs of the group that were enqueued before it have ended. fair: within a priority groups take turns, one job in each turn, whatever their backlogs; jobs without a group_key are one group; not with group_rate_limit. max_depth: how many jobs may live, waiting or in work, before pgq_enqueue raises PQ002 (0: no limit). log_attempts: which attempts get a record in pgq_ext.attempt (none; failed: also lost ones; all), kept for keep_attempts. keep_finished: how long finished jobs are kept in pgq_ext.finished_job (0: not at all). Dead letters are deleted after keep_dead (0: within seconds). notify: send NOTIFY on channel pgq_<queue>. undo_rolled_back_claims: a rollback of a claim gives its jobs back at once, and counts no attempt; so a job whose transaction always fails is handed out again without delay or end. Errors: 42710 the queue exists (unless if_not_exists), 22023 bad value, 22004 no name, 55000 undo_rolled_back_claims is set and the database needs pgq_ext.add_queue_columns().';

CREATE FUNCTION pgq_alter_queue(
    queue text, lease_time interval = null, max_runtime interval = null, max_attempts int = null,
    backoff_base interval = null, backoff_max interval = null, backoff_jitter float8 = null,
    concurrency int = null, group_concurrency int = null,
    log_attempts text = null, keep_attempts interval = null,
    keep_finished interval = null, keep_dead interval = null, notify boolean = null,
    rate_limit int = null, rate_period interval = null, fifo boolean = null,
    max_depth bigint = null, group_rate_limit int = null, fair boolean = null,
    undo_rolled_back_claims boolean = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_alter_queue';
REVOKE ALL ON FUNCTION pgq_alter_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_alter_queue IS
'Change options of a queue, as in pgq_create_queue; NULL leaves an option unchanged. The new values hold from the commit on: lease_time for leases that are given after it, max_runtime also for leases that are extended after it, options about the end of an attempt, and undo_rolled_back_claims, for attempts that end after it. Errors: 42704 no such queue, 22023 bad value, 55000 undo_rolled_back_claims is given and the database needs pgq_ext.add_queue_columns().';

CREATE FUNCTION pgq_rename_queue(queue text, new_name text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_rename_queue';
REVOKE ALL ON FUNCTION pgq_rename_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_rename_queue IS
'Give the queue another name from the commit on. The queue keeps its jobs, leases, counts, limits, rights and schedules; claims that wait get jobs under the new name. From then on the old name is free, and NOTIFY uses the channel of the new name. Errors: 42704 no such queue, 42710 a queue has the new name, 22004 NULL, 22023 the new name is not allowed.';

CREATE FUNCTION pgq_pause_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_queue';
REVOKE ALL ON FUNCTION pgq_pause_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_queue IS
'Hand out no job of the queue from the commit on: for claims the queue is empty, so claims with wait go on waiting. Jobs in work go on, and new jobs can be enqueued. Does nothing if the queue is paused already. Error: 42704 no such queue.';

CREATE FUNCTION pgq_resume_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_queue';
REVOKE ALL ON FUNCTION pgq_resume_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_queue IS
'Hand out jobs again after pgq_pause_queue, from the commit on; claims that wait are woken. Error: 42704 no such queue.';

CREATE FUNCTION pgq_drop_queue(queue text, if_exists boolean = false, force boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_drop_queue';
REVOKE ALL ON FUNCTION pgq_drop_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_drop_queue IS
'Drop a queue; true if it was dropped. The queue''s records of attempts and finished jobs are deleted. With force, its jobs (also those in work) and dead letters are deleted, too. Waits for transactions that have written jobs of the queue. Errors: 42704 no such queue (unless if_exists), 55006 the queue is not empty, 2BP01 a table is watched for it (without force).';

CREATE FUNCTION pgq_purge_queue(queue text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_purge_queue';
REVOKE ALL ON FUNCTION pgq_purge_queue FROM PUBLIC;
COMMENT ON FUNCTION pgq_purge_queue IS
'Delete all waiting jobs of the queue, and return their number; waits for transactions that have locked such a job. Jobs in work and dead letters stay. No job of the queue can be claimed before the transaction ends. Error: 42704 no such queue.';

-- ---- producers ----

CREATE FUNCTION pgq_enqueue(
    queue text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = 'finished',
    unique_for interval = null, on_conflict text = 'keep',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = 'cancel') RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_enqueue';
REVOKE ALL ON FUNCTION pgq_enqueue FROM PUBLIC;
COMMENT ON FUNCTION pgq_enqueue IS
'Add a job and return its id. The job can be claimed after the commit of the transaction, and not before delay is over or run_at is reached. Jobs are handed out in the order of priority (high first), run_at, job_id; in a queue with fair, groups take turns within a priority. group_key (1 to 255 bytes): the group of the job, for group_concurrency, group_rate_limit, fifo and fair of the queue. max_attempts NULL: the value of the queue. A job that no claim has handed out when expires_in is over is ended, and counted as expired. unique_key (1 to 255 bytes): at most one job of the queue has the key, until that job has ended (unique_until finished) or was handed out (claimed), and for at least unique_for. If a job has the key, its id is returned, and on_conflict says what happens to that job: keep (nothing), replace (it gets the attributes of the new job), preserve_run_at (as replace, but it keeps its run_at), append (the payload, an array, is appended), error. If that job waits, it is not handed out before this transaction has ended; if it is in work, it is not changed. batch: the job becomes a member of that batch of pgq_create_batch. after (at most 1000 job ids): the job is blocked until these jobs, its parents, have ended; delay counts from then. on_parent_failure: what happens when a parent has ended in another way than by an acknowledgement: cancel (the job is cancelled), run (it runs all the same), hold (it stays blocked while the parent is a dead letter). The call waits for transactions that are ending or changing a parent. Errors: 42704 no such queue, batch or parent, PQ002 the queue is full (max_depth), 22004 queue or payload is null, 22023 bad value, 23505 the key is taken, or its job is no member of the batch, or a job with parents meets the job of its key, 54000 too many parents, 40001 a job has the key that the snapshot does not see, 53400 pgq_ext.max_leases, 55000 the batch is closed or finished.';

CREATE FUNCTION pgq_enqueue_many(queue text, jobs jsonb) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'pgq_enqueue_many';
REVOKE ALL ON FUNCTION pgq_enqueue_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_enqueue_many IS
'Add the jobs of a JSON array and return their ids in the order of the array: all jobs or none. Each element is an object; its keys are the parameters of pgq_enqueue: payload (required), priority, delay, run_at, group_key, unique_key, unique_until, unique_for, on_conflict, headers, max_attempts, expires_in, batch, after, on_parent_failure; after may also have names of other elements, which these have as their key ref. Ids are given so that parents have smaller ones than their children. Calls with several unique keys do not deadlock, whatever the order of the elements. Errors: as pgq_enqueue, naming the element; PQ002 if the queue has no room for all jobs.';

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
'A job that was handed out, and the lease that proves the right to the job. attempt: 1 for the first attempt. progress: the last progress that an earlier attempt has noted with pgq_progress. Later versions may add attributes at the end.';

CREATE FUNCTION pgq_claim(
    queue text, max_jobs int = 1, wait interval = '0', lease_time interval = null, worker text = null,
    session_bound boolean = false) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_claim';
REVOKE ALL ON FUNCTION pgq_claim FROM PUBLIC;
COMMENT ON FUNCTION pgq_claim IS
'Take up to max_jobs (1 to 10000) ready jobs, each with a lease of lease_time (1 s to 7 days; default: lease_time of the queue). With wait (at most 60 s), waits for the first job; returns no job in time for statement_timeout. Each job must be ended with pgq_ack, pgq_fail or pgq_release; if the time of the lease is over, or the claiming transaction is rolled back, the attempt counts as failed. worker is a label (default: application_name). With session_bound the leases also end with the session. Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and no job claimed.';

CREATE FUNCTION pgq_claim_any(
    queues text[], max_jobs int = 1, wait interval = '0', lease_time interval = null, worker text = null,
    session_bound boolean = false) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_claim_any';
REVOKE ALL ON FUNCTION pgq_claim_any FROM PUBLIC;
COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most pgq_ext.max_claim_queues): takes jobs of the queues in the order of the array, and waits for jobs of all of them at once. With an empty array, returns no job at the end of wait.';

CREATE FUNCTION pgq_ack(job_id bigint, lease bigint, result jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_ack';
REVOKE ALL ON FUNCTION pgq_ack FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack IS
'Tell that the job is done: its row is deleted when the transaction commits. If keep_finished of the queue is not 0, pgq_ext.finished_job keeps the job with its result for that time. Error: PQ001 the lease is stale; the error also undoes what the transaction has written for the job.';

CREATE FUNCTION pgq_ack_many(job_ids bigint[], leases bigint[]) RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_ack_many';
REVOKE ALL ON FUNCTION pgq_ack_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_many IS
'As pgq_ack for many jobs (at most 10000): returns the ids of the jobs that were acknowledged. A job whose lease is stale is left out, without an error. Two NULLs, which array_agg returns for no rows, stand for no jobs. Errors: 22023 the arrays differ in length, 22004 an element or only one of the arrays is NULL.';

CREATE FUNCTION pgq_fail(
    job_id bigint, lease bigint, error text = null, retry_in interval = null, retry boolean = true) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_fail';
REVOKE ALL ON FUNCTION pgq_fail FROM PUBLIC;
COMMENT ON FUNCTION pgq_fail IS
'Tell that the attempt has failed. Returns ''retry'': the job runs again after retry_in (default: the backoff of the queue); ''dead'': the attempts are used up or retry is false, and the job is in pgq_ext.dead_job; ''stale'': the lease is stale, and nothing was changed. The first 8 kB of error are kept as last_error.';

CREATE FUNCTION pgq_ack_claim(
    job_ids bigint[], leases bigint[], queue text, max_jobs int = 1, lease_time interval = null,
    worker text = null) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_ack_claim';
REVOKE ALL ON FUNCTION pgq_ack_claim FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_claim IS
'As pgq_ack for each of these jobs (at most 10000), and then pgq_claim without waiting: the loop of a busy worker, with one call and one commit for each round. Two NULLs or empty arrays: no job to acknowledge yet. If the call returns no job, also because leases ran short, call pgq_claim with wait next. A rollback undoes both the acks and the claim. Errors: PQ001 a lease is stale, and nothing was done; the errors of pgq_ack_many and pgq_claim.';

CREATE FUNCTION pgq_ack_next(
    job_id bigint, lease bigint, queue text, lease_time interval = null, worker text = null)
RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_ack_next';
REVOKE ALL ON FUNCTION pgq_ack_next FROM PUBLIC;
COMMENT ON FUNCTION pgq_ack_next IS
'As pgq_ack_claim for one job, without arrays: acknowledge this job, and claim the next one without waiting. NULL for both job_id and lease: no job to acknowledge yet. Errors: PQ001 the lease is stale, and nothing was done; 22004 only one of job_id and lease is NULL; the errors of pgq_claim.';

CREATE FUNCTION pgq_release(job_id bigint, lease bigint, delay interval = '0') RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_release';
REVOKE ALL ON FUNCTION pgq_release FROM PUBLIC;
COMMENT ON FUNCTION pgq_release IS
'Give the job back: the attempt is not counted, and another claim may take the job after delay (0 or more); with 0 the job keeps its place in the order. False: the lease is stale, and nothing was changed. Errors: 22004 job_id or lease is NULL, 22023 bad delay.';

CREATE FUNCTION pgq_assert_lease(job_id bigint, lease bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_assert_lease';
REVOKE ALL ON FUNCTION pgq_assert_lease FROM PUBLIC;
COMMENT ON FUNCTION pgq_assert_lease IS
'Make sure that the job stays with this worker until the end of the transaction, so that no other worker can write the same effects of the job. Until then the lease does not expire, and sessions that want to end the job, or to drop its queue, wait. Error: PQ001 the lease is stale, or the job was deleted.';

CREATE FUNCTION pgq_extend(job_id bigint, lease bigint, lease_time interval = null) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_extend';
REVOKE ALL ON FUNCTION pgq_extend FROM PUBLIC;
COMMENT ON FUNCTION pgq_extend IS
'Let the lease end lease_time from now (default: the length that the claim or the last extension asked for; limited by max_runtime of the queue), and return its end. If the lease already ends later, its end does not change. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was cancelled or deleted: the worker should stop.';

CREATE FUNCTION pgq_progress(job_id bigint, lease bigint, progress jsonb) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_progress';
REVOKE ALL ON FUNCTION pgq_progress FROM PUBLIC;
COMMENT ON FUNCTION pgq_progress IS
'Note the progress of the work on a job: the view job_status shows it when this transaction has committed, and the next attempt gets it with the job. The lease is asserted as by pgq_assert_lease. Each call writes a new version of the job''s row, so note a step of minutes, not every record. Errors: PQ001 the lease is stale, 22004 no progress.';

-- ---- jobs by their ids ----

CREATE FUNCTION pgq_cancel(job_id bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_cancel';
REVOKE ALL ON FUNCTION pgq_cancel FROM PUBLIC;
COMMENT ON FUNCTION pgq_cancel IS
'End a job in any state. Returns the state that the job had: ready, scheduled, blocked, leased, or dead (then its dead letter is deleted); NULL: there is no such job. The lease of a leased job is revoked at once: pgq_extend returns NULL, and when this transaction has committed, every other call with the lease finds it stale. If this transaction is rolled back after the worker was told, the attempt counts as lost. Waits for a transaction that has already acknowledged, failed, released or asserted the lease. Error: 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_retry(
    job_id bigint, delay interval = '0', error_like text = null, died_since timestamptz = null,
    died_before timestamptz = null, group_key text = null) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_retry';
REVOKE ALL ON FUNCTION pgq_retry FROM PUBLIC;
COMMENT ON FUNCTION pgq_retry IS
'Make a scheduled or ready job due delay from now; a ready job keeps its place if delay is 0. A dead letter becomes a job again, with the same id and all its attempts. The other arguments are filters, as in pgq_redrive: the job is left as it is unless it matches all that are given; a job that is no dead letter matches no time range. False: the job does not match, it is leased, it has expired, it is blocked, or there is no such job. Errors: 22023 bad delay or filter, 22025 error_like ends with the escape character, PQ002 the queue of the dead letter is full, 53400 too many jobs are claimed at the same time.';

CREATE FUNCTION pgq_redrive(
    queue text, max_jobs bigint = null, error_like text = null, died_since timestamptz = null,
    died_before timestamptz = null, group_key text = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_redrive';
REVOKE ALL ON FUNCTION pgq_redrive FROM PUBLIC;
COMMENT ON FUNCTION pgq_redrive IS
'Bring dead letters of a queue back, as pgq_retry does, in the order in which they died; at most max_jobs (NULL: all). Returns their number. The other arguments are filters (NULL: no filter); a dead letter must match all of them. error_like (1 to 1000 bytes): a pattern of LIKE for the whole last_error. died_since, died_before: the dead letter has died at died_since or later, and before died_before. group_key: the group of the job. A dead letter that another transaction has locked is left out. Errors: 42704 no such queue, 22023 max_jobs is negative or a bad filter, 22025 error_like ends with the escape character, PQ002 the queue has no room for all of them.';

CREATE FUNCTION pgq_run_again(job_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_again';
REVOKE ALL ON FUNCTION pgq_run_again FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_again IS
'Enqueue a job once more that has finished, and that keep_finished of its queue has kept; return the id of the new job. The new job has the payload, priority, group_key, unique_key, max_attempts and headers of the finished one; headers that are an object get the key run_again_of, with the id of the finished job. It is due now, and has no batch, no parents and no expiry. Each call makes a new job. NULL: no finished job with this id is kept. Errors: 23505 another job has the unique key, PQ002 the queue is full (max_depth), 42501 the caller may not enqueue, 42704 the queue does not exist any more.';

CREATE FUNCTION pgq_update(
    job_id bigint, payload jsonb = null, priority int = null, run_at timestamptz = null,
    queue text = null, group_key text = null, max_attempts int = null, headers jsonb = null) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_update';
REVOKE ALL ON FUNCTION pgq_update FROM PUBLIC;
COMMENT ON FUNCTION pgq_update IS
'Change a waiting job; NULL leaves an attribute unchanged. False: the job is leased, it has expired, or there is no such job. Waits for a transaction that is changing the job. No claim hands the job out before this transaction ends. Errors: 42704 no such queue, 22023 bad value, 55000 the job is blocked, so its run_at cannot be changed, PQ002 the other queue is full (max_depth), 53400 too many jobs are claimed at the same time.';

CREATE TYPE pgq_ext.job_result AS (
    job_id bigint,
    state  text,
    result jsonb,
    error  text
);
COMMENT ON TYPE pgq_ext.job_result IS
'The state and the result of a job. state: ready, scheduled, blocked, leased; acked, cancelled, expired, dead. Later versions may add attributes at the end.';

CREATE FUNCTION pgq_result(job_id bigint, wait interval = '0') RETURNS SETOF pgq_ext.job_result
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_result';
REVOKE ALL ON FUNCTION pgq_result FROM PUBLIC;
COMMENT ON FUNCTION pgq_result IS
'Return one row with the state of a job, the result that was passed to pgq_ack and, for a live or dead job, the error of its last attempt; no row if there is no such job any more. With wait (at most 60 s), waits until the job has ended; the commit that ends the job ends the wait, and the call returns before statement_timeout. If the queue keeps no finished jobs (keep_finished is 0), only a call that waits learns the state of a finished job, and no call gets the result. Does not wait for a job that this transaction has enqueued. Errors: 22023 bad wait.';
