
-- ---- coordination without jobs: locks, runs, rates ----

-- See src/sync/lock_row.h. The library reads this table by position.
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
-- Lets rows be changed when the table is published, as by FOR ALL TABLES. A replica identity index is not possible,
-- since columns may be NULL.
ALTER TABLE pgq_ext.run REPLICA IDENTITY FULL;
COMMENT ON TABLE pgq_ext.run IS
'What pgq_run_once has begun, a row for each name and period (NULL: once for ever): the token and owner of the last try, when it began, when it was finished (NULL: it is not), with which result, and how many tries there were. Of each name and period the newest pgq_ext.keep_runs that are finished are kept, and as many that are not.';

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
'Hold a name, alone or as one of slots (1 to 1024), for ttl (1 s and more). Returns a token, greater than those of all who held it before, or NULL: not got within wait (at most 60 s; first come, first served). It is held from the call, by others'' eyes too, and is undone by rollback; before the transaction has ended nobody else gets it, whatever ttl is. With session_bound it also ends with the session, and costs no write; ttl counts all the same. owner is a label (default: application_name). Errors: 22023 bad value, 53400 pgq_ext.max_locks reached, 40P01 a deadlock.';

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
'Take permits of a rate (at most its burst): true, go ahead. With wait (at most 60 s) they are reserved, and waited for, if they can be had in that time. False: not yet. What was taken is not given back by rollback. A rate that this transaction has created is empty. Errors: 42704 no such rate, 22023 bad value, 53400 pgq_ext.max_rates reached, 55000 a wait for a rate that this transaction has created.';

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
'Locks that are held: the slot, of how many, the token (NULL for members of pg_monitor without another grant), who has got it (pid: NULL after a restart), until when, how many sessions wait for the name. One whose time is over is shown until somebody takes it, or for some seconds. in_transaction: somebody has taken it, or is giving it back, in a transaction that has not ended.';

CREATE FUNCTION pgq_ext.rate_entries(OUT name text, OUT available bigint, OUT next_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_rate_entries';
REVOKE ALL ON FUNCTION pgq_ext.rate_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.rate_entries IS
'Internal: of rates that are in use, what the view pgq_ext.rate shows.';

CREATE VIEW pgq_ext.rate AS
SELECT r.name, r.permits, r.period, r.burst, e.available, e.next_at
FROM pgq_ext.rate_limit r LEFT JOIN pgq_ext.rate_entries() e USING (name);
COMMENT ON VIEW pgq_ext.rate IS
'Rates, how much could be taken now, and when the next permit can be had. Both are NULL for a rate that is not in memory: it has not been used since the start of the server, nor before its clean stop, or was full when another rate needed its place.';
