-- pgq_ext: a job queue inside PostgreSQL.
-- The objects of version 0.1, as it was released: not to be changed any more.

\echo Use "CREATE EXTENSION pgq_ext" to load this file. \quit

-- The functions go to the schema of the extension, everything else to pgq_ext.
CREATE SCHEMA pgq_ext;

CREATE FUNCTION pgq_ext.announce() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_announce';
REVOKE ALL ON FUNCTION pgq_ext.announce() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.announce() IS
'Internal: tells the launcher, when the transaction commits, that this database has the extension.';

-- Fails here, before anything else, with the fix, if the library was not preloaded.
SELECT pgq_ext.announce();

-- The engine reads the columns of these tables by position: see core/ring.h,
-- catalog/queue_row.cpp, rows/job.cpp.

CREATE TABLE pgq_ext.queue (
    queue_id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text COLLATE "C" NOT NULL CONSTRAINT queue_name_key UNIQUE,
    lease_time     interval NOT NULL CHECK (lease_time BETWEEN '1 s' AND '7 days'),
    max_runtime    interval NOT NULL CHECK (max_runtime = '0' OR max_runtime BETWEEN '1 s' AND '1000 years'),
    max_attempts   integer NOT NULL CHECK (max_attempts >= 1),
    backoff_base   interval NOT NULL CHECK (backoff_base BETWEEN '0' AND '1000 years'),
    backoff_max    interval NOT NULL CHECK (backoff_max BETWEEN '0' AND '1000 years'),
    backoff_jitter float8 NOT NULL CHECK (backoff_jitter BETWEEN 0 AND 1),
    concurrency    integer NOT NULL DEFAULT 0 CHECK (concurrency >= 0),
    rate_limit     integer NOT NULL DEFAULT 0 CHECK (rate_limit >= 0),
    rate_period    interval NOT NULL DEFAULT '1 s' CHECK (rate_period BETWEEN '1 s' AND '1000 years'),
    group_rate_limit integer NOT NULL DEFAULT 0 CHECK (group_rate_limit >= 0),
    group_concurrency integer NOT NULL DEFAULT 0 CHECK (group_concurrency >= 0),
    fifo           boolean NOT NULL DEFAULT false,
    fair           boolean NOT NULL DEFAULT false,
    max_depth      bigint NOT NULL DEFAULT 0 CHECK (max_depth >= 0),
    log_attempts   text COLLATE "C" NOT NULL DEFAULT 'failed' CHECK (log_attempts IN ('none', 'failed', 'all')),
    keep_attempts  interval NOT NULL DEFAULT '7 days' CHECK (keep_attempts BETWEEN '0' AND '1000 years'),
    keep_finished  interval NOT NULL DEFAULT '0' CHECK (keep_finished BETWEEN '0' AND '1000 years'),
    keep_dead      interval NOT NULL CHECK (keep_dead BETWEEN '0' AND '1000 years'),
    notify         boolean NOT NULL,
    paused         boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    paused_at      timestamptz,
    CHECK (pg_catalog.octet_length(queue) BETWEEN 1 AND 59)
);
COMMENT ON TABLE pgq_ext.queue IS
'Queues and their options. Made by pgq_create_queue, removed by pgq_drop_queue; options may be changed by UPDATE, which checks them as pgq_create_queue does.';

CREATE FUNCTION pgq_ext.queue_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_changed';
REVOKE ALL ON FUNCTION pgq_ext.queue_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_changed() IS
'Internal: checks rows of pgq_ext.queue as the functions do, and keeps a queue that has jobs or dead letters from being deleted by hand.';

-- Silent for logical replication, and for a restore: see src/api/by_hand.cpp. The CHECKs above are for these.
CREATE TRIGGER queue_changed BEFORE INSERT OR UPDATE OR DELETE ON pgq_ext.queue
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_changed();
CREATE TRIGGER queue_truncated AFTER TRUNCATE ON pgq_ext.queue
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.queue_changed();

CREATE FUNCTION pgq_ext.queue_appeared() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_appeared';
REVOKE ALL ON FUNCTION pgq_ext.queue_appeared() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_appeared() IS
'Internal: tells the launcher of a new queue where no scheduler is running.';

CREATE TRIGGER queue_appeared AFTER INSERT ON pgq_ext.queue
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_appeared();
ALTER TABLE pgq_ext.queue ENABLE ALWAYS TRIGGER queue_appeared;

COMMENT ON COLUMN pgq_ext.queue.paused_at IS 'Since when it is paused, by whatever door that was done; NULL: it is not.';

CREATE FUNCTION pgq_ext.queue_paused() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    -- What a dump, or a publisher, says of it stays.
    NEW.paused_at := CASE WHEN NEW.paused THEN COALESCE(NEW.paused_at, pg_catalog.clock_timestamp()) END;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.queue_paused() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_paused() IS
'Internal: notes in pgq_ext.queue since when a queue is paused.';

CREATE TRIGGER queue_paused BEFORE INSERT OR UPDATE ON pgq_ext.queue
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_paused();
ALTER TABLE pgq_ext.queue ENABLE ALWAYS TRIGGER queue_paused;

CREATE SEQUENCE pgq_ext.job_id_seq AS bigint MAXVALUE 9007199254740991;

CREATE TABLE pgq_ext.job (
    job_id       bigint NOT NULL DEFAULT pg_catalog.nextval('pgq_ext.job_id_seq')
                 CHECK (job_id BETWEEN 1 AND 9007199254740991),
    run_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp() CHECK (pg_catalog.isfinite(run_at)),
    enqueued_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    queue_id     integer NOT NULL,
    priority     integer NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    segment      smallint NOT NULL DEFAULT 0,
    payload      jsonb NOT NULL,
    -- What most jobs do not have takes no room at the end of the row: see TupleFormer.
    max_attempts integer CHECK (max_attempts >= 1),
    expires_at   timestamptz,
    fence        bigint,
    group_key    text,
    group_id     bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(group_key, 0) OPERATOR(pg_catalog.|) 1) STORED,
    unique_key   text,
    unique_hash  bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(unique_key, queue_id)) STORED,
    headers      jsonb,
    last_error   text,
    progress     jsonb
) PARTITION BY LIST (segment);
-- Never compressed: who looks for a key compares it as it lies there.
ALTER TABLE pgq_ext.job ALTER COLUMN unique_key SET STORAGE EXTERNAL;
COMMENT ON TABLE pgq_ext.job IS
'Live jobs, one row each: inserted by pgq_enqueue, deleted by pgq_ack. Partitioned into segments, which the first pgq_create_queue makes.';
COMMENT ON COLUMN pgq_ext.job.attempts IS 'Attempts that have failed so far.';
COMMENT ON COLUMN pgq_ext.job.max_attempts IS 'NULL: what the queue says.';
COMMENT ON COLUMN pgq_ext.job.progress IS 'What its workers have noted with pgq_progress; the last one counts.';
COMMENT ON COLUMN pgq_ext.job.fence IS 'Token of the last lease whose end was written to this row, or a later one if the row was changed by SQL. Leases up to it are stale.';

CREATE FUNCTION pgq_ext.job_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_changed';
REVOKE ALL ON FUNCTION pgq_ext.job_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_changed() IS
'Internal: makes rows known that reach pgq_ext.job by INSERT, UPDATE, COPY or logical replication, and that some have gone by DELETE or TRUNCATE. All of them are counted.';

CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.job
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_changed();
ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_changed;
CREATE TRIGGER job_truncated AFTER TRUNCATE ON pgq_ext.job
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.job_changed();
ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_truncated;

CREATE FUNCTION pgq_ext.job_fence() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_fence';
REVOKE ALL ON FUNCTION pgq_ext.job_fence() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_fence() IS
'Internal: a job whose payload or headers are changed by SQL is another job for who held it before the last start of the server.';

CREATE TRIGGER job_fence BEFORE INSERT OR UPDATE ON pgq_ext.job
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_fence();
ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_fence;

-- See src/rows/key_period.h. Read by position.
CREATE TABLE pgq_ext.unique_key (
    job_id      bigint NOT NULL,
    until       timestamptz NOT NULL,
    queue_id    integer NOT NULL,
    unique_key  text NOT NULL,
    unique_hash bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(unique_key, queue_id)) STORED
);
CREATE INDEX unique_key_by_hash ON pgq_ext.unique_key (unique_hash);
CREATE INDEX unique_key_until ON pgq_ext.unique_key (until);
COMMENT ON TABLE pgq_ext.unique_key IS
'Unique keys that are nobody else''s before a time, whatever becomes of their job: one row for each job that was enqueued with unique_for, deleted when that has passed.';

-- See src/catalog/token_mark.h.
CREATE SEQUENCE pgq_ext.token_mark AS bigint MINVALUE 0 START 0 MAXVALUE 9007199254740991;
COMMENT ON SEQUENCE pgq_ext.token_mark IS
'Internal: lease tokens up to this mark may have been handed out; after a restart or failover new ones start above it.';

-- Not dumped: see src/catalog/token_key.h.
CREATE TABLE pgq_ext.token_key (key uuid NOT NULL);
REVOKE ALL ON pgq_ext.token_key FROM PUBLIC;
COMMENT ON TABLE pgq_ext.token_key IS
'Internal: the secret key of the check bits in lease tokens.';
INSERT INTO pgq_ext.token_key VALUES (pg_catalog.gen_random_uuid());

-- See src/load/saved_lease.h.
CREATE TABLE pgq_ext.saved_lease (
    mark           bigint NOT NULL,
    job_id         bigint NOT NULL,
    lease          bigint NOT NULL,
    queue_id       integer NOT NULL,
    attempt        integer NOT NULL,
    loss           smallint,
    remaining      bigint NOT NULL,
    claimed_at     timestamptz NOT NULL,
    segment        smallint NOT NULL,
    place          tid NOT NULL,
    prepared_claim xid NOT NULL,
    prepared_use   xid NOT NULL,
    prepared_end   smallint,
    prepared_death boolean NOT NULL,
    worker         text NOT NULL
);
REVOKE ALL ON TABLE pgq_ext.saved_lease FROM PUBLIC;
COMMENT ON TABLE pgq_ext.saved_lease IS
'Internal: leases as they were at a clean shutdown, restored at the start if no lease was handed out since (mark is that of pgq_ext.token_mark). Not dumped.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.queue', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.queue_queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.token_mark', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.unique_key', '');
-- ---- records, and the segments that jobs and records are stored in: see src/core/ring.h ----

CREATE TABLE pgq_ext.dead_job (
    job_id       bigint NOT NULL,
    queue_id     integer NOT NULL,
    died_at      timestamptz NOT NULL,
    enqueued_at  timestamptz NOT NULL,
    run_at       timestamptz NOT NULL,
    priority     integer NOT NULL,
    attempts     integer NOT NULL,
    segment      smallint NOT NULL DEFAULT 8,
    max_attempts integer,
    fence        bigint,
    group_key    text,
    unique_key   text,
    reason       text NOT NULL,
    last_error   text,
    headers      jsonb,
    payload      jsonb NOT NULL
) PARTITION BY LIST (segment);
COMMENT ON COLUMN pgq_ext.dead_job.fence IS 'Token of the lease of its last attempt; negative: that was lost, and its worker has not said why.';
COMMENT ON TABLE pgq_ext.dead_job IS
'Dead letters: jobs whose attempts are used up, or that were failed without retry. Deleted when the queue''s keep_dead has passed. Partitioned into segments like pgq_ext.job.';

CREATE FUNCTION pgq_ext.dead_job_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_dead_job_changed';
REVOKE ALL ON FUNCTION pgq_ext.dead_job_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.dead_job_changed() IS
'Internal: counts the dead letters that SQL inserts or deletes.';

CREATE TRIGGER dead_job_changed AFTER INSERT OR DELETE OR UPDATE OF queue_id ON pgq_ext.dead_job
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dead_job_changed();
ALTER TABLE pgq_ext.dead_job ENABLE ALWAYS TRIGGER dead_job_changed;
CREATE TRIGGER dead_job_truncated AFTER TRUNCATE ON pgq_ext.dead_job
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.dead_job_changed();
ALTER TABLE pgq_ext.dead_job ENABLE ALWAYS TRIGGER dead_job_truncated;

CREATE TABLE pgq_ext.attempt (
    job_id     bigint NOT NULL,
    lease      bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    queue_id   integer NOT NULL,
    attempt    integer NOT NULL,
    segment    smallint NOT NULL DEFAULT 12,
    outcome    text NOT NULL,
    worker     text,
    reason     text,
    error      text
) PARTITION BY LIST (segment);
COMMENT ON TABLE pgq_ext.attempt IS
'Attempts that have ended, of queues with log_attempts: one row each, written by the transaction that ends it. Kept for the queue''s keep_attempts, then truncated, a segment at a time. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.attempt.outcome IS 'acked, failed, released, lost or cancelled.';
COMMENT ON COLUMN pgq_ext.attempt.reason IS 'Of a lost one: how it was lost. Of a failed one: why it was the job''s last, if it was.';
COMMENT ON COLUMN pgq_ext.attempt.error IS 'Of a failed one: what pgq_fail was told.';

CREATE TABLE pgq_ext.finished_job (
    job_id       bigint NOT NULL,
    finished_at  timestamptz NOT NULL,
    enqueued_at  timestamptz NOT NULL,
    run_at       timestamptz NOT NULL,
    queue_id     integer NOT NULL,
    priority     integer NOT NULL,
    attempts     integer NOT NULL,
    segment      smallint NOT NULL DEFAULT 16,
    outcome      text NOT NULL,
    payload      jsonb NOT NULL,
    worker       text,
    result       jsonb,
    max_attempts integer,
    group_key    text,
    unique_key   text,
    last_error   text,
    headers      jsonb
) PARTITION BY LIST (segment);
COMMENT ON TABLE pgq_ext.finished_job IS
'Jobs that have ended otherwise than as dead letters, of queues with keep_finished: written by the transaction that ends them, kept that long, then truncated, a segment at a time. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.finished_job.attempts IS 'Attempts that had failed.';
COMMENT ON COLUMN pgq_ext.finished_job.outcome IS 'acked, cancelled or expired.';
COMMENT ON COLUMN pgq_ext.finished_job.worker IS 'Who has acknowledged it; NULL if that was with a lease from before a start of the server.';
COMMENT ON COLUMN pgq_ext.finished_job.result IS 'What pgq_ack was given.';

CREATE FUNCTION pgq_ext.segment_entries(
    OUT segment integer, OUT relation oid, OUT is_current boolean, OUT is_survivors boolean,
    OUT empty_since timestamptz, OUT truncations bigint, OUT moved_in bigint, OUT moved_out bigint,
    OUT error text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_segment_entries';
REVOKE ALL ON FUNCTION pgq_ext.segment_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.segment_entries IS
'Internal: the segments of pgq_ext.job and of the tables of records. empty_since: since when no row in it has been of use to anybody new.';

CREATE FUNCTION pgq_ext.snapshot_holders(OUT segment integer, OUT pid integer, OUT application_name text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_snapshot_holders';
REVOKE ALL ON FUNCTION pgq_ext.snapshot_holders FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.snapshot_holders IS
'Internal: sessions whose snapshot keeps an empty segment from being truncated.';

CREATE VIEW pgq_ext.rotation_blocker AS
SELECT h.segment, 'snapshot' AS kind, h.pid,
       pg_catalog.format('snapshot of process %s (%s)', h.pid, h.application_name) AS what
FROM pgq_ext.snapshot_holders() h
UNION ALL
SELECT e.segment, 'lock', l.pid,
       CASE WHEN p.gid IS NOT NULL THEN pg_catalog.format('prepared transaction "%s"', p.gid)
            WHEN pg_catalog.starts_with(a.application_name, 'pg_dump') THEN pg_catalog.format('dump by process %s', l.pid)
            ELSE pg_catalog.format('process %s (%s) has locked it', l.pid, a.application_name) END
FROM pgq_ext.segment_entries() e
JOIN pg_catalog.pg_locks l ON l.relation = e.relation AND l.locktype = 'relation' AND l.granted
JOIN pg_catalog.pg_database d ON d.oid = l.database AND d.datname = pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
-- A prepared transaction has no process; its virtual id is its session's, or made up after a restart.
LEFT JOIN pg_catalog.pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
                               AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted
LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND (p.gid IS NOT NULL OR a.xact_start < pg_catalog.clock_timestamp() - interval '1 s')
UNION ALL
SELECT e.segment, 'error', NULL, pg_catalog.format('error: %s', e.error)
FROM pgq_ext.segment_entries() e
WHERE e.error IS NOT NULL
UNION ALL
SELECT e.segment, 'subscription', NULL, pg_catalog.format('subscription "%s"', s.subname) COLLATE pg_catalog."default"
FROM pgq_ext.segment_entries() e
CROSS JOIN pg_catalog.pg_subscription s
WHERE s.oid IN (SELECT r.srsubid FROM pg_catalog.pg_subscription_rel r
                WHERE r.srrelid IN (SELECT relation FROM pgq_ext.segment_entries()
                                    UNION ALL
                                    SELECT i.inhparent FROM pg_catalog.pg_inherits i
                                    JOIN pgq_ext.segment_entries() s ON s.relation = i.inhrelid));
COMMENT ON VIEW pgq_ext.rotation_blocker IS
'Internal: who keeps a segment from being truncated, were it without live rows: sessions with a snapshot, transactions that have locked it for a second or more, an error of the scheduler (the log has it, too), a subscription that brings its rows.';

CREATE VIEW pgq_ext.segment AS
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
             pg_catalog.clock_timestamp() - j.oldest AS age,
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
COMMENT ON VIEW pgq_ext.segment IS
'The tables that jobs and records are stored in: partitions of parent. state: current (new rows go there), survivors (rows that outlived their segment), closed (to be truncated as soon as its rows are gone, or the time of those that are kept for one is over), empty. live_rows: counted now, so the view reads every job and record. size: bytes of heap, TOAST and indexes. age: since its oldest live job was enqueued, or its oldest record was written. held_by: what keeps a closed one from being truncated; NULL: nothing that is seen here. truncations, moved_in, moved_out (rows): since the server start, mostly.';

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
'Change options of a queue, as in pgq_create_queue; NULL leaves one as it is. They hold from the commit on, for leases that are given, extended or end after it. Errors: 42704 no such queue, 22023 bad value.';

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
'Add a job and return its id. It can be claimed once the transaction has committed, and not before delay has passed or run_at is reached. Jobs go out by priority (high first), run_at, job_id (of a fair queue: by priority, groups in turn). group_key (1 to 255 bytes): the group that the queue''s group_concurrency, fifo and fair speak of. max_attempts NULL: what the queue says. A job that nobody has been handed when expires_in has passed is ended, and counted as expired. unique_key (1 to 255 bytes): at most one job of the queue has it, until it has ended (unique_until finished) or was handed out (claimed), and for unique_for at least; if one has it the answer is its id, and on_conflict says what becomes of it: keep (nothing), replace (it becomes the new one), preserve_run_at (but its time stays), append (the payload, an array, is appended), error. One that waits is not handed out before this transaction has ended; one in work is not changed. Errors: 42704 no such queue, PQ002 the queue is full (max_depth), 22004 queue or payload is null, 22023 bad value, 23505 the key is taken, 40001 by a job that the snapshot does not see, 53400 pgq_ext.max_leases.';

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
'Take up to max_jobs (1 to 10000) ready jobs under a lease of lease_time (1 s to 7 days; default: the queue''s). With wait (at most 60 s) waits for the first one; returns empty in time for statement_timeout. Each job must be answered with pgq_ack or pgq_fail; if the lease expires, or the claiming transaction rolls back, the attempt counts as failed. worker is a label (default: application_name). Errors: 42704 no such queue, 22023 bad value, 53400 pgq_ext.max_leases reached and nothing claimed.';

CREATE FUNCTION pgq_claim_any(
    queues text[], max_jobs int = 1, wait interval = '0', lease_time interval = null, worker text = null,
    session_bound boolean = false) RETURNS SETOF pgq_ext.claimed_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_claim_any';
REVOKE ALL ON FUNCTION pgq_claim_any FROM PUBLIC;
COMMENT ON FUNCTION pgq_claim_any IS
'As pgq_claim, from several queues (at most 32), in the order of the array, waiting on all of them at once. Of no queue: nothing, at the end of wait.';

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
'Give the job back: the attempt is not counted, and somebody else gets the job after delay (0 or more); with 0 it keeps its place in the order. False: the lease is not current, nothing was changed. Errors: 22004 an argument is NULL, 22023 bad delay.';

CREATE FUNCTION pgq_assert_lease(job_id bigint, lease bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_assert_lease';
REVOKE ALL ON FUNCTION pgq_assert_lease FROM PUBLIC;
COMMENT ON FUNCTION pgq_assert_lease IS
'Make sure that the job is still this worker''s, to the end of the transaction: what the transaction writes for the job is then written by nobody else. Meanwhile the lease does not expire, and whoever wants to answer for the job, or to drop its queue, waits. Error: PQ001 the lease is stale, or the job was deleted.';

CREATE FUNCTION pgq_extend(job_id bigint, lease bigint, lease_time interval = null) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_extend';
REVOKE ALL ON FUNCTION pgq_extend FROM PUBLIC;
COMMENT ON FUNCTION pgq_extend IS
'Give the lease a new end, lease_time from now (default: the queue''s; capped by its max_runtime), and return it. Takes effect at once and is not undone by rollback. NULL: the lease is stale, its max_runtime is used up, or the job was deleted by hand.';

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
'A job that is scheduled or backs off is due delay from now; one that is ready keeps its place if delay is 0. A dead one is a job again, under its id, with all its attempts. False: it is leased, or there is none. To bring back some: SELECT pgq_retry(job_id) FROM pgq_ext.dead_job WHERE .... Errors: 22023 bad delay, PQ002 it is dead and its queue is full, 53400 too many jobs are claimed at the same time.';

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
'Change a job that waits; NULL leaves a thing as it is. False: it is leased, or there is none. Waits for a transaction that is changing it. No claim hands it out before this transaction ends. Errors: 42704 no such queue, 22023 bad value, PQ002 the other queue is full (max_depth), 53400 too many jobs are claimed at the same time.';

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
-- ---- rights: see src/catalog/rights.h ----

CREATE FUNCTION pgq_grant(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_grant';
REVOKE ALL ON FUNCTION pgq_grant FROM PUBLIC;
COMMENT ON FUNCTION pgq_grant IS
'Give a role (or ''public'': all roles) rights on a queue: enqueue, claim, inspect, admin (with which comes inspect). The first grant, which is a superuser''s or the owner''s, closes the queue: from there on EXECUTE on the functions is not enough, and admin on the queue is what it takes to grant. Rights are privileges of the view pgq_ext.rights_<queue_id>, which is dropped with the queue. Errors: 42704 no such queue or role, 42501 the caller may not, 22023 no such right.';

CREATE FUNCTION pgq_revoke(queue text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_revoke';
REVOKE ALL ON FUNCTION pgq_revoke FROM PUBLIC;
COMMENT ON FUNCTION pgq_revoke IS
'Take rights on a queue away from a role, or from ''public''; what it has as a member of another role stays. The queue stays closed. It counts from the commit on, for claims that wait, too. Errors: as pgq_grant; 55000 the queue has no rights, 0LP01 they were granted by another role.';

CREATE FUNCTION pgq_ext.may_see(queue_id integer) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'pgq_may_see';
-- To PUBLIC: it is asked by views, with the rights of their callers, and tells each only of himself.
COMMENT ON FUNCTION pgq_ext.may_see IS
'Internal: may the caller see the queue and its jobs in the views? Only not if it is closed, and he has not the right inspect, nor pg_monitor.';
-- ---- schedules: see src/jobs/timetable.h and src/worker/duty/schedules.cpp ----

CREATE TABLE pgq_ext.timetable (
    schedule    text COLLATE "C" NOT NULL PRIMARY KEY,
    cron        text NOT NULL,
    timezone    text NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    payload     jsonb NOT NULL,
    options     jsonb,
    missed      text COLLATE "C" NOT NULL CHECK (missed IN ('skip', 'one', 'all')),
    paused      boolean NOT NULL DEFAULT false,
    -- With whose rights it enqueues. A dump has the name.
    maker       oid,
    maker_name  text NOT NULL,
    next_run_at timestamptz,
    -- When the scheduler looks at it: at next_run_at, or later while it fails.
    due_at      timestamptz,
    failures    integer NOT NULL DEFAULT 0,
    last_run_at timestamptz,
    last_job_id bigint,
    last_error  text
);
CREATE INDEX timetable_due ON pgq_ext.timetable (due_at) WHERE NOT paused;
REVOKE ALL ON TABLE pgq_ext.timetable FROM PUBLIC;
COMMENT ON TABLE pgq_ext.timetable IS
'Schedules, one row each: made by pgq_schedule, moved on by the scheduler in the transaction that enqueues. To be read through pgq_ext.schedule, and changed by the functions.';

CREATE FUNCTION pgq_ext.timetable_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_timetable_changed';
REVOKE ALL ON FUNCTION pgq_ext.timetable_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.timetable_changed() IS
'Internal: finds the role that a schedule enqueues for, and tells the scheduler of the change.';

CREATE TRIGGER timetable_changed BEFORE INSERT OR UPDATE ON pgq_ext.timetable
FOR EACH ROW EXECUTE FUNCTION pgq_ext.timetable_changed();
ALTER TABLE pgq_ext.timetable ENABLE ALWAYS TRIGGER timetable_changed;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.timetable', '');

CREATE FUNCTION pgq_schedule(
    schedule text, cron text, queue text, payload jsonb = '{}', timezone text = 'UTC', missed text = 'one',
    options jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_schedule';
REVOKE ALL ON FUNCTION pgq_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_schedule IS
'Enqueue a job again and again: make the schedule of that name, or change it; it goes on where it was if cron and timezone are the same, and stays paused if it was. cron: minute, hour, day of month, month, day of week, with seconds before them if there are six, as in crontab(5); or @yearly, @monthly, @weekly, @daily, @hourly; or as in ''every 90 s'', counted from 2000-01-01 UTC. Hours that are named run once where clocks of timezone skip or repeat them (a skipped time runs right after), those with * run by elapsed time. Headers of the job have the name of the schedule and the time of the tick, as schedule and scheduled_at. missed: what becomes of ticks that could not run, by a downtime or since the queue was full: skip (nothing), one (one job for all of them), all (each has its job, the newest 1000 at most). options: an object with what else pgq_enqueue may be told, as priority or unique_key. It enqueues with the rights of the role that has called this last. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 no schedule, cron or queue, 22023 bad value, or a cron that would not run in the next 40 years.';

CREATE FUNCTION pgq_unschedule(schedule text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unschedule';
REVOKE ALL ON FUNCTION pgq_unschedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_unschedule IS
'Drop a schedule; its jobs stay. False: there is none of that name.';

CREATE FUNCTION pgq_pause_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_schedule';
REVOKE ALL ON FUNCTION pgq_pause_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_schedule IS
'Enqueue nothing by this schedule from the commit on. Paused twice is paused. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_resume_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_schedule';
REVOKE ALL ON FUNCTION pgq_resume_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_schedule IS
'Go on after pgq_pause_schedule, with the next tick from now: those of the pause are not made up for. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_schedule_preview(cron text, timezone text = 'UTC', n int = 5) RETURNS SETOF timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'pgq_schedule_preview';
REVOKE ALL ON FUNCTION pgq_schedule_preview FROM PUBLIC;
COMMENT ON FUNCTION pgq_schedule_preview IS
'The next n (at most 10000) moments at which such a schedule would run. Errors: 22004 no cron, 22023 bad value, or a cron that would not run in the next 40 years.';

CREATE VIEW pgq_ext.schedule WITH (security_barrier) AS
SELECT t.schedule, t.cron, t.timezone, t.queue, t.payload, t.missed, t.options, t.paused,
       CASE WHEN NOT t.paused THEN t.next_run_at END AS next_run_at,
       t.last_run_at, t.last_job_id, t.last_error
FROM pgq_ext.timetable t LEFT JOIN pgq_ext.queue q USING (queue)
WHERE q.queue_id IS NULL OR pgq_ext.may_see(q.queue_id);
COMMENT ON VIEW pgq_ext.schedule IS
'Schedules. next_run_at: its next tick, or, in the past, the one that could not run yet; NULL while it is paused. last_run_at: when it has enqueued last, and last_job_id: that job, or the one that had its unique key. last_error: why its last tick has no job, or that ticks were left out; NULL: all is well.';
-- ---- what shared memory knows ----

CREATE FUNCTION pgq_ext.is_leased(job_id bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_is_leased';
REVOKE ALL ON FUNCTION pgq_ext.is_leased FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.is_leased IS 'Internal: has anybody that job in hand? Not if its lease was lost, or if it is set aside because its row is locked.';

-- Stable, so that who does not read what a job waits for neither pays for it nor needs the right.
CREATE FUNCTION pgq_ext.behind(
    queue_id integer, priority integer, run_at timestamptz, job_id bigint, group_id bigint) RETURNS text
LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_behind';
REVOKE ALL ON FUNCTION pgq_ext.behind FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.behind IS 'Internal: how many jobs go out before that one, which is ready, in words. NULL: none, or memory does not know.';

CREATE FUNCTION pgq_ext.lease_entries(
    OUT job_id bigint, OUT lease bigint, OUT queue_id integer, OUT state text, OUT attempt integer,
    OUT worker text, OUT pid integer, OUT claimed_at timestamptz, OUT lease_expires_at timestamptz,
    OUT in_transaction boolean, OUT session_bound boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_lease_entries';
REVOKE ALL ON FUNCTION pgq_ext.lease_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lease_entries IS
'Internal: the lease table. state: claiming, claimed, parked (its row is locked by somebody), moving (to another segment), changing (by a transaction that has taken the waiting job), lost. lease is NULL for who may not read it in the view pgq_ext.lease.';

CREATE FUNCTION pgq_ext.queue_entries(
    OUT queue_id integer, OUT ready bigint, OUT scheduled bigint, OUT leased integer, OUT dead_letters bigint, OUT waiting_claims integer, OUT running integer, OUT next_start timestamptz, OUT depth bigint, OUT last_claim_at timestamptz,
    OUT loaded_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_entries';
REVOKE ALL ON FUNCTION pgq_ext.queue_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_entries IS 'Internal: the queues in shared memory. ready, scheduled, dead_letters: NULL until they are counted. depth: jobs that live, and those that open transactions have room for; NULL without max_depth, and until they are counted.';

CREATE FUNCTION pgq_ext.oldest_ready(queue_id integer) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_oldest_ready';
REVOKE ALL ON FUNCTION pgq_ext.oldest_ready FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.oldest_ready IS 'Internal: since when the job of that queue is due that has been due for longest, of those that are committed and nobody has in hand. NULL: there is none, or the first rows of more than 64 priorities would have to be read.';

CREATE FUNCTION pgq_ext.recount(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_recount';
REVOKE ALL ON FUNCTION pgq_ext.recount FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.recount IS 'Count the jobs and dead letters of the queue anew: after rows were changed while the triggers of their table were switched off, or after a TRUNCATE of a single segment. Takes about 0.3 s for a million jobs, and waits for nobody but another count.';

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
COMMENT ON FUNCTION pgq_ext.stat_entries IS 'Internal: what the queues in shared memory have counted.';

CREATE FUNCTION pgq_ext.latency_entries(
    OUT queue_id integer, OUT phase text, OUT le_seconds float8[], OUT counts bigint[], OUT count bigint, OUT sum_seconds float8) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_latency_entries';
REVOKE ALL ON FUNCTION pgq_ext.latency_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.latency_entries IS 'Internal: the histograms of the queues in shared memory. counts: how many were shorter than each of le_seconds; count: all.';

CREATE FUNCTION pgq_ext.group_entries(
    OUT queue_id integer, OUT group_id bigint, OUT next_start timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_group_entries';
REVOKE ALL ON FUNCTION pgq_ext.group_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.group_entries IS 'Internal: the groups that shared memory knows, of queues with group_rate_limit, and when the next job of each may be handed out if that is not now. group_id: NULL for all groups that it does not know, while they have to wait.';

CREATE FUNCTION pgq_ext.capacity_entries(
    OUT name text, OUT used bigint, OUT peak bigint, OUT bound bigint, OUT guc text,
    OUT entry_bytes bigint) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_capacity_entries';
REVOKE ALL ON FUNCTION pgq_ext.capacity_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.capacity_entries IS 'Internal: the bounds of shared memory.';

CREATE FUNCTION pgq_ext.duty_entries(
    OUT duty text, OUT queue_id integer, OUT last_run_at timestamptz, OUT next_run_at timestamptz,
    OUT failures integer, OUT failing_since timestamptz, OUT last_error text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_duty_entries';
REVOKE ALL ON FUNCTION pgq_ext.duty_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.duty_entries IS 'Internal: the duties of the scheduler.';

-- ---- for administrators ----

CREATE FUNCTION pgq_check() RETURNS SETOF text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_check';
REVOKE ALL ON FUNCTION pgq_check FROM PUBLIC;
COMMENT ON FUNCTION pgq_check IS
'Compare memory with the rows of this database, and with itself: one line for each thing that is wrong, none if all is well. Finds jobs that nobody would look for (and makes them known again), double leases, counters that do not add up, jobs and dead letters without a queue. Reads every job. A hint without a row is no fault: a claim drops it.';

-- ---- views for people ----

CREATE VIEW pgq_ext.lease WITH (security_barrier) AS
SELECT l.job_id, l.lease, q.queue, j.group_key, l.attempt, l.worker, l.pid, l.claimed_at,
       l.lease_expires_at, l.session_bound, l.in_transaction
FROM pgq_ext.lease_entries() l
JOIN pgq_ext.queue q USING (queue_id)
JOIN pgq_ext.job j ON j.job_id = l.job_id
WHERE l.state = 'claimed';
COMMENT ON VIEW pgq_ext.lease IS
'Jobs in work: who holds them and until when. Not those that somebody has deleted by hand: their workers are told by pgq_extend, pgq_ack and pgq_fail. in_transaction: an open transaction uses the lease, so it does not expire before that ends.';

CREATE VIEW pgq_ext.job_status WITH (security_barrier) AS
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
            WHEN COALESCE(r.next_start, o.next_start) > pg_catalog.clock_timestamp() THEN 'the rate of its group (group_rate_limit), until ' || COALESCE(r.next_start, o.next_start)
            WHEN q.concurrency > 0 AND e.running >= q.concurrency THEN 'one of the jobs in work, of which there are as many as may be (concurrency)'
            WHEN e.next_start > pg_catalog.clock_timestamp() THEN 'the rate (rate_limit), until ' || e.next_start
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
COMMENT ON VIEW pgq_ext.job_status IS
'Every live job, its state (ready, scheduled, leased) and, in words, what it waits for.';

CREATE VIEW pgq_ext.queue_status AS
SELECT q.queue,
       e.ready,
       e.scheduled,
       e.leased::bigint AS leased,
       e.dead_letters AS dead,
       CASE WHEN e.ready > 0 THEN pg_catalog.clock_timestamp() - pgq_ext.oldest_ready(q.queue_id) END AS oldest_ready_age,
       COALESCE(e.waiting_claims, 0) AS waiting_claims,
       e.last_claim_at,
       q.paused,
       e.depth
FROM pgq_ext.queue q
LEFT JOIN pgq_ext.queue_entries() e USING (queue_id)
WHERE pgq_ext.may_see(q.queue_id);
COMMENT ON VIEW pgq_ext.queue_status IS
'One row a queue: how many jobs are ready, scheduled, leased, dead, how long the oldest ready one has been waiting (NULL where more than 64 priorities would have to be read), how many claims are waiting. What has been committed counts, as memory knows it: NULL after a start, and after a TRUNCATE by hand, until the scheduler has counted the rows. depth: what max_depth is compared with, jobs that open transactions are enqueuing included; NULL where max_depth is 0.';

CREATE VIEW pgq_ext.queue_stats AS
SELECT q.queue, s.loaded_at AS stats_since, s.enqueued, s.deduplicated, s.claims, s.empty_claims, s.handed_out, s.acked, s.failed,
       s.released, s.cancelled, s.lost, s.dead_lettered, s.expired, s.uncounted, s.stale_calls, s.rejected, s.ghosts, s.repaired,
       s.reconciled, s.wait_p50, s.wait_p95, s.run_p50, s.run_p95, s.total_p50, s.total_p95
FROM pgq_ext.stat_entries() s
JOIN pgq_ext.queue q USING (queue_id);
COMMENT ON VIEW pgq_ext.queue_stats IS
'Counters of each queue since stats_since (the server start, mostly). What was rolled back is not counted, but claims, empty_claims, stale_calls, rejected and ghosts count calls, or what they have met, whatever becomes of their transactions. Of the jobs handed out those that are not acked, failed, released, cancelled, lost or uncounted (ended without an answer that could be counted) are in hand. deduplicated: enqueues that were answered with a job that was there. rejected: enqueues into a full queue. ghosts: entries of memory that a claim has dropped, since their row was gone. repaired: jobs that had been forgotten, by a fault, and were found by the reconciler; reconciled: how often it has read all jobs. p50, p95: of the last 5 to 10 minutes, as queue_latency; NULL if there was nothing.';

CREATE VIEW pgq_ext.queue_latency AS
SELECT q.queue, l.phase, b.le_seconds, b.count, l.sum_seconds
FROM pgq_ext.latency_entries() l
JOIN pgq_ext.queue q USING (queue_id)
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(pg_catalog.array_append(l.le_seconds, 'Infinity')),
                              pg_catalog.unnest(pg_catalog.array_append(l.counts, l.count))) AS b (le_seconds, count);
COMMENT ON VIEW pgq_ext.queue_latency IS
'How long jobs have waited and taken since stats_since of queue_stats: for each queue and phase how many were shorter than le_seconds, and the sum of all. wait: from when the job was due, the later of its enqueue and its run_at, to its hand-out, if that was not rolled back. run: from there to the commit of ack, fail, release or cancel. total: from the enqueue to the commit of the ack.';

CREATE VIEW pgq_ext.capacity AS
SELECT name, used, peak, bound, guc, entry_bytes FROM pgq_ext.capacity_entries();
COMMENT ON VIEW pgq_ext.capacity IS
'Every bound of shared memory, of the whole server: how much is in use, the most that was since the start, the bound, the setting that moves it, and the bytes of shared memory that it costs to raise the setting by one.';

CREATE VIEW pgq_ext.duty AS
SELECT d.duty, q.queue, d.last_run_at, d.next_run_at, d.failures, d.failing_since, d.last_error
FROM pgq_ext.duty_entries() d
LEFT JOIN pgq_ext.queue q USING (queue_id);
COMMENT ON VIEW pgq_ext.duty IS
'What the scheduler of this database does, for each queue (lost leases: counts their attempts; window, timer: reads ahead; counts: of its jobs, where they are not known) and for all (presence, notify, queues, token mark, rotation, retention, expiry, reconcile, locks, schedules). next_run_at: NULL when it runs as soon as there is something to do. failing_since: since when it has been failing, failures: errors since then; the others go on, and it is tried again after 1 s, 2 s ... 1 min.';
-- ---- health: is all well, and if not, what is to be done ----
-- A check is a function check_NAME(), which returns what it has found (nothing: all is well), and a line in
-- health_entries(). The functions run with the rights of the extension's owner and the settings of health_entries().

CREATE TYPE pgq_ext.finding AS (status text, detail text);
COMMENT ON TYPE pgq_ext.finding IS 'Internal: what a check of pgq_ext.health has found. status: ok (worth telling all the same), warn, fail.';

CREATE FUNCTION pgq_ext.library_version() RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_library_version';
REVOKE ALL ON FUNCTION pgq_ext.library_version FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.library_version IS 'Internal: of the library that the server has loaded.';

CREATE FUNCTION pgq_ext.library_serves(version text) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_library_serves';
REVOKE ALL ON FUNCTION pgq_ext.library_serves FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.library_serves IS 'Internal: does it serve SQL objects of that version? Its own, and the one before.';

CREATE FUNCTION pgq_ext.verify_tables() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_verify_tables';
REVOKE ALL ON FUNCTION pgq_ext.verify_tables FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.verify_tables IS 'Internal: raises what others are told when the tables are not as they should be.';

CREATE FUNCTION pgq_ext.workers(OUT launcher integer, OUT scheduler integer, OUT missing integer) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_workers';
REVOKE ALL ON FUNCTION pgq_ext.workers FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.workers IS 'Internal: the processes of the launcher and of this database''s scheduler, and how many schedulers have found no place.';

CREATE FUNCTION pgq_ext.late_leases(
    OUT queue_id integer, OUT lost integer, OUT lost_by float8, OUT open integer, OUT open_by float8, OUT open_pid integer)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'pgq_late_leases';
REVOKE ALL ON FUNCTION pgq_ext.late_leases FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.late_leases IS 'Internal: of queues with leases whose time is over, how many the scheduler has not counted yet, how many open transactions keep, and, in seconds, the latest of each.';

CREATE FUNCTION pgq_ext.ago(since timestamptz) RETURNS interval
LANGUAGE sql VOLATILE RETURN pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) since);
REVOKE ALL ON FUNCTION pgq_ext.ago FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.ago IS 'Internal: how long ago, without fractions of a second.';

CREATE FUNCTION pgq_ext.list(items text[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT RETURN pg_catalog.concat(pg_catalog.array_to_string(items[1:5], '; '),
    CASE WHEN pg_catalog.cardinality(items) OPERATOR(pg_catalog.>) 5
         THEN pg_catalog.format('; and %s more', pg_catalog.cardinality(items) OPERATOR(pg_catalog.-) 5) END);
REVOKE ALL ON FUNCTION pgq_ext.list FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.list IS 'Internal: the first few, and how many there are besides.';

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
    -- It comes soon after the first queue, and after a start.
    SELECT CASE WHEN w.scheduler IS NULL AND pg_postmaster_start_time() < clock_timestamp() - interval '10 s'
                 AND EXISTS (SELECT FROM pgq_ext.queue q WHERE q.created_at < clock_timestamp() - interval '10 s')
                THEN 'fail' ELSE 'ok' END,
           COALESCE('process ' || w.scheduler, 'none runs')
    FROM pgq_ext.workers() w
    UNION ALL
    -- It looks around once a second, whatever else there is.
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
    -- These may be full: the rest is read from the table.
    WHERE c.used > 0.8 * c.bound AND c.guc NOT IN ('pgq_ext.window_size', 'pgq_ext.timer_size');
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
    WHERE c.relnamespace = 'pgq_ext'::regnamespace AND t.tgenabled = 'D';
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

-- Who keeps dead rows, of the segments and all else, from being removed.
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
         -- It has no process; its virtual id is its session's, or made up after a restart.
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
    -- Rows are looked at last, and only for these.
    WITH alone AS MATERIALIZED (
        SELECT q.queue_id, q.queue, e.ready, e.leased FROM pgq_ext.queue q JOIN pgq_ext.queue_entries() e USING (queue_id)
        WHERE NOT q.paused AND COALESCE(e.ready, 1) > 0 AND e.waiting_claims = 0
          AND COALESCE(e.last_claim_at, e.loaded_at) < clock_timestamp() - interval '5 min'),
         aged AS MATERIALIZED (SELECT a.*, clock_timestamp() - pgq_ext.oldest_ready(a.queue_id) AS age FROM alone a)
    SELECT CASE WHEN s.leased > 0 THEN 'warn' ELSE 'fail' END,
           format('queue "%s": %s ready, the oldest for %s, %s in work', s.queue, s.ready, date_trunc('second', s.age), s.leased)
    FROM aged s WHERE s.age > interval '5 min';
END $$;

CREATE FUNCTION pgq_ext.check_paused() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s" for %s', q.queue, COALESCE(pgq_ext.ago(q.paused_at)::text, 'nobody knows how long'))
    FROM pgq_ext.queue q WHERE q.paused AND COALESCE(q.paused_at, '-infinity') < clock_timestamp() - interval '1 h';
END $$;

CREATE FUNCTION pgq_ext.check_depth() RETURNS SETOF pgq_ext.finding LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT 'warn', format('queue "%s": %s of %s', q.queue, e.depth, q.max_depth)
    FROM pgq_ext.queue_entries() e JOIN pgq_ext.queue q USING (queue_id) WHERE q.max_depth > 0 AND e.depth >= q.max_depth;
END $$;

-- What is kept beyond its time. Records are truncated, not deleted: see the check of rotation.
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
    -- One in work may end as it likes.
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

-- ---- all of them ----

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
COMMENT ON FUNCTION pgq_ext.run_check IS 'Internal: what a check has found, in one line; detail is NULL if that is nothing.';

-- It asks with the rights of the owner, so that who watches needs no others, waits for nobody, and has no more than a few
-- rows of each table read.
CREATE FUNCTION pgq_ext.health_entries(
    OUT "check" text, OUT status text, OUT detail text, OUT hint text, OUT checked_at timestamptz) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp SET intervalstyle = postgres SET datestyle = iso SET lock_timeout = '100ms' SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    c record;
    -- What he has planted in a table or a view would run with the rights of the owner of this function.
    stranger text = (SELECT r.rolname
                     FROM (SELECT k.relowner AS owner FROM pg_class k WHERE k.relnamespace = 'pgq_ext'::regnamespace
                           UNION SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = 'pgq_ext'::regnamespace) o
                     JOIN pg_roles r ON r.oid = o.owner WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1);
BEGIN
    FOR c IN SELECT v.* FROM (VALUES
        ('library', NULL, 'Run ALTER EXTENSION pgq_ext UPDATE in this database; if its library is the older one, install the newer and restart the server.'),
        ('tables', 'as they should be', 'Restore what was altered; REINDEX an index that is not valid, ALTER TABLE ... ENABLE TRIGGER.'),
        ('subscription', 'none brings jobs', 'Nothing is handed out here before the subscription is dropped.'),
        ('workers', 'all have a place', 'Raise max_worker_processes, or pgq_ext.max_databases, and restart the server.'),
        ('scheduler', NULL, 'See the server log; queues work without it, but lost jobs are not counted and storage grows.'),
        ('duties', 'none fails', 'SELECT * FROM pgq_ext.duty WHERE failing_since IS NOT NULL says why.'),
        ('lost leases', 'all are counted', 'See the checks scheduler and duties.'),
        ('repairs', 'none', 'A job had been forgotten, by a fault, and was found. Please report it, with the WARNING in the server log.'),
        ('capacity', 'no bound is near', 'Raise the setting: SELECT * FROM pgq_ext.capacity says what it costs.'),
        ('rotation', 'nothing is held back', 'End the session, or the transaction, that holds the segment: SELECT * FROM pgq_ext.segment.'),
        ('snapshots', 'none is old', 'End the transaction, or drop the slot: dead rows cannot be removed while it is there.'),
        ('prepared', 'none holds jobs', 'COMMIT PREPARED or ROLLBACK PREPARED, or find out whose it is: SELECT * FROM pg_prepared_xacts.'),
        ('open claims', 'none is older than its lease', 'End the transaction, or take a longer lease: nobody else gets the job before.'),
        ('unclaimed', 'no queue is left alone', 'Start workers, or more of them.'),
        ('paused', 'none for long', 'SELECT pgq_resume_queue(...), if it is not to be so.'),
        ('depth', 'no queue is full', 'Start more workers, or let it have more: SELECT pgq_alter_queue(..., max_depth => ...).'),
        ('retention', 'nothing is kept beyond its time', 'See the checks scheduler and duties, and who has locked these rows: pg_locks.'),
        ('schedules', 'all run in time', 'SELECT schedule, last_error FROM pgq_ext.schedule says why.')) AS v (name, ok, hint)
    LOOP
        checked_at := clock_timestamp();
        BEGIN
            -- What memory knows it knows on the primary only.
            IF pg_is_in_recovery() THEN
                status := 'ok';
                detail := 'not looked at: the server is a standby';
            ELSIF stranger IS NOT NULL THEN
                RAISE '%', format('not looked at: tables or views of pgq_ext belong to %I, %s does not', stranger, 'pgq_ext.health_entries()')
                USING ERRCODE = '42501', HINT = format('If they are to: ALTER FUNCTION pgq_ext.health_entries() OWNER TO %1$I; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgq_ext TO %1$I.', stranger);
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

CREATE VIEW pgq_ext.health AS
SELECT h."check", h.status, h.detail, h.hint, h.checked_at FROM pgq_ext.health_entries() h;
COMMENT ON VIEW pgq_ext.health IS
'Is all well? One row a check. status: ok, warn (look at it) or fail (something does not work, or could not be looked at). detail: what was found; names of queues, schedules, processes and transactions, nothing of the jobs. hint: what to do. Never an error, also where the library is not loaded or of another version: that is a row. Who has pg_monitor may read it.';
GRANT USAGE ON SCHEMA pgq_ext TO pg_monitor;
GRANT SELECT ON pgq_ext.health TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgq_ext.health_entries TO pg_monitor;

-- ---- coordination without jobs: locks, runs, rates ----

-- See src/sync/lock_row.h. Read by position.
CREATE TABLE pgq_ext.held_lock (
    name        text COLLATE "C" NOT NULL,
    period      bigint NOT NULL,
    bucket      bigint NOT NULL,
    slot        bigint NOT NULL,
    slots       bigint NOT NULL,
    token       bigint NOT NULL,
    owner       text NOT NULL,
    ttl         bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (name, period, bucket, slot)
);
REVOKE ALL ON pgq_ext.held_lock FROM PUBLIC;
COMMENT ON TABLE pgq_ext.held_lock IS
'Internal: locks and runs that are held for a time, so that a restart or failover does not end them. Not to be written by hand; see pgq_ext.lock.';

CREATE FUNCTION pgq_ext.held_lock_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_held_lock_changed';
REVOKE ALL ON FUNCTION pgq_ext.held_lock_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.held_lock_changed() IS
'Internal: locks that a restore brings are held from there on.';
CREATE TRIGGER held_lock_changed AFTER INSERT ON pgq_ext.held_lock
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.held_lock_changed();

CREATE TABLE pgq_ext.run (
    name         text COLLATE "C" NOT NULL,
    period       interval,
    period_start timestamptz,
    token        bigint NOT NULL,
    owner        text NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    result       jsonb,
    tries        integer NOT NULL,
    UNIQUE NULLS NOT DISTINCT (name, period, period_start)
);
COMMENT ON TABLE pgq_ext.run IS
'What pgq_run_once has begun, a row for each name and period (NULL: once for ever): the token and owner of the last try, when it began, when it was finished (NULL: it is not), with which result, and how many tries there were. Of each name and period the newest pgq_ext.keep_runs that are finished are kept.';

CREATE TABLE pgq_ext.rate_limit (
    name    text COLLATE "C" PRIMARY KEY,
    permits integer NOT NULL CHECK (permits BETWEEN 1 AND 100000),
    period  interval NOT NULL CHECK (period BETWEEN '1 s' AND '366 days'),
    burst   integer NOT NULL CHECK (burst BETWEEN 1 AND permits)
);
COMMENT ON TABLE pgq_ext.rate_limit IS
'Rates, as pgq_create_rate has made them. See the view pgq_ext.rate.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.held_lock', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.run', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.rate_limit', '');

CREATE FUNCTION pgq_lock(
    name text, ttl interval = '30 s', slots int = 1, wait interval = '0', owner text = null,
    session_bound boolean = false) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_lock';
REVOKE ALL ON FUNCTION pgq_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_lock IS
'Hold a name, alone or as one of slots (1 to 1024), for ttl (1 s and more). Returns a token, greater than those of all who held it before, or NULL: not got within wait (at most 60 s; first come, first served). It is held from the call, by others'' eyes too, and is undone by rollback; before the transaction has ended nobody else gets it, whatever ttl is. With session_bound it also ends with the session, and costs no write. owner is a label (default: application_name). Errors: 22023 bad value, 53400 pgq_ext.max_locks reached, 40P01 a deadlock.';

CREATE FUNCTION pgq_extend_lock(name text, token bigint, ttl interval = null) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_extend_lock';
REVOKE ALL ON FUNCTION pgq_extend_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_extend_lock IS
'Hold the lock, or run, for ttl from now (default: as it was taken or extended with); it never becomes shorter. Returns its end, which counts when the transaction has committed. NULL: it is not held with that token any more.';

CREATE FUNCTION pgq_unlock(name text, token bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unlock';
REVOKE ALL ON FUNCTION pgq_unlock FROM PUBLIC;
COMMENT ON FUNCTION pgq_unlock IS
'Give the lock back, at commit; of a run: give it up, so that somebody else may begin it. Waits for transactions that rely on it. False: it is not held with that token any more.';

CREATE FUNCTION pgq_assert_lock(name text, token bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_assert_lock';
REVOKE ALL ON FUNCTION pgq_assert_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_assert_lock IS
'Make sure that the lock, or run, is held with that token, to the end of the transaction: nobody else gets it before. Error: PQ001 it is not.';

CREATE FUNCTION pgq_run_once(
    name text, period interval = null, ttl interval = '5 min', wait interval = '0', owner text = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_once';
REVOKE ALL ON FUNCTION pgq_run_once FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_once IS
'Is this to be done, once for ever or (period, 1 s and more, without months) once in each period, counted from 2000-01-01 UTC? A token: it is yours to do; say pgq_run_done with it in the transaction of the work. NULL: it is done, or being done and was not given up within wait. A runner that has neither finished nor extended (pgq_extend_lock) within ttl, or was rolled back, loses it. Errors: as pgq_lock.';

CREATE FUNCTION pgq_run_done(name text, token bigint, result jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_done';
REVOKE ALL ON FUNCTION pgq_run_done FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_done IS
'It is done, when this transaction commits: nobody begins it again in its period. Error: PQ001 the token is stale, which also undoes what the transaction has written.';

CREATE FUNCTION pgq_create_rate(
    name text, permits int, period interval, burst int = null, if_not_exists boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_rate';
REVOKE ALL ON FUNCTION pgq_create_rate FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_rate IS
'A rate: at most permits (1 to 100000) in any time of the length of period (1 s to 366 days, without months), at most burst of them (default 1) at once. False: it exists, with if_not_exists. Cannot be prepared. Error: 42710 it exists.';

CREATE FUNCTION pgq_drop_rate(name text, if_exists boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_drop_rate';
REVOKE ALL ON FUNCTION pgq_drop_rate FROM PUBLIC;
COMMENT ON FUNCTION pgq_drop_rate IS
'Remove a rate. False: there is none, with if_exists. Error: 42704 there is none.';

CREATE FUNCTION pgq_take(name text, permits int = 1, wait interval = '0') RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_take';
REVOKE ALL ON FUNCTION pgq_take FROM PUBLIC;
COMMENT ON FUNCTION pgq_take IS
'Take permits of a rate (at most its burst): true, go ahead. With wait (at most 60 s) they are reserved, and waited for, if they can be had in that time. False: not yet. What was taken is not given back by rollback. Errors: 42704 no such rate, 22023 bad value, 53400 pgq_ext.max_rates reached.';

CREATE FUNCTION pgq_ext.lock_entries(
    OUT name text, OUT slot int, OUT slots int, OUT token bigint, OUT owner text, OUT pid int,
    OUT acquired_at timestamptz, OUT expires_at timestamptz, OUT session_bound boolean,
    OUT waiting int, OUT in_transaction boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_lock_entries';
REVOKE ALL ON FUNCTION pgq_ext.lock_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lock_entries IS
'Internal: what the view pgq_ext.lock shows. Tokens only to who may read them there.';

CREATE VIEW pgq_ext.lock AS
SELECT name, slot, slots, token, owner, pid, acquired_at, expires_at, session_bound, waiting, in_transaction
FROM pgq_ext.lock_entries();
COMMENT ON VIEW pgq_ext.lock IS
'Locks that are held: the slot, of how many, the token, who has got it (pid: NULL after a restart), until when, how many sessions wait for the name. One whose time is over is shown until somebody takes it, or for some seconds. in_transaction: somebody has taken it, or is giving it back, in a transaction that has not ended.';

CREATE FUNCTION pgq_ext.rate_entries(OUT name text, OUT available bigint, OUT next_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_rate_entries';
REVOKE ALL ON FUNCTION pgq_ext.rate_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.rate_entries IS
'Internal: of rates that are in use, what the view pgq_ext.rate shows.';

CREATE VIEW pgq_ext.rate AS
SELECT r.name, r.permits, r.period, r.burst, e.available, e.next_at
FROM pgq_ext.rate_limit r LEFT JOIN pgq_ext.rate_entries() e USING (name);
COMMENT ON VIEW pgq_ext.rate IS
'Rates, how much could be taken now, and when the next permit can be had. Both NULL of one that nobody has used since the start: it is empty then.';
