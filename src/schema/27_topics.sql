-- ---- topics: see src/topics/README.md ----

CREATE TABLE pgq_ext.topic_binding (
    queue_id   integer NOT NULL,
    pattern    text COLLATE "C" NOT NULL,
    -- What a publish does if the queue is full: 'error' or 'skip'.
    when_full  text NOT NULL DEFAULT 'error' CHECK (when_full IN ('error', 'skip')),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    maker_name text NOT NULL DEFAULT CURRENT_USER,
    PRIMARY KEY (queue_id, pattern)
);
REVOKE ALL ON TABLE pgq_ext.topic_binding FROM PUBLIC;
COMMENT ON TABLE pgq_ext.topic_binding IS
'Which queues get the jobs that are published to which topics, one row for each binding made by pgq_bind.';

CREATE FUNCTION pgq_ext.topic_binding_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_topic_binding_changed';
REVOKE ALL ON FUNCTION pgq_ext.topic_binding_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.topic_binding_changed() IS
'Internal: lets all sessions read the bindings again.';

CREATE TRIGGER topic_binding_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgq_ext.topic_binding
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.topic_binding_changed();
ALTER TABLE pgq_ext.topic_binding ENABLE ALWAYS TRIGGER topic_binding_changed;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_binding', '');
