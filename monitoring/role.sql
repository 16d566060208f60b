-- The role of the exporter, with what queries.yml asks for and, by a superuser, pg_monitor: it sees no job, no payload and no lease,
-- but the statements of other sessions, and cannot call anything that changes a queue. To be run by a superuser, or the owner of the extension, in each database with queues:
--
--   psql -d mydb -f role.sql
--
-- It logs in as the system user who runs Debian's exporter does: "peer", over the socket.
\set ON_ERROR_STOP on
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'prometheus') AS missing \gset
\if :missing
CREATE ROLE prometheus LOGIN;
\endif

-- A scrape that has to wait gives up: the rest of it is served.
ALTER ROLE prometheus SET lock_timeout = '1 s';
ALTER ROLE prometheus SET statement_timeout = '5 s';
ALTER ROLE prometheus SET default_transaction_read_only = on;

-- What there is of queues that are closed (pgq_grant) members of pg_monitor see. Who is no superuser grants {inspect} on each instead.
SELECT rolsuper AS super FROM pg_catalog.pg_roles WHERE rolname = current_user \gset
\if :super
GRANT pg_monitor TO prometheus;
\endif

GRANT USAGE ON SCHEMA pgq_ext TO prometheus;
GRANT SELECT ON pgq_ext.queue_status, pgq_ext.queue_stats, pgq_ext.health, pgq_ext.capacity, pgq_ext.duty
  TO prometheus;
GRANT SELECT (queue_id, queue, max_depth) ON pgq_ext.queue TO prometheus;
GRANT SELECT (schedule, queue, paused, next_run_at, last_error) ON pgq_ext.schedule TO prometheus;
GRANT EXECUTE ON FUNCTION pgq_ext.queue_entries, pgq_ext.oldest_ready, pgq_ext.stat_entries, pgq_ext.latency_entries,
  pgq_ext.health_entries, pgq_ext.capacity_entries, pgq_ext.duty_entries, pgq_ext.segment_entries TO prometheus;
