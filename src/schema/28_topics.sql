
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
COMMENT ON TYPE pgq_ext.published_job IS 'A row of pgq_publish: a queue that has got a job, and the id of the job.';

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
