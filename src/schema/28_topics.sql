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

CREATE FUNCTION pgq_ext.topic_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_topic_changed';
REVOKE ALL ON FUNCTION pgq_ext.topic_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.topic_changed() IS
'Internal: lets all sessions read the bindings, or the patterns with rights, again.';

-- For each row, because logical replication fires no triggers for each statement.
CREATE TRIGGER topic_binding_changed AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.topic_binding
FOR EACH ROW EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_binding ENABLE ALWAYS TRIGGER topic_binding_changed;
CREATE TRIGGER topic_binding_truncated AFTER TRUNCATE ON pgq_ext.topic_binding
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_binding ENABLE ALWAYS TRIGGER topic_binding_truncated;

CREATE SEQUENCE pgq_ext.topic_pattern_id_seq AS integer;

CREATE TABLE pgq_ext.topic_pattern (
    pattern_id integer PRIMARY KEY DEFAULT pg_catalog.nextval('pgq_ext.topic_pattern_id_seq'),
    pattern    text COLLATE "C" NOT NULL UNIQUE
);
REVOKE ALL ON TABLE pgq_ext.topic_pattern FROM PUBLIC;
COMMENT ON TABLE pgq_ext.topic_pattern IS
'The patterns of topics for which a right was granted. The privileges of the view pgq_ext.topic_rights_ID are the rights.';

CREATE TRIGGER topic_pattern_changed AFTER INSERT OR UPDATE OR DELETE ON pgq_ext.topic_pattern
FOR EACH ROW EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_pattern ENABLE ALWAYS TRIGGER topic_pattern_changed;
CREATE TRIGGER topic_pattern_truncated AFTER TRUNCATE ON pgq_ext.topic_pattern
FOR EACH STATEMENT EXECUTE FUNCTION pgq_ext.topic_changed();
ALTER TABLE pgq_ext.topic_pattern ENABLE ALWAYS TRIGGER topic_pattern_truncated;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_binding', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_pattern_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgq_ext.topic_pattern', '');

CREATE FUNCTION pgq_bind(pattern text, queue text, options jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_bind';
REVOKE ALL ON FUNCTION pgq_bind FROM PUBLIC;
COMMENT ON FUNCTION pgq_bind IS
'Bind a queue to a pattern: from the commit on, the queue gets each job that is published to a topic that the pattern matches. A pattern is a text of words with dots between them, at most 255 bytes. The word * matches one word of the topic, # any number of words or none, another word only itself. options: {"when_full": "error"} (default: a publish fails with PQ002 if the queue is full) or {"when_full": "skip"} (it leaves the queue out). If the binding exists, its options are set. Errors: 42704 no such queue, 42501 the caller has no right admin on the queue, 22023 a bad pattern or option, 22004 NULL.';

CREATE FUNCTION pgq_unbind(pattern text, queue text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unbind';
REVOKE ALL ON FUNCTION pgq_unbind FROM PUBLIC;
COMMENT ON FUNCTION pgq_unbind IS
'Remove the binding of a queue to exactly this pattern; false if there is none. Jobs that were published before stay. Errors: 42704 no such queue, 42501 the caller has no right admin on the queue, 22004 NULL.';

CREATE TYPE pgq_ext.published_job AS (
    queue  text,
    job_id bigint
);
COMMENT ON TYPE pgq_ext.published_job IS 'A row of pgq_publish and pgq_publish_many: a queue that has got a job, and the id of the job.';

CREATE FUNCTION pgq_publish(
    topic text, payload jsonb, priority int = 0, delay interval = null, run_at timestamptz = null,
    group_key text = null, unique_key text = null, unique_until text = 'finished',
    unique_for interval = null, on_conflict text = 'keep',
    headers jsonb = null, max_attempts int = null, expires_in interval = null, batch bigint = null,
    after bigint[] = null, on_parent_failure text = 'cancel', must_route boolean = false)
    RETURNS SETOF pgq_ext.published_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_publish';
REVOKE ALL ON FUNCTION pgq_publish FROM PUBLIC;
COMMENT ON FUNCTION pgq_publish IS
'Publish a job to a topic: enqueue one job in each queue that is bound to a pattern which matches the topic, in one transaction: in all of these queues or in none. A topic is a text of words with dots between them, at most 255 bytes. The other arguments are those of pgq_enqueue, and hold for each job by itself. The header topic of each job is the topic. Returns the jobs in the order of the ids of their queues; no row if no pattern matches. must_route: then raise PQ003 instead. The caller needs no right on the queues. Errors: PQ003 no queue (with must_route), PQ002 a queue is full and its binding does not say skip, 22023 a bad topic, 22004 NULL, and the errors of pgq_enqueue.';

CREATE FUNCTION pgq_publish_many(jobs jsonb) RETURNS SETOF pgq_ext.published_job
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 300 AS 'MODULE_PATHNAME', 'pgq_publish_many';
REVOKE ALL ON FUNCTION pgq_publish_many FROM PUBLIC;
COMMENT ON FUNCTION pgq_publish_many IS
'Publish many jobs, in one transaction: all or none. jobs: an array of objects whose keys are the arguments of pgq_publish, for example [{"topic": "order.paid", "payload": {"n": 1}}]; topic and payload are required. Each topic is routed once, and each queue gets its jobs together. Returns the jobs in the order of the ids of their queues, and of the elements; as many rows as there are jobs. after takes ids of jobs only, and there is no ref, since an element can become several jobs. If a queue is full, jobs whose bindings say skip are left out one by one: the jobs without a unique key from a certain element on. Errors: as pgq_publish and pgq_enqueue_many; 0A000 a ref.';

CREATE TYPE pgq_ext.route AS (
    queue   text,
    pattern text
);
COMMENT ON TYPE pgq_ext.route IS 'A row of pgq_route: a queue that gets the jobs of the topic, and a pattern that matches.';

CREATE FUNCTION pgq_route(topic text) RETURNS SETOF pgq_ext.route
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 3 AS 'MODULE_PATHNAME', 'pgq_route';
REVOKE ALL ON FUNCTION pgq_route FROM PUBLIC;
COMMENT ON FUNCTION pgq_route IS
'Return which queues would get a job that is published to the topic, and by which patterns: one row for each binding. pattern is NULL if the caller may not inspect the queue. Errors: 22004 NULL, 22023 a bad topic.';

CREATE FUNCTION pgq_grant_topic(pattern text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_grant_topic';
REVOKE ALL ON FUNCTION pgq_grant_topic FROM PUBLIC;
COMMENT ON FUNCTION pgq_grant_topic IS
'Grant a role rights on a pattern of topics. publish: to publish to the topics that the pattern matches. subscribe: to bind patterns that this pattern contains, to queues of which the role is admin. role: a role, or public for all roles. The first grant for a pattern closes the topics that it matches: from then on only roles with a right may publish to them, or bind patterns that match them. Errors: 42501 the caller is neither a superuser nor the owner of the tables, 42704 no such role, 22023 a bad pattern or right, 22004 NULL.';

CREATE FUNCTION pgq_revoke_topic(pattern text, role text, rights text[]) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_revoke_topic';
REVOKE ALL ON FUNCTION pgq_revoke_topic FROM PUBLIC;
COMMENT ON FUNCTION pgq_revoke_topic IS
'Take back rights of pgq_grant_topic. The topics stay closed. Bindings stay. Errors: as pgq_grant_topic; 55000 no right on exactly this pattern was granted; 0LP01 another role has granted the right.';

CREATE VIEW pgq_ext.binding WITH (security_barrier) AS
SELECT b.pattern, q.queue, b.when_full, b.created_at, b.maker_name AS maker
FROM pgq_ext.topic_binding b JOIN pgq_ext.queue q USING (queue_id)
WHERE pgq_ext.may_see(b.queue_id);
COMMENT ON VIEW pgq_ext.binding IS
'Which queues get the jobs of which topics, one row for each binding of pgq_bind to a queue that the caller may inspect.';
