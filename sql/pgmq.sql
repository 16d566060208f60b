-- The extension pgmq (folder pgmq): message queues on the jobs of pgq_ext.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION pgmq CASCADE;
RESET client_min_messages;
SELECT extversion FROM pg_extension WHERE extname = 'pgmq';

-- Each function and type has a comment, except overloads, which are explained with the first one.
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'pgmq'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_proc o WHERE o.pronamespace = p.pronamespace AND o.proname = p.proname AND obj_description(o.oid, 'pg_proc') IS NOT NULL);

-- Queues: the name in any case leads to the same view.
SELECT pgmq.create('Orders'), pgmq.create('Orders');
SELECT queue_name, is_partitioned, is_unlogged FROM pgmq.list_queues();
SELECT queue, max_attempts, log_attempts, notify FROM pgq_ext.queue WHERE queue LIKE 'pgmq.%';
SELECT pgmq.create(repeat('x', 48));
SELECT pgmq.create('a$b');
SELECT pgmq.send('a--b', '1');
SELECT pgmq.send('unknown', '1');

-- Ids count from 1 in each queue. All overloads of send.
SELECT pgmq.send('orders', '{"n": 1}'), pgmq.send('ORDERS', '{"n": 2}', '{"h": 2}'::jsonb), pgmq.send('orders', '{"n": 3}', 1000),
       pgmq.send('orders', '{"n": 4}', now()), pgmq.send('orders', NULL, '{"h": 5}'::jsonb, 0), pgmq.send('orders', 'null', '{"h": 6}'::jsonb, now());
SELECT pgmq.send('orders', '1', NULL::timestamptz);
SELECT * FROM pgmq.send_batch('orders', ARRAY['7', NULL, '9']::jsonb[], ARRAY['{"h": 7}', '{"h": 8}', NULL]::jsonb[]);
SELECT * FROM pgmq.send_batch('orders', '{}'::jsonb[]);
SELECT * FROM pgmq.send_batch('orders', ARRAY['1']::jsonb[], '{}'::jsonb[]);
-- All overloads of send_batch; the original checks the arrays before it looks for the queue.
SELECT pgmq.send_batch('unknown', NULL);
SELECT pgmq.send_batch('unknown', ARRAY['1']::jsonb[]);
SELECT pgmq.send_batch('orders', ARRAY['1']::jsonb[], NULL::integer);
SELECT pgmq.create('batches');
SELECT pgmq.send_batch('batches', ARRAY['1']::jsonb[]), pgmq.send_batch('batches', ARRAY['2']::jsonb[], ARRAY['{"h": 2}']::jsonb[]),
       pgmq.send_batch('batches', ARRAY['3']::jsonb[], 1000), pgmq.send_batch('batches', ARRAY['4']::jsonb[], '2100-01-01 00:00+00'::timestamptz),
       pgmq.send_batch('batches', ARRAY['5']::jsonb[], NULL::jsonb[], 1000), pgmq.send_batch('batches', ARRAY['6']::jsonb[], ARRAY['{"h": 6}']::jsonb[], '2100-01-01 00:00+00'::timestamptz);
SELECT msg_id, message, headers, vt > clock_timestamp() + interval '10 min' AS delayed, extract(year FROM vt AT TIME ZONE 'UTC') = 2100 AS late FROM pgmq.q_batches ORDER BY 1;
SELECT msg_id, vt > clock_timestamp() + interval '10 min' AS delayed FROM pgmq.set_vt('batches', 1, 1000);
SELECT msg_id, vt > clock_timestamp() + interval '10 min' AS delayed FROM pgmq.set_vt('batches', '{4,5}'::bigint[], -1000);

-- An UPDATE of a message that is being read keeps its time, and ends its lease.
SELECT msg_id, read_ct FROM pgmq.read('batches', 1000, 1);
SELECT state FROM pgq_ext.lease_of((SELECT slot FROM pgmq.queue_slot WHERE view = 'pgmq.q_batches'::regclass) * 1099511627776 + 2);
UPDATE pgmq.q_batches SET vt = vt WHERE msg_id = 2 RETURNING msg_id;
SELECT state FROM pgq_ext.lease_of((SELECT slot FROM pgmq.queue_slot WHERE view = 'pgmq.q_batches'::regclass) * 1099511627776 + 2);
UPDATE pgmq.q_batches SET message = '"new"' WHERE msg_id = 2 RETURNING msg_id;
SELECT state FROM pgq_ext.lease_of((SELECT slot FROM pgmq.queue_slot WHERE view = 'pgmq.q_batches'::regclass) * 1099511627776 + 2);
SELECT msg_id, read_ct, message, vt > clock_timestamp() + interval '10 min' AS delayed FROM pgmq.q_batches WHERE msg_id = 2;

-- DROP VIEW leaves the messages, and create() goes on with them.
DROP VIEW pgmq.q_batches;
SELECT pgmq.send('batches', '1');
SET client_min_messages = warning;
SELECT pgmq.create('batches');
RESET client_min_messages;
SELECT array_agg(msg_id ORDER BY msg_id) FROM pgmq.q_batches;
SELECT pgmq.send('batches', '7');
SELECT pgmq.purge_queue('batches');
DROP VIEW pgmq.q_batches;
SET client_min_messages = warning;
SELECT pgmq.create('batches');
RESET client_min_messages;
SELECT pgmq.send('batches', '8');
SELECT pgmq.drop_queue('batches');
SELECT msg_id, read_ct, last_read_at IS NULL AS unread, vt > clock_timestamp() AS delayed, message, message IS NULL AS no_message, headers
FROM pgmq.q_orders ORDER BY msg_id;
SELECT job_id % 1099511627776 AS msg_id, payload FROM pgq_ext.job WHERE job_id > 1099511627776 ORDER BY 1 LIMIT 2;

-- Reads: in the order of ids; the view shows what is being read.
SELECT msg_id, read_ct, last_read_at IS NOT NULL AS read, vt - last_read_at AS time, message, headers FROM pgmq.read('orders', 30, 2);
SELECT msg_id, read_ct, vt - last_read_at AS time FROM pgmq.q_orders WHERE read_ct > 0 ORDER BY 1;
SELECT msg_id, read_ct, message IS NULL AS no_message FROM pgmq.read('orders', 0, 2, '{}') ORDER BY 1;
SELECT msg_id, read_ct FROM pgmq.read('orders', 10, 5, '{"n": 4}');
SELECT msg_id FROM pgmq.read('orders', 30, 0);
SELECT msg_id FROM pgmq.read('orders', 30, -1);
SELECT msg_id FROM pgmq.read('orders', NULL, 1);
-- More than the longest time of a lease.
SELECT msg_id, round(extract(epoch FROM vt - last_read_at)) AS time FROM pgmq.read('orders', 1000000, 1);

-- A rollback undoes a read, and counts none.
BEGIN;
SELECT msg_id, read_ct FROM pgmq.read('orders', 30, 1);
ROLLBACK;
SELECT msg_id, read_ct, last_read_at IS NULL AS unread, vt <= clock_timestamp() AS visible FROM pgmq.q_orders WHERE msg_id = 6;
BEGIN;
SAVEPOINT s;
SELECT msg_id, read_ct FROM pgmq.read('orders', 30, 1);
ROLLBACK TO s;
SELECT msg_id, read_ct FROM pgmq.read('orders', 30, 1);
COMMIT;

-- set_vt: of messages that wait, and that are being read. A rollback undoes it.
BEGIN;
SELECT msg_id, read_ct, vt FROM pgmq.set_vt('orders', 1, '2100-01-01 00:00+00'::timestamptz);
SELECT msg_id, vt FROM pgmq.q_orders WHERE msg_id = 1;
ROLLBACK;
SELECT msg_id, vt - last_read_at AS time FROM pgmq.q_orders WHERE msg_id = 1;
SELECT msg_id, read_ct, vt FROM pgmq.set_vt('orders', '{1,3,77}'::bigint[], '2100-01-01 00:00+00'::timestamptz);
SELECT msg_id, vt FROM pgmq.q_orders WHERE msg_id IN (1, 3) ORDER BY 1;
SELECT msg_id, vt <= clock_timestamp() AS visible FROM pgmq.set_vt('orders', '{3,1}'::bigint[], 0);
SELECT msg_id, read_ct FROM pgmq.read('orders', 30, 2);

-- Messages of this transaction. pop and delete return a message as it was.
BEGIN;
SELECT pgmq.send('orders', '{"own": true}');
SELECT msg_id, read_ct FROM pgmq.read('orders', 30, 10);
ROLLBACK;
BEGIN;
SELECT pgmq.send('orders', '{"own": true}');
SELECT msg_id, read_ct, message FROM pgmq.pop('orders', 10);
COMMIT;
SELECT * FROM pgmq.pop('orders', 0);

SELECT pgmq.delete('orders', 1), pgmq.delete('orders', 1), pgmq.delete('orders', NULL::bigint), pgmq.delete('orders', -5), pgmq.delete('orders', 9007199254740991);
SELECT pgmq.delete('orders', '{2,1,5}'::bigint[]);
SELECT pgmq.archive('orders', 3), pgmq.archive('orders', 3);
SELECT pgmq.archive('orders', '{77,4}'::bigint[]);
SELECT msg_id, read_ct, message, archived_at IS NOT NULL AS archived FROM pgmq.a_orders ORDER BY 1;
BEGIN;
SELECT pgmq.archive('orders', 6);
ROLLBACK;
SELECT count(*) FROM pgmq.q_orders;
SELECT acked > 0 AS acked, cancelled, handed_out - acked - failed - released - lost - uncounted AS in_work FROM pgq_ext.queue_stats WHERE queue = 'pgmq.orders';

-- The view as a table.
INSERT INTO pgmq.q_orders (vt, message, headers) VALUES (now(), '{"sql": 1}', '{"h": 1}') RETURNING msg_id > 10 AS next, read_ct, message, headers;
INSERT INTO pgmq.q_orders (msg_id, vt) VALUES (1, now());
INSERT INTO pgmq.q_orders (message) VALUES ('1');
UPDATE pgmq.q_orders SET message = '{"sql": 2}', headers = NULL, read_ct = 5 WHERE message = '{"sql": 1}' RETURNING read_ct, message, headers;
SELECT read_ct, message FROM pgmq.read('orders', 30, 1, '{"sql": 2}');
DELETE FROM pgmq.q_orders WHERE message = '{"sql": 2}' RETURNING message;
SELECT queue_name, queue_length > 0 AS some, queue_visible_length <= queue_length AS visible, total_messages > 10 AS many, default_partition_length FROM pgmq.metrics('orders');
SELECT pgmq.purge_queue('orders') > 0 AS purged;
SELECT count(*) FROM pgmq.q_orders;

-- Arguments that mean nothing: as with rows of a table.
\set VERBOSITY sqlstate
SELECT pgmq.send('orders', '1', 'infinity'::timestamptz) > 0 AS sent, pgmq.send('orders', '1', '-infinity'::timestamptz) > 0 AS sent, pgmq.send('orders', '1', -2147483648) > 0 AS sent, pgmq.send('orders', '1', 2147483647) > 0 AS sent;
SELECT count(*) FROM pgmq.q_orders WHERE NOT isfinite(vt);
SELECT pgmq.send(NULL, '1');
SELECT pgmq.send('orders', '1', NULL::integer);
SELECT count(*) FROM pgmq.read('orders', NULL, 1);
SELECT count(*) FROM pgmq.read('orders', 0, NULL) HAVING count(*) > 0;
SELECT count(*) FROM pgmq.read('orders', -2147483648, 1) a, pgmq.read('orders', 0, 1, NULL) b;
SELECT count(*) FROM pgmq.read(NULL, 1, 1);
SELECT count(*) FROM pgmq.read_with_poll('orders', 0, 1, NULL);
SELECT count(*) FROM pgmq.read_with_poll('orders', 0, 1, -1);
SELECT count(*) FROM pgmq.read_grouped_head('orders', 0, -1);
SELECT count(*) FROM pgmq.pop('orders', -1);
SELECT pgmq.delete('orders', ARRAY[NULL, -1]::bigint[]);
SELECT pgmq.delete('orders', NULL::bigint[]);
SELECT pgmq.delete('nope', 1);
SELECT pgmq.archive('orders', ARRAY[NULL]::bigint[]);
SELECT count(*) FROM pgmq.set_vt('orders', -1, NULL::integer);
SELECT count(*) FROM pgmq.q_orders m, pgmq.set_vt('orders', m.msg_id, NULL::integer);
SELECT (pgmq.metrics('nope')).queue_length;
SELECT pgmq.purge_queue('nope');
SELECT pgmq.drop_queue(NULL);
SELECT pgmq.format_table_name(NULL, 'q') IS NULL AS none;
SELECT pgmq.disable_notify_insert('nope');
INSERT INTO pgmq.q_orders (vt, read_ct) VALUES (now(), -1);
UPDATE pgmq.q_orders SET read_ct = -1;
UPDATE pgmq.q_orders SET vt = NULL;
\set VERBOSITY default
SELECT pgmq.purge_queue('orders') > 0 AS purged;

-- Groups.
SELECT pgmq.create('groups');
SELECT count(*) FROM (VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'b'), (5, 'c'), (6, 'a')) m(n, g), pgmq.send('groups', to_jsonb(n), jsonb_build_object('x-pgmq-group', g));
BEGIN; SELECT array_agg(msg_id) FROM pgmq.read_grouped('groups', 30, 4); ROLLBACK;
BEGIN; SELECT array_agg(msg_id) FROM pgmq.read_grouped_rr('groups', 30, 5); ROLLBACK;
BEGIN; SELECT array_agg(msg_id) FROM pgmq.read_grouped_head('groups', 30, 2); ROLLBACK;
SELECT array_agg(msg_id) FROM pgmq.read_grouped_head('groups', 30, 1);
SELECT array_agg(msg_id) FROM pgmq.read_grouped('groups', 30, 10);
SELECT pgmq.delete('groups', 1);
SELECT array_agg(msg_id) FROM pgmq.read_grouped_with_poll('groups', 30, 10);
SELECT msg_id FROM pgmq.read_grouped_rr_with_poll('groups', 30, 10, 0);
SELECT pgmq.drop_queue('groups');

-- Topics.
SELECT pgmq.bind_topic('orders.#', 'Orders'), pgmq.bind_topic('orders.*', 'Orders');
SELECT pgmq.bind_topic('orders.#', 'unknown');
SELECT pgmq.bind_topic('a.**', 'Orders');
SELECT pattern, queue_name, compiled_regex FROM pgmq.test_routing('orders.new');
SELECT pgmq.send_topic('orders.new', '1'), pgmq.send_topic('other', '1'), pgmq.send_topic('orders.a.b', '1', '{"h": 1}', 0);
SELECT queue_name FROM pgmq.send_batch_topic('orders.new', ARRAY['1', '2']::jsonb[]);
SELECT pgmq.send_topic('orders..new', '1');
SELECT pgmq.unbind_topic('orders.#', 'Orders'), pgmq.unbind_topic('orders.#', 'Orders');
SELECT pattern, queue_name FROM pgmq.list_topic_bindings('Orders');

-- Notifications: the throttle says when the last one was sent.
SELECT pgmq.enable_notify_insert('Orders', 0);
SELECT pgmq.send('orders', '1') IS NOT NULL AS sent;
SELECT queue_name, throttle_interval_ms, last_notified_at > to_timestamp(0) AS notified FROM pgmq.list_notify_insert_throttles();
SELECT pgmq.update_notify_insert('Orders', 5), pgmq.disable_notify_insert('Orders');
SELECT count(*) FROM pgmq.list_notify_insert_throttles();
-- A sender looks for a notification of its own queue only, and only after the throttle.
SELECT pgmq.create('quiet'), pgmq.create('LOUD'), pgmq.enable_notify_insert('quiet', 1000000), pgmq.enable_notify_insert('LOUD', 0);
SELECT pgmq.send('quiet', '1');
SELECT last_notified_at AS quiet_at FROM pgmq.list_notify_insert_throttles() WHERE queue_name = 'quiet' \gset
SELECT last_notified_at AS loud_at FROM pgmq.list_notify_insert_throttles() WHERE queue_name = 'LOUD' \gset
SELECT pgmq.send('quiet', '2'), pgmq.send('loud', '1');
SELECT queue_name, last_notified_at > to_timestamp(0) AS notified, last_notified_at > CASE queue_name WHEN 'quiet' THEN :'quiet_at' ELSE :'loud_at' END::timestamptz AS again
FROM pgmq.list_notify_insert_throttles();
SELECT pgmq.drop_queue('quiet'), pgmq.drop_queue('LOUD');
-- The name of a channel has at most 63 bytes.
SET client_min_messages = warning;
SELECT pgmq.create('x' || repeat(U&'\20ac', 16)), pgmq.create('xy' || repeat(U&'\20ac', 16));
RESET client_min_messages;
SELECT pgmq.enable_notify_insert('x' || repeat(U&'\20ac', 16));
\set VERBOSITY sqlstate
SELECT pgmq.enable_notify_insert('xy' || repeat(U&'\20ac', 16));
\set VERBOSITY default
SELECT pgmq.send('x' || repeat(U&'\20ac', 16), '1'), pgmq.send('xy' || repeat(U&'\20ac', 16), '1');
SELECT pgmq.drop_queue('x' || repeat(U&'\20ac', 16)), pgmq.drop_queue('xy' || repeat(U&'\20ac', 16));

-- Rights are those on the view and on the archive.
CREATE ROLE regress_pgmq;
GRANT USAGE ON SCHEMA pgmq TO regress_pgmq;
SET ROLE regress_pgmq;
SELECT pgmq.send('orders', '1');
SELECT * FROM pgmq.read('orders', 1, 1);
SELECT pgmq._lease(job_id) FROM generate_series(1, 2) job_id;
SELECT pgmq._adopt('pgmq.q_orders', 1, 0, now(), NULL, now(), NULL, NULL);
RESET ROLE;
GRANT INSERT, SELECT ON pgmq.q_orders TO regress_pgmq;
SET ROLE regress_pgmq;
SELECT pgmq.send('orders', '{"by": "role"}') IS NOT NULL AS sent;
SELECT message FROM pgmq.q_orders WHERE message = '{"by": "role"}';
INSERT INTO pgmq.q_orders (vt, message) VALUES (now(), '{"by": "role"}') RETURNING message;
SELECT * FROM pgmq.read('orders', 1, 1);
SELECT pgmq.delete('orders', 1);
DELETE FROM pgmq.q_orders;
RESET ROLE;
GRANT UPDATE, DELETE ON pgmq.q_orders TO regress_pgmq;
SET ROLE regress_pgmq;
SELECT message FROM pgmq.read('orders', 30, 1, '{"by": "role"}');
SELECT message FROM pgmq.read('orders', 30, 1);
SELECT pgmq.archive('orders', max(msg_id)) FROM pgmq.q_orders;
SELECT pgmq.delete('orders', max(msg_id)) FROM pgmq.q_orders;
RESET ROLE;
DROP OWNED BY regress_pgmq;
DROP ROLE regress_pgmq;

-- The function of the trigger works on views of queues only.
CREATE TEMP TABLE t (msg_id bigint);
CREATE TEMP VIEW v AS SELECT * FROM t;
CREATE TRIGGER v INSTEAD OF INSERT ON pg_temp.v FOR EACH ROW EXECUTE FUNCTION pgmq._row();
INSERT INTO pg_temp.v VALUES (1);
CREATE TRIGGER t AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION pgmq._row();
INSERT INTO t VALUES (1);
DROP TABLE t CASCADE;

-- Adopt a table as the original leaves it.
CREATE TABLE pgmq.q_old (msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, read_ct int DEFAULT 0 NOT NULL, enqueued_at timestamptz DEFAULT now() NOT NULL,
    last_read_at timestamptz, vt timestamptz NOT NULL, message jsonb, headers jsonb);
GRANT SELECT ON pgmq.q_old TO PUBLIC;
INSERT INTO pgmq.q_old (vt, message, headers, read_ct, last_read_at) VALUES ('2026-01-01', '1', '{"h": 1}', 0, NULL), ('2100-01-01', '2', NULL, 3, '2026-02-01'), ('2026-01-01', NULL, NULL, 1, '2026-02-01');
DELETE FROM pgmq.q_old WHERE message = '1';
SELECT * FROM pgmq.adopt();
SELECT msg_id, read_ct, last_read_at = '2026-02-01' AS same_read, vt > now() AS delayed, message, headers FROM pgmq.q_old ORDER BY 1;
SELECT pgmq.send('old', '4'), has_table_privilege('pg_read_all_stats', 'pgmq.q_old', 'SELECT') AS readable, to_regclass('pgmq.old_old') IS NULL AS dropped;
SELECT msg_id, read_ct FROM pgmq.read('old', 30, 5);

-- DROP EXTENSION leaves the messages; a new extension goes on with them.
SET client_min_messages = warning;
DROP EXTENSION pgmq CASCADE;
CREATE EXTENSION pgmq;
RESET client_min_messages;
SELECT pgmq.create('old');
SELECT msg_id, message FROM pgmq.q_old ORDER BY 1;
SELECT pgmq.send('old', '5');
SELECT pgmq.drop_queue('old'), pgmq.drop_queue('old');
SET client_min_messages = error;
SELECT pgmq.create('Orders');
SELECT pgmq.drop_queue('Orders');
SELECT pgq_check();
DROP EXTENSION pgmq CASCADE;
DROP SCHEMA pgmq CASCADE;
