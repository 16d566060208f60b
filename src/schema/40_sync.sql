
-- ---- coordination without jobs: locks, runs, rates ----

-- See src/sync/lock_row.h. The library reads the columns of this table by position.
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
'Internal: makes memory read the locks again after SQL, such as a restore, has written rows of held_lock.';
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
-- REPLICA IDENTITY FULL allows UPDATE and DELETE when the table is published, for example by FOR ALL TABLES. An index
-- cannot be the replica identity, since the columns of its key may be NULL.
ALTER TABLE pgq_ext.run REPLICA IDENTITY FULL;
COMMENT ON TABLE pgq_ext.run IS
'Runs that pgq_run_once has begun, one row for each name and period (NULL: once for all time): token and owner of the last try, when that try began, when the run was finished (NULL: it is not finished), its result, and the number of tries. For each name and period, the newest pgq_ext.keep_runs finished runs are kept, and as many unfinished runs.';

CREATE TABLE pgq_ext.rate_limit (
    name    text COLLATE "C" PRIMARY KEY,
    permits integer NOT NULL CHECK (permits BETWEEN 1 AND 100000),
    period  interval NOT NULL CHECK (period BETWEEN '1 s' AND '366 days'),
    burst   integer NOT NULL CHECK (burst BETWEEN 1 AND permits)
);
COMMENT ON TABLE pgq_ext.rate_limit IS
'Rates that pgq_create_rate has made. See the view pgq_ext.rate.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.held_lock', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.run', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.rate_limit', '');

CREATE FUNCTION pgq_lock(
    name text, ttl interval = '30 s', slots int = 1, wait interval = '0', owner text = null,
    session_bound boolean = false) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_lock';
REVOKE ALL ON FUNCTION pgq_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_lock IS
'Take a named lock, alone or as one of slots (1 to 1024) holders, for ttl (1 s or more). Returns a token, greater than all earlier tokens of the lock, or NULL: not taken within wait (at most 60 s; first come, first served). The lock is held from the call on, also for other sessions, and is undone by rollback. Before the transaction has ended no other session gets it, even if ttl is over. With session_bound the lock also ends with the session, and costs no write; it still ends after ttl. owner is a label (default: application_name). Errors: 22023 bad value, 53400 pgq_ext.max_locks reached, 40P01 a deadlock.';

CREATE FUNCTION pgq_extend_lock(name text, token bigint, ttl interval = null) RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_extend_lock';
REVOKE ALL ON FUNCTION pgq_extend_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_extend_lock IS
'Hold the named lock, or run, for ttl from now (default: the last ttl); its time never becomes shorter. Returns the new end, which takes effect when the transaction has committed. NULL: the lock is not held with that token any more.';

CREATE FUNCTION pgq_unlock(name text, token bigint) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unlock';
REVOKE ALL ON FUNCTION pgq_unlock FROM PUBLIC;
COMMENT ON FUNCTION pgq_unlock IS
'Give the named lock back, at commit. For a run: give the run up, so that another caller may begin it. Waits for transactions that have asserted the lock. False: the lock is not held with that token any more.';

CREATE FUNCTION pgq_assert_lock(name text, token bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_assert_lock';
REVOKE ALL ON FUNCTION pgq_assert_lock FROM PUBLIC;
COMMENT ON FUNCTION pgq_assert_lock IS
'Make sure that the named lock, or run, stays held with that token until the end of the transaction. Error: PQ001 the lock is not held with that token.';

CREATE FUNCTION pgq_run_once(
    name text, period interval = null, ttl interval = '5 min', wait interval = '0', owner text = null) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_once';
REVOKE ALL ON FUNCTION pgq_run_once FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_once IS
'Ask for a task that only one caller may run: once for all time, or once in each period (1 s or more, without months), counted from 2000-01-01 UTC. A token: the caller has the run, and calls pgq_run_done with the token in the transaction of the work. NULL: the run is finished, or another caller has it and did not give it up within wait. A caller that has not finished or extended (pgq_extend_lock) the run within ttl, or was rolled back, loses it. Errors: as pgq_lock.';

CREATE FUNCTION pgq_run_done(name text, token bigint, result jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_run_done';
REVOKE ALL ON FUNCTION pgq_run_done FROM PUBLIC;
COMMENT ON FUNCTION pgq_run_done IS
'Finish a run when this transaction commits: no caller begins the run again in its period. Error: PQ001 the token is stale; the error also undoes what the transaction has written.';

CREATE FUNCTION pgq_create_rate(
    name text, permits int, period interval, burst int = null, if_not_exists boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_create_rate';
REVOKE ALL ON FUNCTION pgq_create_rate FROM PUBLIC;
COMMENT ON FUNCTION pgq_create_rate IS
'Create a rate: at most permits (1 to 100000) in any time span of the length of period (1 s to 366 days, without months), and at most burst of them (default 1) at once. False: the rate exists, with if_not_exists. The transaction cannot be prepared. Error: 42710 the rate exists.';

CREATE FUNCTION pgq_drop_rate(name text, if_exists boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_drop_rate';
REVOKE ALL ON FUNCTION pgq_drop_rate FROM PUBLIC;
COMMENT ON FUNCTION pgq_drop_rate IS
'Remove a rate. False: there is no such rate, with if_exists. Error: 42704 there is no such rate.';

CREATE FUNCTION pgq_take(name text, permits int = 1, wait interval = '0') RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_take';
REVOKE ALL ON FUNCTION pgq_take FROM PUBLIC;
COMMENT ON FUNCTION pgq_take IS
'Take permits of a rate (at most its burst): true if they were taken. With wait (at most 60 s), permits that will be free in that time are reserved, and the call returns when they are. False: the permits are not free in time. A rollback does not give permits back. A rate that this transaction has created has no permits. Errors: 42704 no such rate, 22023 bad value, 53400 pgq_ext.max_rates reached, 55000 a wait for a rate that this transaction has created.';

CREATE FUNCTION pgq_ext.lock_entries(
    OUT name text, OUT slot int, OUT slots int, OUT token bigint, OUT owner text, OUT pid int,
    OUT acquired_at timestamptz, OUT expires_at timestamptz, OUT session_bound boolean,
    OUT waiting int, OUT in_transaction boolean) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_lock_entries';
REVOKE ALL ON FUNCTION pgq_ext.lock_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.lock_entries IS
'Internal: the rows of the view pgq_ext.lock. The token is NULL for a caller that may not read that column of the view.';

CREATE VIEW pgq_ext.lock AS
SELECT name, slot, slots, token, owner, pid, acquired_at, expires_at, session_bound, waiting, in_transaction
FROM pgq_ext.lock_entries();
COMMENT ON VIEW pgq_ext.lock IS
'Named locks that are held: the slot and the number of slots, the token (NULL for members of pg_monitor without another grant), the holder (pid: NULL after a restart), the end, and the number of sessions that wait for the name. A lock whose time is over is shown until another session takes it, or for some seconds. in_transaction: a transaction that has not ended has taken the lock, or is giving it back.';

CREATE FUNCTION pgq_ext.rate_entries(OUT name text, OUT available bigint, OUT next_at timestamptz) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_rate_entries';
REVOKE ALL ON FUNCTION pgq_ext.rate_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.rate_entries IS
'Internal: the rates that are in memory, for the view pgq_ext.rate.';

CREATE VIEW pgq_ext.rate AS
SELECT r.name, r.permits, r.period, r.burst, e.available, e.next_at
FROM pgq_ext.rate_limit r LEFT JOIN pgq_ext.rate_entries() e USING (name);
COMMENT ON VIEW pgq_ext.rate IS
'Rates, the number of permits that could be taken now, and the time of the next permit. Both are NULL for a rate that is not in memory: it was not used since the start of the server, nor before the last clean stop, or it was full when another rate needed its place in memory.';
