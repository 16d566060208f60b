-- ---- parents: see src/dependencies/README.md ----

CREATE FUNCTION pgq_ext.dependency_came() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_dependency_came';
REVOKE ALL ON FUNCTION pgq_ext.dependency_came() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.dependency_came() IS
'Internal: notes that SQL has inserted dependencies or outcomes, so that jobs that end have to look for children.';

CREATE TRIGGER dependency_came BEFORE INSERT ON pgq_ext.job_dependency
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_came();
ALTER TABLE pgq_ext.job_dependency ENABLE ALWAYS TRIGGER dependency_came;

CREATE FUNCTION pgq_ext.dependency_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_dependency_changed';
REVOKE ALL ON FUNCTION pgq_ext.dependency_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.dependency_changed() IS
'Internal: lets a child no longer wait for a parent after SQL has deleted the dependency, and refuses to change a dependency by SQL.';

-- These triggers do not fire for statements of the extension, for logical replication and for session_replication_role
-- = replica.
CREATE TRIGGER dependency_changed BEFORE UPDATE OR DELETE ON pgq_ext.job_dependency
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_changed();
CREATE TRIGGER dependency_truncated AFTER TRUNCATE ON pgq_ext.job_dependency
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.dependency_changed();

CREATE TRIGGER outcome_came BEFORE INSERT ON pgq_ext.job_outcome
FOR EACH ROW EXECUTE FUNCTION pgq_ext.dependency_came();
ALTER TABLE pgq_ext.job_outcome ENABLE ALWAYS TRIGGER outcome_came;

CREATE TYPE pgq_ext.parent AS (
    job_id bigint,
    ref    text,
    state  text,
    result jsonb,
    error  text
);
COMMENT ON TYPE pgq_ext.parent IS 'A row of pgq_parents.';

CREATE FUNCTION pgq_parents(job_id bigint, lease bigint) RETURNS SETOF pgq_ext.parent
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_parents';
REVOKE ALL ON FUNCTION pgq_parents FROM PUBLIC;
COMMENT ON FUNCTION pgq_parents IS
'Return the parents of a job that a worker has: the jobs after which it was enqueued. job_id: the id of the parent. ref: the name of the parent, if one call has enqueued parent and child. state: acked, cancelled, expired, purged, dropped, deleted; dead: the parent is a dead letter, or was a dead letter that was deleted; waiting or leased: the parent was a dead letter, and was redriven; unknown: the parent was deleted while triggers were disabled. result: as passed to pgq_ack. error: the last error of a dead letter. The lease is asserted as by pgq_assert_lease. Error: PQ001 the lease is stale.';
