-- ---- handlers: see src/handlers/README.md and src/worker/handler_worker.cpp ----

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
