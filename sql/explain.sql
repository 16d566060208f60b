-- pgq_explain: why a job does not run, or what became of it; and dead letters by the name of their queue.
-- What another session does to a job is in test/t/135_explain.pl.
SET application_name = 'me';
SELECT pgq_create_queue('q', lease_time => '1 h', log_attempts => 'all', keep_finished => '1 h'), pgq_create_queue('bare', log_attempts => 'none');
CREATE TEMP TABLE named (name text, id bigint);
CREATE FUNCTION pg_temp.enqueue(name text, options jsonb = '{}', queue text = 'q') RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO named SELECT name, id FROM pgq_enqueue_many(queue, jsonb_build_array(jsonb_build_object('payload', name) || options)) id RETURNING id;
$$;
-- Times, processes and ids are not the same in each run.
-- While the scheduler reads jobs ahead, memory does not know how many are before one: "until" is waited for.
CREATE FUNCTION pg_temp.explain(of text, until text = NULL) RETURNS TABLE (step text, detail text) LANGUAGE plpgsql AS $$
DECLARE
    n named;
BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN until IS NULL OR EXISTS (SELECT FROM pgq_explain((SELECT id FROM named WHERE name = of)) e WHERE e.step = until);
        PERFORM pg_sleep(0.01);
    END LOOP;
    FOR step, detail IN SELECT e.step, e.detail FROM pgq_explain((SELECT id FROM named WHERE name = of)) e LOOP
        detail := regexp_replace(regexp_replace(detail, '\w{3} \w{3} \d\d [^ ]+ \d{4} \w+', 'TIME', 'g'), 'process \d+', 'process N', 'g');
        FOR n IN SELECT * FROM named LOOP
            detail := regexp_replace(detail, 'job ' || n.id || '\M', 'job ' || n.name);
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;

-- No such job.
\set VERBOSITY sqlstate
SELECT * FROM pgq_explain(NULL);
\set VERBOSITY default
SELECT step, regexp_replace(detail, '\d+$', 'N') AS detail FROM (SELECT 9007199254740991 UNION ALL SELECT 0 UNION ALL SELECT -1) i (id), pgq_explain(id);
BEGIN;
SELECT pgq_enqueue('q', '1') AS undone \gset
ROLLBACK;
SELECT * FROM pgq_explain(:undone);

-- One that waits for nothing but a claim, and those behind it.
SELECT count(pg_temp.enqueue('first', '{"priority": 1}')), count(pg_temp.enqueue('second')), count(pg_temp.enqueue('third')) FROM (VALUES (1)) one;
SELECT * FROM pg_temp.explain('first');
SELECT * FROM pg_temp.explain('second', until => 'behind');
SELECT * FROM pg_temp.explain('third', until => 'behind');
-- In work, given back, in work again, failed.
SELECT job_id, lease FROM pgq_claim('q', worker => 'w') \gset
SELECT * FROM pg_temp.explain('first');
SELECT pgq_release(:job_id, :lease);
SELECT * FROM pg_temp.explain('first');
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_fail(:job_id, :lease, 'no such mailbox', retry_in => '1 h');
SELECT * FROM pg_temp.explain('first');
-- Dead, and back; the worker whose job was cancelled learns it here.
SELECT pgq_retry(:job_id);
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_fail(:job_id, :lease, 'still none', retry => false);
SELECT * FROM pg_temp.explain('first');
SELECT pgq_retry(:job_id);
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT pgq_cancel(:job_id);
SELECT * FROM pg_temp.explain('first');
-- Done; of a queue that keeps nothing nobody knows it.
SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', worker => 'w');
SELECT * FROM pg_temp.explain('second');
SELECT pg_temp.enqueue('forgotten', queue => 'bare') > 0 AS enqueued;
SELECT pgq_ack(job_id, lease) FROM pgq_claim('bare');
SELECT * FROM pg_temp.explain('forgotten');
-- A lease that was lost.
BEGIN;
SELECT job_id FROM pgq_claim('q', worker => 'w') \gset
ROLLBACK;
DO $$ BEGIN
    FOR i IN 1 .. 6000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pgq_ext.lease_entries() WHERE state = 'lost');
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT pgq_retry(:job_id, '1 h');
SELECT * FROM pg_temp.explain('third');
SELECT pgq_purge_queue('q');

-- All that holds it back is told, in one order.
SELECT pg_temp.enqueue('later', '{"delay": "1 h"}') > 0 AS enqueued;
SELECT pgq_pause_queue('q');
SELECT * FROM pg_temp.explain('later');
SELECT pgq_resume_queue('q');
SELECT * FROM pg_temp.explain('later');
-- Groups: one in work, one behind it.
SELECT pgq_alter_queue('q', group_concurrency => 1, concurrency => 1);
SELECT count(pg_temp.enqueue('g1', '{"group_key": "g"}')), count(pg_temp.enqueue('g2', '{"group_key": "g"}')), count(pg_temp.enqueue('h1', '{"group_key": "h"}'));
SELECT job_id, lease FROM pgq_claim('q') \gset
SELECT * FROM pg_temp.explain('g1');
SELECT * FROM pg_temp.explain('g2');
SELECT * FROM pg_temp.explain('h1');
SELECT pgq_alter_queue('q', group_concurrency => 0, concurrency => 0, fifo => true);
SELECT * FROM pg_temp.explain('g2');
SELECT pgq_release(:job_id, :lease, '1 h');
SELECT * FROM pg_temp.explain('g2');
SELECT pgq_purge_queue('q');
-- Rates.
SELECT pgq_alter_queue('q', fifo => false, rate_limit => 1, group_rate_limit => 1, rate_period => '1 h');
SELECT count(pg_temp.enqueue('r1', '{"group_key": "g"}')), count(pg_temp.enqueue('r2', '{"group_key": "g"}')), count(pg_temp.enqueue('r3'));
SELECT pgq_ack(job_id, lease) FROM pgq_claim('q', 10);
SELECT * FROM pg_temp.explain('r2');
SELECT * FROM pg_temp.explain('r3');
SELECT pgq_purge_queue('q');
SELECT pgq_alter_queue('q', rate_limit => 0, group_rate_limit => 0);
-- Expired, and perhaps ended already.
SELECT pg_temp.enqueue('late', '{"expires_in": "1 us"}') > 0 AS enqueued;
SELECT count(*) FROM pg_temp.explain('late') WHERE step IN ('expired', 'finished');
-- This transaction itself.
SELECT pg_temp.enqueue('mine', '{"unique_key": "k"}') > 0 AS enqueued;
BEGIN;
SELECT pgq_enqueue('q', '1', unique_key => 'k') = id AS met FROM named WHERE name = 'mine';
SELECT * FROM pg_temp.explain('mine');
ROLLBACK;
BEGIN;
SELECT pgq_update(id, priority => 1) FROM named WHERE name = 'mine';
SELECT * FROM pg_temp.explain('mine');
ROLLBACK;
BEGIN READ ONLY;
SELECT step IN ('ready', 'behind') AS waits FROM pg_temp.explain('mine');
ROLLBACK;

-- Rights: a closed queue is told to who may inspect it, and its ids are unknown to others.
CREATE ROLE regress_pgq_asker;
CREATE ROLE regress_pgq_inspector;
CREATE ROLE regress_pgq_watcher IN ROLE pg_monitor;
GRANT EXECUTE ON FUNCTION pgq_explain TO regress_pgq_inspector, regress_pgq_watcher;
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_asker, regress_pgq_inspector;
GRANT SELECT ON pgq_ext.dead_letter TO regress_pgq_asker, regress_pgq_inspector;
SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('q', wait => '10 s');
SELECT pgq_enqueue('bare', '"open"', group_key => 'g', unique_key => 'k', headers => '{"a": 1}') AS open \gset
SELECT pgq_fail(job_id, lease, 'no', retry => false) FROM pgq_claim('bare');
SELECT id AS closed FROM named WHERE name = 'mine' \gset
SET client_min_messages = warning;
SELECT pgq_grant('q', 'regress_pgq_inspector', '{inspect}');
RESET client_min_messages;
\d pgq_ext.dead_letter
SELECT queue, reason, attempts, max_attempts, group_key, unique_key, priority, last_error, headers, payload, died_at > enqueued_at AS died_later FROM pgq_ext.dead_letter ORDER BY queue;
SET ROLE regress_pgq_asker;
SELECT queue, payload FROM pgq_ext.dead_letter ORDER BY queue;
\set VERBOSITY sqlstate
SELECT * FROM pgq_explain(:closed);
\set VERBOSITY default
SET ROLE regress_pgq_inspector;
SELECT queue, payload FROM pgq_ext.dead_letter ORDER BY queue;
SELECT step FROM pgq_explain(:closed);
RESET ROLE;
SELECT pgq_revoke('q', 'regress_pgq_inspector', '{inspect}');
SET ROLE regress_pgq_inspector;
SELECT queue, payload FROM pgq_ext.dead_letter ORDER BY queue;
SELECT step FROM pgq_explain(:closed);
SELECT step FROM pgq_explain(:open);
SET ROLE regress_pgq_watcher;
SELECT queue, headers, payload FROM pgq_ext.dead_letter ORDER BY queue;
SELECT step FROM pgq_explain(:closed);
RESET ROLE;
SELECT pgq_drop_queue('q', force => true), pgq_drop_queue('bare', force => true);
SELECT step FROM pgq_explain(:closed);
REVOKE ALL ON FUNCTION pgq_explain FROM regress_pgq_inspector, regress_pgq_watcher;
REVOKE ALL ON pgq_ext.dead_letter FROM regress_pgq_asker, regress_pgq_inspector;
REVOKE ALL ON SCHEMA pgq_ext FROM regress_pgq_asker, regress_pgq_inspector;
DROP ROLE regress_pgq_asker, regress_pgq_inspector, regress_pgq_watcher;
SELECT * FROM pgq_check();
RESET application_name;
