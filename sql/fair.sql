-- Groups take turns (option fair). That nothing is lost with next to no memory is the business of the unit tests.
\set VERBOSITY terse
CREATE FUNCTION pg_temp.fill(queue text, group_key text, jobs int, priority int DEFAULT 0) RETURNS bigint LANGUAGE sql
RETURN (SELECT count(*) FROM pgq_enqueue_many(queue,
    (SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', group_key, 'priority', priority)) FROM generate_series(1, jobs) i)));
-- What the next claims hand out, one after the other; then it is done.
CREATE FUNCTION pg_temp.next(queue text, jobs int) RETURNS TABLE (turn bigint, group_key text, payload jsonb) LANGUAGE sql
BEGIN ATOMIC
    SELECT n.turn, n.group_key, n.payload
    FROM (SELECT row_number() OVER () AS turn, c.group_key, c.payload, pgq_ack(c.job_id, c.lease) FROM pgq_claim(queue, jobs) c) n;
END;
SELECT pgq_create_queue('q', fair => true), pgq_create_queue('plain');
SELECT fair FROM pgq_ext.queue ORDER BY queue;

-- A tenant with many jobs, and ten with ten each: these are out after 110.
SELECT pg_temp.fill('q', 'big', 20000), sum(pg_temp.fill('q', 't' || i, 10)) FROM generate_series(1, 10) i;
SELECT group_key, count(*), max(turn) FILTER (WHERE group_key <> 'big') <= 110 AS in_time FROM pg_temp.next('q', 250) GROUP BY 1 ORDER BY 1;
-- The same if they come while the window is full of the big one's.
SELECT sum(pg_temp.fill('q', 't' || i, 10)) FROM generate_series(1, 10) i;
SELECT sum((group_key <> 'big')::int) AS others, count(DISTINCT payload) FILTER (WHERE group_key = 't3') AS of_t3 FROM pg_temp.next('q', 115);
-- One claim each.
SELECT sum(pg_temp.fill('q', 't' || i, 2)) FROM generate_series(1, 3) i;
SELECT group_key, count(*) FROM generate_series(1, 8) i, pg_temp.next('q', 1 + 0 * i) GROUP BY 1 ORDER BY 1;
-- Within a group by run_at and id.
SELECT bool_and(payload::int = before + 1) FROM (SELECT payload, lag(payload::int) OVER (ORDER BY turn) AS before FROM pg_temp.next('q', 3000)) n WHERE before IS NOT NULL;
SELECT * FROM pgq_check();

-- Jobs without a group are one group; the priority comes first.
SELECT pgq_purge_queue('q');
SELECT pg_temp.fill('q', NULL, 3000), pg_temp.fill('q', 'a', 3000), pg_temp.fill('q', 'b', 3), pg_temp.fill('q', 'urgent', 2, 1), pg_temp.fill('q', NULL, 2, 1), pg_temp.fill('q', 'late', 2, -1);
SELECT turn <= 4 AS first, group_key, count(*) FROM pg_temp.next('q', 13) GROUP BY 1, 2 ORDER BY 1 DESC, 2;
SELECT group_key, count(*) FROM pg_temp.next('q', 5000) GROUP BY 1 ORDER BY 1;
SELECT group_key, count(*) FROM pg_temp.next('q', 5000) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM pg_temp.next('q', 5);

-- A retry waits for its time, and then for its turn.
SELECT pg_temp.fill('q', 'a', 3), pg_temp.fill('q', 'b', 1);
SELECT group_key, payload, pgq_fail(job_id, lease, retry_in => '0') FROM pgq_claim('q', 2) ORDER BY 1;
SELECT group_key, payload FROM pg_temp.next('q', 9);

-- More groups than the window has places: each of them has its turn, and no job is lost.
SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', (i % 5000)::text)) FROM generate_series(1, 15000) i));
SELECT count(*) FROM generate_series(1, 28) i, pg_temp.next('q', 500 + 0 * i);
SELECT count(*) FROM pg_temp.next('q', 2000);
SELECT * FROM pgq_check();

-- Switched on and off, while jobs wait and are in work.
SELECT pg_temp.fill('plain', 'a', 3000), pg_temp.fill('plain', 'b', 3), pg_temp.fill('plain', NULL, 1);
SELECT group_key, count(*) FROM pg_temp.next('plain', 10) GROUP BY 1;
SELECT pgq_alter_queue('plain', fair => true);
SELECT group_key, count(*) FROM pg_temp.next('plain', 9) GROUP BY 1 ORDER BY 1;
SELECT pg_temp.fill('plain', 'c', 3);
SELECT pgq_alter_queue('plain', fair => false);
SELECT group_key, count(*) FROM pg_temp.next('plain', 10) GROUP BY 1;
SELECT * FROM pgq_check();

-- With limits: a group that has no room is passed over, the others take turns.
SELECT pgq_purge_queue('plain');
SELECT pgq_alter_queue('plain', fair => true, group_concurrency => 2);
SELECT pg_temp.fill('plain', 'a', 3000), pg_temp.fill('plain', 'b', 3), pg_temp.fill('plain', NULL, 4);
CREATE TEMP TABLE held AS SELECT group_key, job_id, lease FROM pgq_claim('plain', 20);
SELECT group_key, count(*) FROM held GROUP BY 1 ORDER BY 1;
SELECT pgq_ack(job_id, lease) FROM held WHERE group_key = 'a' LIMIT 1;
SELECT group_key, payload FROM pgq_claim('plain', 20);
SELECT count(*) FROM (SELECT pgq_ack_many(array_agg(job_id), array_agg(lease)) FROM held WHERE group_key = 'b') acked;
SELECT group_key, payload FROM pgq_claim('plain', 20);
SELECT pgq_purge_queue('plain');
SELECT * FROM pgq_check();

-- With fifo: the first of each group, in turn.
SELECT pgq_create_queue('f', fair => true, fifo => true);
SELECT pg_temp.fill('f', 'a', 3000), pg_temp.fill('f', 'b', 2), pg_temp.fill('f', NULL, 2);
SELECT array_agg(payload ORDER BY group_key, payload) FROM pg_temp.next('f', 10);
SELECT array_agg(payload ORDER BY group_key, payload) FROM pg_temp.next('f', 10);
SELECT array_agg(payload ORDER BY group_key, payload) FROM pg_temp.next('f', 10);
SELECT * FROM pgq_check();
-- A job that was deleted uses up no turn: the other group comes next.
SELECT pgq_purge_queue('q');
SELECT pg_temp.fill('q', 'a', 2), pg_temp.fill('q', 'b', 2);
SELECT group_key AS first FROM pg_temp.next('q', 1) \gset
DELETE FROM pgq_ext.job WHERE payload = '1';
SELECT group_key = :'first' AS first_again, payload FROM generate_series(1, 2) i, pg_temp.next('q', 1 + 0 * i);
-- But a group has had its turn if a claim has returned a later job of it.
SELECT pgq_create_queue('late', fair => true);
SELECT pg_temp.fill('late', 'a', 1, 7), pg_temp.fill('late', 'b', 1, 7);
SELECT group_key AS first FROM pg_temp.next('late', 1) \gset
SELECT group_key AS second FROM pg_temp.next('late', 1) \gset
SELECT pg_temp.fill('late', :'first', 2, 8);
DELETE FROM pgq_ext.job WHERE payload = '1';
SELECT payload FROM pg_temp.next('late', 2);
SELECT pg_temp.fill('late', :'first', 1, 8), pg_temp.fill('late', :'second', 1, 8);
SELECT group_key = :'second' AS second FROM pg_temp.next('late', 1);
SELECT * FROM pgq_check();
SELECT pgq_drop_queue(queue, force => true) FROM pgq_ext.queue ORDER BY queue;
