-- The role of the exporter: it sees no job, no payload and no lease, but, as a member of pg_monitor, the statements of other sessions,
-- and cannot call anything that changes a queue. To be run in each database with queues, by a superuser; or, once the role is there,
-- by the owner of the extension, who cannot give pg_monitor and so grants the views:
--
--   psql -d mydb -f role.sql
--
-- It logs in as the system user who runs Debian's exporter does: "peer", over the socket.
\set ON_ERROR_STOP on
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'prometheus') AS missing,
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AS super \gset
\if :missing
CREATE ROLE prometheus LOGIN;
\endif

-- A scrape that has to wait gives up: the rest of it is served.
SELECT :'super'::boolean OR :'missing'::boolean AS may_alter \gset
\if :may_alter
ALTER ROLE prometheus SET lock_timeout = '1 s';
ALTER ROLE prometheus SET statement_timeout = '5 s';
ALTER ROLE prometheus SET default_transaction_read_only = on;
\endif

-- What there is of queues that are closed (pgq_grant) members of pg_monitor see. Who is no superuser grants {inspect} on each instead.
\if :super
GRANT pg_monitor TO prometheus;
\else
GRANT USAGE ON SCHEMA pgq_ext TO prometheus;
GRANT SELECT ON pgq_ext.queue_status, pgq_ext.queue_stats, pgq_ext.queue_latency, pgq_ext.health, pgq_ext.capacity, pgq_ext.duty, pgq_ext.segment
  TO prometheus;
GRANT SELECT (queue_id, queue, max_depth) ON pgq_ext.queue TO prometheus;
GRANT SELECT (schedule, queue, paused, next_run_at, last_error) ON pgq_ext.schedule TO prometheus;
\endif
