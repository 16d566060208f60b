-- ---- watched tables: see src/row_changes/README.md ----

CREATE FUNCTION pgq_ext.row_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_row_changed';
REVOKE ALL ON FUNCTION pgq_ext.row_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.row_changed() IS
'Internal: the function of the triggers that pgq_watch_table makes. It enqueues a job for each row that a statement has changed. A role that calls pgq_watch_table needs EXECUTE on this function, too; a role that writes to a watched table does not.';

CREATE FUNCTION pgq_watch_table("table" regclass, target text, columns text[] = null, key text[] = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_watch_table';
REVOKE ALL ON FUNCTION pgq_watch_table FROM PUBLIC;
COMMENT ON FUNCTION pgq_watch_table IS
'Watch a table: each INSERT, UPDATE and DELETE enqueues, in its transaction, one job for each row that it changes. The payload is {"op", "table", "key", "new", "old"}: op is INSERT, UPDATE or DELETE; key, new and old are objects or null. target: the name of a queue, ''queue:NAME'', or ''topic:NAME'' to publish the jobs to a topic. columns: the columns in new and old; default: all columns. An UPDATE that changes none of these columns of a row enqueues no job for the row. columns => ''{}'': a coalescing watch, whose jobs have only {"table", "key"}; while such a job waits, further changes with the same key enqueue no other job. key: the columns by which the old and new version of a row are recognized; default: the primary key. The function makes three triggers on the table, and on each partition. A second call for the same table and target replaces the watch, and makes triggers that are missing. The jobs are enqueued with the rights of the owner of the table. TRUNCATE, logical replication and session_replication_role = replica enqueue nothing. Errors: 42704 no such queue, 42703 no such column, 42809 the relation cannot be watched, 42501 the caller may not create triggers on the table or call pgq_ext.row_changed, or the owner of the table may not enqueue, 22023 a bad value, 22004 NULL.';

CREATE FUNCTION pgq_unwatch_table("table" regclass, target text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unwatch_table';
REVOKE ALL ON FUNCTION pgq_unwatch_table FROM PUBLIC;
COMMENT ON FUNCTION pgq_unwatch_table IS
'Stop watching a table for this target: drop the triggers of pgq_watch_table on the table and its partitions. False if there are none. Jobs that were enqueued before stay. Errors: 42501 the caller does not own the table, 22023 a bad target, 22004 NULL.';

CREATE FUNCTION pgq_ext.watch_entries(
    OUT relation oid, OUT part_of oid, OUT target text, OUT columns text[], OUT key text[], OUT coalescing boolean,
    OUT triggers text[], OUT status text, OUT problem text) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'pgq_watch_entries';
REVOKE ALL ON FUNCTION pgq_ext.watch_entries FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.watch_entries IS
'Internal: rows of the view pgq_ext.watch. status: ok, warn, or fail if writes to the table fail.';

CREATE VIEW pgq_ext.watch AS
SELECT e.relation::pg_catalog.regclass AS "table", e.target, e.columns, e.key, e.coalescing, e.triggers,
       e.part_of::pg_catalog.regclass AS part_of, e.problem
FROM pgq_ext.watch_entries() e;
COMMENT ON VIEW pgq_ext.watch IS
'Watched tables, one row for each table or partition and target. columns: the columns in new and old; NULL: all. key: the columns of the key; NULL: the table has none. triggers: their names, in the order INSERT, UPDATE, DELETE; NULL for one that is missing. part_of: the partitioned table whose watch includes this partition; jobs name that table. problem: why the watch misses changes, or why writes to the table fail; NULL: none.';
