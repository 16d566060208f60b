-- ---- records, and the segments of jobs and records: see src/core/ring.h ----

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
    payload      jsonb NOT NULL,
    batch_id     bigint,
    parents      smallint
) PARTITION BY LIST (segment);
COMMENT ON COLUMN pgq_ext.dead_job.fence IS 'Token of the lease of the last attempt. A negative number: that lease was lost, and its worker has not reported the reason of the failure.';
COMMENT ON TABLE pgq_ext.dead_job IS
'Dead letters: jobs whose attempts are used up, or that were failed without retry. A dead letter is deleted when it is older than keep_dead of its queue. Partitioned into segments like pgq_ext.job.';

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
'Attempts that have ended, of queues with log_attempts: one row for each attempt, written by the transaction that ends the attempt. Rows are kept for keep_attempts of the queue; then their segment is truncated. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.attempt.outcome IS 'How the attempt has ended: acked, failed, released, lost or cancelled.';
COMMENT ON COLUMN pgq_ext.attempt.reason IS 'For a lost attempt: how its lease was lost. For a failed attempt: why it was the last attempt of the job, if it was.';
COMMENT ON COLUMN pgq_ext.attempt.error IS 'For a failed attempt: the error that was passed to pgq_fail.';

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
    headers      jsonb,
    batch_id     bigint,
    parents      smallint
) PARTITION BY LIST (segment);
COMMENT ON TABLE pgq_ext.finished_job IS
'Finished jobs (acknowledged, cancelled or expired) of queues with keep_finished: written by the transaction that ends the job, and kept for keep_finished; then their segment is truncated. Partitioned into segments like pgq_ext.job.';
COMMENT ON COLUMN pgq_ext.finished_job.attempts IS 'Number of attempts of the job that had failed.';
COMMENT ON COLUMN pgq_ext.finished_job.outcome IS 'How the job has ended: acked, cancelled or expired.';
COMMENT ON COLUMN pgq_ext.finished_job.worker IS 'The worker that has acknowledged the job; NULL if its lease was from before a start of the server.';
COMMENT ON COLUMN pgq_ext.finished_job.result IS 'The result that was passed to pgq_ack.';

CREATE FUNCTION pgq_ext.segment_entries(
    OUT segment integer, OUT relation oid, OUT is_current boolean, OUT is_survivors boolean,
    OUT empty_since timestamptz, OUT truncations bigint, OUT moved_in bigint, OUT moved_out bigint,
    OUT error text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_segment_entries';
REVOKE ALL ON FUNCTION pgq_ext.segment_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.segment_entries IS
'Internal: the segments of pgq_ext.job and of the tables of records. empty_since: time since when new transactions need no row of the segment.';

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
-- A prepared transaction has no process. Its virtual transaction id is that of its session or, after a restart, one
-- that the server has made up.
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
'Internal: what keeps a segment without live rows from being truncated: sessions with a snapshot, transactions that have locked the segment for at least a second, an error of the scheduler (also in the server log), a subscription that brings rows of the segment.';

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
             CASE WHEN pg_catalog.isfinite(j.oldest) THEN pg_catalog.clock_timestamp() - j.oldest END AS age,
             e.truncations, e.moved_in, e.moved_out
      FROM pgq_ext.segment_entries() e
      JOIN pg_catalog.pg_inherits i ON i.inhrelid = e.relation
      -- The UNION has one SELECT for each ring.
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
'Segments: the tables that store jobs and records, which are partitions of parent. state: current (takes new rows), survivors (has rows that were moved from other segments), closed (is truncated as soon as its rows are gone or were kept for their time), empty. live_rows: number of rows, counted now, so the view reads every job and record. size: bytes of heap, TOAST and indexes. age: time since the oldest live job was enqueued, or the oldest record was written. held_by: what keeps a closed segment from being truncated; NULL: nothing that this view can see. truncations, moved_in, moved_out (rows): counted since the start of the server, in most cases.';

