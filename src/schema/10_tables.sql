-- pgq_ext: a job queue inside PostgreSQL.
-- This script is concatenated from src/schema/*.sql.

\echo Use "CREATE EXTENSION pgq_ext" to load this file. \quit

-- The functions go to the schema of the extension, all other objects to pgq_ext.
CREATE SCHEMA pgq_ext;

CREATE FUNCTION pgq_ext.announce() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_announce';
REVOKE ALL ON FUNCTION pgq_ext.announce() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.announce() IS
'Internal: tells the launcher, at the commit of the transaction, that this database has the extension.';

-- If the library is not preloaded, CREATE EXTENSION fails here, with a hint.
SELECT pgq_ext.announce();

-- The library reads the columns of these tables by position: see core/ring.h,
-- catalog/queue_columns.cpp, rows/job.cpp.

CREATE TABLE pgq_ext.queue (
    queue_id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text COLLATE "C" NOT NULL CONSTRAINT queue_name_key UNIQUE,
    lease_time     interval NOT NULL CHECK (lease_time BETWEEN '1 s' AND '7 days'),
    max_runtime    interval NOT NULL CHECK (max_runtime = '0' OR max_runtime BETWEEN '1 s' AND '1000 years'),
    max_attempts   integer NOT NULL CHECK (max_attempts >= 1),
    backoff_base   interval NOT NULL CHECK (backoff_base BETWEEN '0' AND '1000 years'),
    backoff_max    interval NOT NULL CHECK (backoff_max BETWEEN '0' AND '1000 years'),
    backoff_jitter float8 NOT NULL CHECK (backoff_jitter BETWEEN 0::float8 AND 1::float8),
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
    undo_rolled_back_claims boolean NOT NULL DEFAULT false,
    CHECK (pg_catalog.octet_length(queue) BETWEEN 1 AND 59)
);
COMMENT ON TABLE pgq_ext.queue IS
'Queues and their options. Rows are made by pgq_create_queue and removed by pgq_drop_queue. Options may also be changed by UPDATE, which checks them as pgq_create_queue does.';

CREATE FUNCTION pgq_ext.queue_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_changed';
REVOKE ALL ON FUNCTION pgq_ext.queue_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_changed() IS
'Internal: checks rows of pgq_ext.queue that SQL statements write directly, as the functions do, and refuses to delete the row of a queue that has jobs or dead letters.';

-- The next two triggers do nothing for rows that logical replication or a restore writes: see src/api/by_hand.cpp. The
-- CHECKs above act on such rows, too.
CREATE TRIGGER queue_changed BEFORE INSERT OR UPDATE OR DELETE ON pgq_ext.queue
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_changed();
CREATE TRIGGER queue_truncated AFTER TRUNCATE ON pgq_ext.queue
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.queue_changed();

CREATE FUNCTION pgq_ext.queue_appeared() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_queue_appeared';
REVOKE ALL ON FUNCTION pgq_ext.queue_appeared() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_appeared() IS
'Internal: tells the launcher of a new queue if the database has no running scheduler.';

CREATE TRIGGER queue_appeared AFTER INSERT ON pgq_ext.queue
FOR EACH ROW EXECUTE FUNCTION pgq_ext.queue_appeared();
ALTER TABLE pgq_ext.queue ENABLE ALWAYS TRIGGER queue_appeared;

COMMENT ON COLUMN pgq_ext.queue.paused_at IS 'Time since when the queue is paused, by pgq_pause_queue or by UPDATE; NULL: the queue is not paused.';
COMMENT ON COLUMN pgq_ext.queue.undo_rolled_back_claims IS 'Whether a rollback of a claim gives its jobs back at once, and counts no attempt.';

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

CREATE FUNCTION pgq_ext.queue_paused() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    -- Keep a time that the row already has: it may come from a dump, or from the publisher of a subscription.
    NEW.paused_at := CASE WHEN NEW.paused THEN COALESCE(NEW.paused_at, pg_catalog.clock_timestamp()) END;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION pgq_ext.queue_paused() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.queue_paused() IS
'Internal: sets paused_at in pgq_ext.queue when a queue is paused or resumed.';

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
    -- Columns that are NULL in most jobs are at the end. If the last columns of a row are NULL, TupleFormer
    -- (rows/tuple.h) ends the row before them, so most rows need no bitmap of NULLs.
    max_attempts integer CHECK (max_attempts >= 1),
    expires_at   timestamptz,
    fence        bigint,
    group_key    text,
    group_id     bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(group_key, 0) OPERATOR(pg_catalog.|) 1) STORED,
    unique_key   text,
    unique_hash  bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(unique_key, queue_id)) STORED,
    headers      jsonb,
    last_error   text,
    progress     jsonb,
    batch_id     bigint,
    blocked      bigint,
    parents      smallint
) PARTITION BY LIST (segment);
-- Unique keys are never compressed, since a search for a key compares the stored bytes.
ALTER TABLE pgq_ext.job ALTER COLUMN unique_key SET STORAGE EXTERNAL;
COMMENT ON TABLE pgq_ext.job IS
'Live jobs, one row for each job: inserted by pgq_enqueue, deleted by pgq_ack. Partitioned into segments, which the first pgq_create_queue makes.';
COMMENT ON COLUMN pgq_ext.job.attempts IS 'Number of attempts of the job that have failed so far.';
COMMENT ON COLUMN pgq_ext.job.max_attempts IS 'Number of failed attempts after which the job becomes a dead letter; NULL: max_attempts of the queue.';
COMMENT ON COLUMN pgq_ext.job.progress IS 'The last progress that a worker of the job has noted with pgq_progress.';
COMMENT ON COLUMN pgq_ext.job.batch_id IS 'The batch of which the job is a member; NULL: the job is in no batch. Set when the job is enqueued, and never changed.';
COMMENT ON COLUMN pgq_ext.job.blocked IS 'The job waits until its parents have ended, and then for this number of microseconds; NULL: the job is not blocked.';
COMMENT ON COLUMN pgq_ext.job.parents IS 'Number of parents of the job; NULL: none. Set when the job is enqueued, and never changed.';
COMMENT ON COLUMN pgq_ext.job.fence IS 'Token of the last lease whose end was written to this row, or a greater number if SQL has changed the row. Leases of the job that are not greater than the fence are stale.';

CREATE FUNCTION pgq_ext.job_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_job_changed';
REVOKE ALL ON FUNCTION pgq_ext.job_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.job_changed() IS
'Internal: tells memory of rows of pgq_ext.job that were written by INSERT, UPDATE, COPY or logical replication, or removed by DELETE or TRUNCATE, and counts these rows.';

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
'Internal: sets the fence of a job whose payload or headers are changed by SQL, so that a worker that had got the old content before the last start of the server cannot acknowledge the job.';

CREATE TRIGGER job_fence BEFORE INSERT OR UPDATE ON pgq_ext.job
FOR EACH ROW EXECUTE FUNCTION pgq_ext.job_fence();
ALTER TABLE pgq_ext.job ENABLE ALWAYS TRIGGER job_fence;

-- See src/rows/key_period.h. The library reads the columns of this table by position.
CREATE TABLE pgq_ext.unique_key (
    job_id      bigint NOT NULL,
    until       timestamptz NOT NULL,
    queue_id    integer NOT NULL,
    unique_key  text NOT NULL,
    unique_hash bigint GENERATED ALWAYS AS (pg_catalog.hashtextextended(unique_key, queue_id)) STORED
);
CREATE INDEX unique_key_by_hash ON pgq_ext.unique_key (unique_hash);
CREATE INDEX unique_key_until ON pgq_ext.unique_key (until);
-- This index is the replica identity. Without one, DELETE fails when the table is published, for example by FOR ALL
-- TABLES. (REPLICA IDENTITY FULL does not work with PostgreSQL 18 because of the generated column.)
CREATE UNIQUE INDEX unique_key_by_job ON pgq_ext.unique_key (job_id, until);
ALTER TABLE pgq_ext.unique_key REPLICA IDENTITY USING INDEX unique_key_by_job;
COMMENT ON TABLE pgq_ext.unique_key IS
'Unique keys that stay taken for a time (unique_for), even after their job has ended: one row for each job that was enqueued with unique_for, deleted when that time is over.';

-- See src/catalog/token_mark.h.
CREATE SEQUENCE pgq_ext.token_mark AS bigint MINVALUE 0 START 0 MAXVALUE 9007199254740991;
COMMENT ON SEQUENCE pgq_ext.token_mark IS
'Internal: lease tokens up to this mark may have been handed out; after a restart or failover new ones start above it.';

-- A dump does not contain this table: see src/catalog/token_key.h.
CREATE TABLE pgq_ext.token_key (key uuid NOT NULL);
REVOKE ALL ON pgq_ext.token_key FROM PUBLIC;
-- Row level security keeps members of pg_read_all_data from reading the key.
ALTER TABLE pgq_ext.token_key ENABLE ROW LEVEL SECURITY;
COMMENT ON TABLE pgq_ext.token_key IS
'Internal: the secret key that tells real lease tokens from invented ones after a restart.';
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
    worker         text NOT NULL,
    lease_time     bigint
);
REVOKE ALL ON TABLE pgq_ext.saved_lease FROM PUBLIC;
COMMENT ON TABLE pgq_ext.saved_lease IS
'Internal: leases as they were at a clean stop of the server; also (rows with job_id 0) the hand-outs that rate limits count, and the permits taken of rates. The next start restores the rows whose mark is still the value of pgq_ext.token_mark, since then no lease and no permit was given in between. Not dumped.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.queue', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.queue_queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.token_mark', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.unique_key', '');
