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
'Which job waits for the end of which other job (key after of pgq_enqueue_many), and what happens if the parent ends otherwise than by an acknowledgement. Rows are inserted and deleted, and never changed; see src/rows/dependency_row.h.';

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
'How a job has ended that has children, kept until its last child is gone; see src/rows/dependency_row.h. A job may have several rows that say the same.';

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_dependency', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.job_outcome', '');
