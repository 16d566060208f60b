-- ---- dependencies: see src/dependencies/README.md ----

CREATE TABLE pgq_ext.job_dependency (
    parent_id  bigint NOT NULL,
    child_id   bigint NOT NULL,
    on_failure smallint NOT NULL,
    ref        text
);
CREATE INDEX job_dependency_by_parent ON pgq_ext.job_dependency (parent_id, child_id);
CREATE INDEX job_dependency_by_child ON pgq_ext.job_dependency (child_id);
-- Without a replica identity, DELETE fails when the table is published, for example by FOR ALL TABLES.
ALTER TABLE pgq_ext.job_dependency REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.job_dependency FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_dependency IS
'Dependencies: a child waits for the end of its parent (after of pgq_enqueue). on_failure: what happens to the child if the parent ends in another way than by an acknowledgement. Rows are never updated; see src/rows/dependency_row.h.';

CREATE TABLE pgq_ext.job_outcome (
    job_id   bigint NOT NULL,
    outcome  smallint NOT NULL,
    ended_at timestamptz NOT NULL,
    queue_id integer NOT NULL,
    result   jsonb,
    error    text
);
CREATE INDEX job_outcome_by_id ON pgq_ext.job_outcome (job_id);
ALTER TABLE pgq_ext.job_outcome REPLICA IDENTITY FULL;
REVOKE ALL ON TABLE pgq_ext.job_outcome FROM PUBLIC;
COMMENT ON TABLE pgq_ext.job_outcome IS
'Outcomes: how jobs with children have ended. A row is kept until the last child of the job is gone. A job may have several rows with the same outcome. See src/rows/dependency_row.h.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_dependency', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_outcome', '');
