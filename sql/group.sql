-- The group of a job: how it gets one, what becomes of it, and that the indexes know. Bad arguments are in errors.sql.
CREATE EXTENSION amcheck;
SELECT pgq_create_queue('q', max_attempts => 2, keep_finished => '1 day'), pgq_create_queue('r');
CREATE TEMP VIEW jobs AS
SELECT queue, payload, left(j.group_key, 8) AS group_key, octet_length(j.group_key) AS length, group_id IS NOT DISTINCT FROM (hashtextextended(j.group_key, 0) | 1) AS hashed
FROM pgq_ext.job j JOIN pgq_ext.queue USING (queue_id) ORDER BY job_id;

-- One, many, with a unique key and without.
SELECT pgq_enqueue('q', '1', 1, group_key => 'g') > 0, pgq_enqueue('q', '2') > 0, pgq_enqueue('q', '3', group_key => repeat('g', 255)) > 0,
       pgq_enqueue('q', '4', group_key => repeat('ü', 127)) > 0, pgq_enqueue('q', '5', group_key => ' ', unique_key => 'u') > 0;
SELECT count(*) FROM pgq_enqueue_many('q', '[{"payload": 6, "group_key": "g"}, {"payload": 7}, {"payload": 8, "group_key": null},
    {"payload": 9, "group_key": "a\nb", "unique_key": "v"}, {"payload": 10, "group_key": "g", "headers": {}, "expires_in": "1 day", "delay": "1 h"}]');
-- more than fit into a page
SELECT count(*) FROM pgq_enqueue_many('r', (SELECT jsonb_agg(jsonb_build_object('payload', i, 'group_key', CASE WHEN i % 3 > 0 THEN i % 3 END::text)) FROM generate_series(1, 300) i));
TABLE jobs LIMIT 12;
SELECT group_key, count(*), count(DISTINCT group_id) AS ids FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'r' GROUP BY 1 ORDER BY 1;
SELECT pgq_purge_queue('r');

-- The worker is told, and so is everybody.
SELECT job_id, lease, payload, group_key FROM pgq_claim('q') \gset
SELECT :payload AS payload, :'group_key' AS group_key, l.group_key AS lease, s.group_key AS status
FROM pgq_ext.lease l JOIN pgq_ext.job_status s USING (job_id) WHERE job_id = :job_id;

-- A retry, another one, death and life: it is the same group.
SELECT pgq_release(:job_id, :lease);
SELECT payload, group_key, pgq_fail(job_id, lease, retry_in => '0') FROM pgq_claim('q', wait => '1 min');
SELECT payload, group_key, attempt, pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q');
SELECT payload, group_key FROM pgq_ext.dead_job;
SELECT pgq_redrive('q');
SELECT group_key, attempt, pgq_fail(job_id, lease, retry => false) FROM pgq_claim('q');
SELECT pgq_retry(:job_id);
SELECT * FROM jobs WHERE payload = '1';
SELECT payload, group_key, pgq_ack(job_id, lease) FROM pgq_claim('q', 2);
SELECT payload, group_key, outcome FROM pgq_ext.finished_job ORDER BY payload;

-- A change of it. NULL leaves it as it is; nothing takes it away but SQL.
SELECT job_id AS j FROM pgq_ext.job WHERE payload = '3' \gset
SELECT pgq_update(:j, group_key => 'h');
SELECT * FROM jobs WHERE payload = '3';
SELECT pgq_update(:j, group_key => NULL, payload => '3.1');
SELECT * FROM jobs WHERE payload = '3.1';
SELECT pgq_update(:j, queue => 'r', group_key => repeat('ß', 127));
SELECT * FROM jobs WHERE payload = '3.1';
BEGIN;
SELECT pgq_update(:j, group_key => 'i');
SAVEPOINT s;
SELECT pgq_update(:j, group_key => 'j');
ROLLBACK TO s;
COMMIT;
SELECT * FROM jobs WHERE payload = '3.1';
SELECT job_id, group_key, lease FROM pgq_claim('r') \gset
SELECT :'group_key' AS group_key, pgq_update(:j, group_key => 'k') AS in_work;
SELECT pgq_release(:job_id, :lease);
-- the hint has the old group, the row the new one
UPDATE pgq_ext.job SET group_key = 'l' WHERE job_id = :j;
SELECT job_id, group_key, lease FROM pgq_claim('r') \gset
SELECT :'group_key' AS group_key, pgq_release(:job_id, :lease);
UPDATE pgq_ext.job SET group_key = NULL WHERE job_id = :j;
SELECT * FROM jobs WHERE payload = '3.1';
SELECT group_key IS NULL AS none, pgq_ack(job_id, lease) FROM pgq_claim('r');
-- that of a job which no one has: it gets one
SELECT job_id AS j FROM pgq_ext.job WHERE payload = '7' \gset
SELECT pgq_update(:j, group_key => 'g');
SELECT * FROM jobs WHERE payload = '7';

-- Who meets a job by its unique key: keep and append leave the group as it is, the others set it.
SELECT job_id AS u FROM pgq_ext.job WHERE unique_key = 'u' \gset
SELECT pgq_enqueue('q', '11', group_key => 'k', unique_key => 'u') = :u AS keep;
SELECT * FROM jobs WHERE payload = '5';
SELECT pgq_enqueue('q', '["r"]', group_key => 'r', unique_key => 'u', on_conflict => 'replace') = :u AS replace;
SELECT * FROM jobs WHERE payload = '["r"]';
SELECT pgq_enqueue('q', '["a"]', group_key => 'a', unique_key => 'u', on_conflict => 'append') = :u AS append;
SELECT * FROM jobs WHERE payload = '["r", "a"]';
SELECT pgq_enqueue('q', '["p"]', group_key => 'p', unique_key => 'u', on_conflict => 'preserve_run_at') = :u AS preserve;
SELECT * FROM jobs WHERE payload = '["p"]';
SELECT pgq_enqueue('q', '["n"]', unique_key => 'u', on_conflict => 'replace') = :u AS replace;
SELECT * FROM jobs WHERE payload = '["n"]';

-- By hand.
\set VERBOSITY terse
SELECT queue_id AS r FROM pgq_ext.queue WHERE queue = 'r' \gset
INSERT INTO pgq_ext.job (queue_id, payload, group_key) VALUES (:r, '12', 'g'), (:r, '13', repeat('long', 1000)), (:r, '14', NULL);
CREATE TEMP TABLE taken_out AS SELECT * FROM pgq_ext.job WHERE queue_id = :r;
DELETE FROM pgq_ext.job WHERE queue_id = :r;
INSERT INTO pgq_ext.job SELECT * FROM taken_out;
ALTER TABLE taken_out DROP group_id, DROP unique_hash;
INSERT INTO pgq_ext.job (job_id, queue_id, payload, group_key) SELECT job_id, queue_id, payload, group_key FROM taken_out;
INSERT INTO pgq_ext.job (queue_id, payload, group_id) VALUES (:r, '15', 1);
UPDATE pgq_ext.job SET group_id = 1;
SELECT * FROM jobs WHERE queue = 'r';
SELECT payload, length(group_key), pgq_ack(job_id, lease) FROM pgq_claim('r', 10);

-- Whatever has written a row has made its entries.
SELECT count(*), count(bt_index_check(c.oid, true)) FROM pg_class c WHERE relname ~ '^job_\d_(by_group|fifo)$';
SELECT pg_get_indexdef(c.oid) FROM pg_class c WHERE relname ~ '^job_0_(by_group|fifo)$' ORDER BY relname;
SELECT count(*) > 3 AS rows, bool_and(hashed) AS hashed FROM jobs;
-- A rate for each group: one that has had its share is passed over, and the view says until when; jobs without a group have none.
SELECT pgq_create_queue('rated', group_rate_limit => 1, rate_period => '1 hour');
SELECT count(pgq_enqueue('rated', to_jsonb(i), group_key => g)) FROM unnest('{x,x,y,NULL,NULL}'::text[]) WITH ORDINALITY AS u(g, i);
SELECT payload, group_key FROM pgq_claim('rated', 10);
SELECT payload, regexp_replace(waits_for, 'until .+', 'until ...') AS waits_for FROM pgq_ext.job_status JOIN pgq_ext.job USING (job_id) WHERE queue = 'rated' AND state = 'ready';
SELECT count(*), bool_and(next_start BETWEEN clock_timestamp() + interval '50 min' AND clock_timestamp() + interval '70 min') AS in_an_hour
FROM pgq_ext.group_entries() JOIN pgq_ext.queue USING (queue_id) WHERE queue = 'rated';
SELECT pgq_alter_queue('rated', group_rate_limit => 2);
SELECT payload, group_key FROM pgq_claim('rated', 10);
SELECT pgq_drop_queue('rated', force => true);

SELECT * FROM pgq_check();
SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('r', force => true);
DROP EXTENSION amcheck;
