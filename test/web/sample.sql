-- What the tests of the page look at, and what its pictures show: queues of a shop in all states. psql -f runs it on an empty database.
\set ON_ERROR_STOP on
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE operator LOGIN PASSWORD 'operator-pw';
CREATE ROLE viewer LOGIN PASSWORD 'viewer-pw';
CREATE ROLE monitor LOGIN;
GRANT pg_monitor TO operator, viewer, monitor;
GRANT SELECT ON ALL TABLES IN SCHEMA pgq_ext TO operator, monitor;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO operator;
GRANT EXECUTE ON FUNCTION pgq_explain(bigint) TO monitor, viewer;

SELECT pgq_create_queue('mail', max_attempts => 1, keep_finished => '1 day', log_attempts => 'all', lease_time => '1 hour');
SELECT pgq_create_queue('orders', keep_finished => '1 day', log_attempts => 'all', group_concurrency => 1, lease_time => '1 hour');
SELECT pgq_create_queue('reports', concurrency => 1, lease_time => '1 hour');
SELECT pgq_create_queue('search_index', rate_limit => 100);
SELECT pgq_create_queue('sms'), pgq_create_queue('thumbnails'), pgq_create_queue('old'), pgq_create_queue('acts');

-- jobs that have ended, with waits and runs of different lengths
SELECT count(pgq_enqueue('orders', jsonb_build_object('order', 1000 + i, 'customer', 'c' || i % 7), group_key => 'customer ' || i % 7)) FROM generate_series(1, 40) i;
SELECT count(pgq_enqueue('mail', jsonb_build_object('to', 'user' || i || '@example.org', 'template', 'welcome'))) FROM generate_series(1, 60) i;
DO $$
DECLARE j record;
BEGIN
	FOR i IN 1 .. 30 LOOP
		FOR j IN SELECT * FROM pgq_claim('mail', worker => 'mailer-' || i % 3) LOOP
			IF i % 6 = 0 THEN PERFORM pgq_fail(j.job_id, j.lease, 'no such mailbox: user' || i || '@example.org');
			ELSIF i % 5 = 0 THEN PERFORM pgq_fail(j.job_id, j.lease, 'SMTP server mail.example.org: 451 try again later');
			ELSE PERFORM pgq_ack(j.job_id, j.lease, jsonb_build_object('message', 9007199254740993, 'accepted', true)); END IF;
		END LOOP;
	END LOOP;
END $$;

-- at work, scheduled, blocked, ready
SELECT count(*) FROM pgq_claim('orders', 4, worker => 'orders-1');
SELECT count(pgq_enqueue('reports', jsonb_build_object('month', '2026-' || lpad(i::text, 2, '0')), priority => i % 3)) FROM generate_series(1, 9) i;
SELECT count(*) FROM pgq_claim('reports', 1, worker => 'report writer');
SELECT count(pgq_enqueue('sms', jsonb_build_object('to', '+49 170 ' || 1000000 + i), delay => i * interval '7 min')) FROM generate_series(1, 12) i;
SELECT pgq_enqueue('thumbnails', '{"image": "garden.png", "sizes": [64, 256]}') AS parent \gset
SELECT pgq_enqueue('mail', '{"to": "ann@example.org", "template": "gallery", "n": 12345678901234567890}', after => ARRAY[:parent], headers => '{"trace": "5f1c"}') AS child \gset
SELECT count(pgq_enqueue('old', to_jsonb(i))) FROM generate_series(1, 3) i;

-- one job for each action
SELECT pgq_enqueue('acts', '{"do": "retry"}', delay => '1 hour', unique_key => 'retry');
SELECT pgq_enqueue('acts', '{"do": "run_at"}', delay => '1 hour', unique_key => 'run_at');
SELECT pgq_enqueue('acts', '{"do": "priority"}', delay => '1 hour', unique_key => 'priority');
SELECT pgq_enqueue('acts', '{"do": "cancel"}', delay => '1 hour', unique_key => 'cancel');

-- text of others
SELECT pgq_create_queue('<img/src=x/onerror=alert(1)>'), pgq_create_queue('a/b?c#d%41'), pgq_create_queue(U&'\65E5\672C\8A9E');
SELECT pgq_enqueue('<img/src=x/onerror=alert(1)>', '{"html": "<script>alert(1)</script><img src=x onerror=alert(2)>", "big": 9007199254740993, "exact": 1.10}',
	group_key => '<b>group</b>', unique_key => 'markup');
SELECT pgq_enqueue('a/b?c#d%41', jsonb_build_object('text', repeat('x', 1000000)), unique_key => 'large');
SELECT pgq_enqueue(U&'\65E5\672C\8A9E', U&'{"text": "gr\00FC\00DFe \2603 \+01F600"}', unique_key => 'unicode');
SELECT pgq_create_queue('attacks', max_attempts => 1);
SELECT pgq_enqueue('attacks', '{}');
SELECT pgq_fail(job_id, lease, '<script>alert(3)</script> 100% of a_b\c') FROM pgq_claim('attacks');

-- the other views
SELECT pgq_schedule('nightly_report', '0 3 * * *', 'reports', '{"month": "last"}');
SELECT pgq_schedule('<i>cleanup</i>', '*/15 * * * *', 'old', timezone => 'Europe/Berlin');
SELECT pgq_pause_schedule('<i>cleanup</i>');
SELECT pgq_create_rate('sms_provider', 100, '1 min', burst => 10), pgq_create_rate('bank', 5, '1 s', burst => 2);
SELECT pgq_take('sms_provider', 3);
SELECT pgq_lock('deploy', '1 hour', owner => 'release 4.2') IS NOT NULL, pgq_lock('import', '30 min', slots => 3, owner => 'importer <1>') IS NOT NULL;
SET ROLE operator;
SELECT pgq_create_batch(on_success => '{"queue": "mail", "payload": {"to": "ann@example.org"}}') AS batch \gset
SELECT count(pgq_enqueue('orders', jsonb_build_object('import', i), batch => :batch)) FROM generate_series(1, 5) i;
SELECT pgq_create_batch() AS second;
RESET ROLE;
CREATE FUNCTION make_thumbnails(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE ''no such image: %'', job.payload; END';
SELECT pgq_set_handler('thumbnails', 'make_thumbnails(pgq_ext.claimed_job)', run_as => 'operator');
SELECT pgq_bind('order.*', 'orders');
