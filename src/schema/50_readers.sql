-- ---- the readers of the views: see src/catalog/reader.h ----

-- Members of pg_monitor read all views; tokens and payloads are NULL for them, unless another grant shows them.
GRANT SELECT ON pgq_ext.queue, pgq_ext.queue_status, pgq_ext.queue_stats, pgq_ext.queue_latency, pgq_ext.job_status, pgq_ext.lease,
    pgq_ext.capacity, pgq_ext.segment, pgq_ext.duty, pgq_ext.schedule, pgq_ext.lock, pgq_ext.rate, pgq_ext.dead_letter, pgq_ext.handler, pgq_ext.batch,
    pgq_ext.binding, pgq_ext.watch TO pg_monitor;

-- The views call these functions with the rights of the reader. A direct call shows no more than the views do.
GRANT EXECUTE ON FUNCTION pgq_ext.may_see, pgq_ext.may_read, pgq_ext.queue_entries, pgq_ext.oldest_ready, pgq_ext.blocked_jobs, pgq_ext.stat_entries,
    pgq_ext.latency_entries, pgq_ext.lease_entries, pgq_ext.lease_of, pgq_ext.first_jobs, pgq_ext.group_entries, pgq_ext.behind, pgq_ext.capacity_entries,
    pgq_ext.segment_entries, pgq_ext.snapshot_holders, pgq_ext.duty_entries, pgq_ext.lock_entries, pgq_ext.rate_entries,
    pgq_ext.handler_entries, pgq_ext.watch_entries, pgq_ext.batch_of, pgq_ext.members_of,
    pgq_ext.health_rows, pgq_ext.health_of_reader TO PUBLIC;
