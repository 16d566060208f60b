-- What is enqueued is what is claimed: every parameter of pgq_enqueue and pgq_enqueue_many. Bad arguments are in errors.sql.
SELECT pgq_create_queue('q', max_attempts => 9);

-- NULL means the default.
SELECT pgq_enqueue('q', '{"n": 1}') > 0 AS bare,
       pgq_enqueue('q', '{"n": 2}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) > 0 AS nulls,
       pgq_enqueue(queue => 'q', payload => '{"n": 3}', unique_until => 'finished', on_conflict => 'keep') > 0 AS defaults;
SELECT payload, headers, group_key, priority, attempt, max_attempts, run_at = enqueued_at AS due_at_once, last_error, queue, pgq_ack(job_id, lease)
FROM pgq_claim('q', 10);

-- Payloads and headers of every kind come back as they were, TOASTed ones too.
CREATE TEMP TABLE sent (n serial, payload jsonb, headers jsonb, job_id bigint);
INSERT INTO sent (payload, headers) VALUES
    ('null', 'null'), ('0', '[]'), ('-1.5e-300', '{}'), ('""', '""'), ('"\u00fc \ud83d\ude80 \\ \" \n"', 'true'), ('[[[]]]', '{"": {"": null}}'),
    (to_jsonb(repeat('compressible', 100000)), NULL),
    ((SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 100000) i), (SELECT jsonb_object_agg(i, md5(i::text)) FROM generate_series(1, 50000) i)),
    (to_jsonb(123456789012345678901234567890.123456789), '[1, "two", {"three": 3}]');
UPDATE sent SET job_id = pgq_enqueue('q', payload, headers => headers);
SELECT n, c.payload = sent.payload AS payload, c.headers IS NOT DISTINCT FROM sent.headers AS headers, pg_column_size(c.payload) > 1000000 AS large,
       pgq_ack(job_id, lease)
FROM pgq_claim('q', 100) c FULL JOIN sent USING (job_id) ORDER BY n;

-- Times count from the call, not from the start of the transaction. A delay of months is one of calendar months.
BEGIN;
SELECT pg_sleep(0.01), clock_timestamp() AS before \gset
SELECT pgq_enqueue('q', '"now"') AS now_id, pgq_enqueue('q', '"delay"', delay => '1 h') AS delay_id, pgq_enqueue('q', '"months"', delay => '2 months 1 us') AS months_id,
       pgq_enqueue('q', '"no delay"', delay => '0') AS zero_id, pgq_enqueue('q', '"longest"', delay => '999 years') AS long_id \gset
SELECT clock_timestamp() AS after \gset
SELECT :'before' > now() AS later_than_now;
SELECT payload, enqueued_at BETWEEN :'before' AND :'after' AS enqueued_at,
       CASE job_id WHEN :delay_id THEN run_at = enqueued_at + interval '1 h'
                   WHEN :months_id THEN run_at = enqueued_at + interval '2 months 1 us'
                   WHEN :long_id THEN run_at = enqueued_at + interval '999 years'
                   ELSE run_at = enqueued_at END AS run_at
FROM pgq_ext.job ORDER BY job_id;
COMMIT;
SELECT pgq_enqueue('q', '"future"', run_at => '2999-12-31 23:59:59.999999+00') > 0, pgq_enqueue('q', '"long ago"', run_at => '4713-01-01 00:00:00+00 BC') > 0,
       pgq_enqueue('q', '"yesterday"', run_at => clock_timestamp() - interval '1 day') > 0;
SELECT payload, run_at AT TIME ZONE 'UTC' = '4713-01-01 00:00:00 BC' AS as_asked, pgq_ack(job_id, lease) FROM pgq_claim('q', 100);
SELECT payload, state, waits_for FROM pgq_ext.job_status JOIN pgq_ext.job USING (job_id) ORDER BY job_id;
SELECT pgq_purge_queue('q');

-- A delayed job comes when it is due, not before, and a waiting claim needs no other event for it.
SELECT pgq_enqueue('q', '"soon"', delay => '300 ms') > 0 AS enqueued;
SELECT payload, run_at - enqueued_at AS delay, clock_timestamp() >= run_at AS due, pgq_ack(job_id, lease) FROM pgq_claim('q', wait => '60 s');

-- max_attempts of the job goes before that of the queue.
SELECT pgq_enqueue('q', '1', max_attempts => 1) > 0, pgq_enqueue('q', '2', max_attempts => 2147483647) > 0, pgq_enqueue('q', '3', max_attempts => NULL) > 0;
SELECT payload, max_attempts, pgq_ack(job_id, lease) FROM pgq_claim('q', 10);

-- pgq_enqueue_many: one id for each element, in order; JSON null means the default; of a key given twice jsonb keeps the last.
SELECT count(*), bool_and(id > 0 AND id < 2::bigint ^ 53) AS ids, array_agg(id) = array_agg(id ORDER BY id) AS ordered
FROM pgq_enqueue_many('q', '[
    {"payload": {"n": 1}},
    {"payload": 2, "priority": null, "delay": null, "run_at": null, "headers": null, "max_attempts": null, "group_key": null,
     "unique_key": null, "unique_until": null, "unique_for": null, "on_conflict": null, "expires_in": null},
    {"payload": 3, "priority": 7},
    {"payload": 4, "priority": -2147483648},
    {"payload": 5, "priority": 2147483647, "headers": {"trace": "abc"}},
    {"payload": 6, "run_at": "2001-02-03 04:05:06.789+00"},
    {"payload": 7, "run_at": "2001-02-03T04:05:06.788Z", "max_attempts": 3},
    {"payload": 8, "delay": "00:00"},
    {"payload": 9, "delay": "1 day"},
    {"payload": "lost", "payload": null},
    {"payload": [], "priority": 7, "headers": []}]') id;
SELECT payload, headers, priority, max_attempts, CASE WHEN run_at < '2002-01-01' THEN run_at AT TIME ZONE 'UTC' END AS run_at, pgq_ack(job_id, lease)
FROM pgq_claim('q', 100);
SELECT state, count(*) FROM pgq_ext.job_status GROUP BY 1;
SELECT pgq_purge_queue('q');
SELECT * FROM pgq_enqueue_many('q', '[]');
SELECT count(*) FROM pgq_ext.job;

-- All jobs of one call are due at the same time and so go out in the order of the array.
SELECT count(*) FROM pgq_enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('payload', i) ORDER BY i) FROM generate_series(1, 5000) i));
SELECT count(*), bool_and(payload = to_jsonb(i)) AS in_order, count(DISTINCT run_at) FROM pgq_claim('q', 10000) WITH ORDINALITY AS c
    (job_id, lease, queue, payload, headers, group_key, priority, attempt, max_attempts, enqueued_at, run_at, lease_expires_at, last_error, progress, i);

-- In a prepared statement, from an INSERT, in a function, in a trigger, and as an argument of itself.
SELECT pgq_drop_queue('q', force => true), pgq_create_queue('q');
PREPARE add (text, jsonb) AS SELECT pgq_enqueue($1, $2) > 0 AS enqueued;
EXECUTE add ('q', '"prepared"');
EXECUTE add ('q', '"prepared"');
CREATE TEMP TABLE orders (id int, job_id bigint);
CREATE FUNCTION pg_temp.work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.job_id := pgq_enqueue('q', jsonb_build_object('order', NEW.id)); RETURN NEW; END $$;
CREATE TRIGGER work BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pg_temp.work();
INSERT INTO orders SELECT generate_series(1, 3);
SELECT pgq_enqueue('q', to_jsonb(pgq_enqueue('q', '"inner"') > 0)) > 0 AS enqueued;
SELECT payload, o.id, pgq_ack(job_id, lease) FROM pgq_claim('q', 10) WITH ORDINALITY LEFT JOIN orders o USING (job_id) ORDER BY ordinality;
-- a constraint that fails later in the statement takes the job with it
ALTER TABLE orders ADD CHECK (id < 5);
\set VERBOSITY terse
INSERT INTO orders SELECT generate_series(4, 5);
\set VERBOSITY default
SELECT count(*) FROM pgq_claim('q', 10);
SELECT pgq_drop_queue('q');
