-- The role of the exporter. It sees no job, no payload and no lease, and cannot call anything that changes a queue.
-- But as a member of pg_monitor it sees the statements of other sessions. Run this script in each database with
-- queues, as a superuser. Once the role exists, the owner of the extension can run it too; such an owner cannot grant
-- pg_monitor, so the script grants the views.
--
--   psql -d mydb -f role.sql
--
-- The role logs in as the system user prometheus, which runs Debian's exporter, by "peer" over the socket.
\set ON_ERROR_STOP on
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'prometheus') AS missing,
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AS super \gset
\if :missing
CREATE ROLE prometheus LOGIN;
\endif

-- A scrape that has to wait for a lock gives up; the other queries of the scrape are still answered.
SELECT :'super'::boolean OR :'missing'::boolean AS may_alter \gset
\if :may_alter
ALTER ROLE prometheus SET lock_timeout = '1 s';
ALTER ROLE prometheus SET statement_timeout = '5 s';
ALTER ROLE prometheus SET default_transaction_read_only = on;
\endif

-- Members of pg_monitor also see closed queues (pgq_grant). An owner who is not a superuser grants {inspect} on each
-- closed queue instead.
\if :super
GRANT pg_monitor TO prometheus;
\else
GRANT USAGE ON SCHEMA pgq_ext TO prometheus;
GRANT SELECT ON pgq_ext.queue_status, pgq_ext.queue_stats, pgq_ext.queue_latency, pgq_ext.health, pgq_ext.capacity, pgq_ext.duty, pgq_ext.segment
  TO prometheus;
GRANT SELECT (queue_id, queue, max_depth) ON pgq_ext.queue TO prometheus;
GRANT SELECT (schedule, queue, paused, next_run_at, last_error) ON pgq_ext.schedule TO prometheus;
GRANT SELECT (queue, workers, running, state, next_try_at, calls, failures) ON pgq_ext.handler TO prometheus;
GRANT SELECT (state, closed_at, finished_at, last_error) ON pgq_ext.batch TO prometheus;
\endif
