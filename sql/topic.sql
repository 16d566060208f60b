-- Bindings, publishes and rights on topics: what they return, bad input, read-only transactions, and roles. (What other sessions see,
-- and when: test/t/172_topics.pl. Many jobs: test/t/173_publish_many.pl. Dumps and changed tables: test/t/176_topic_life.pl.)
SELECT pgq_create_queue('one', keep_finished => '1 day'), pgq_create_queue('two'), pgq_create_queue('three');
CREATE FUNCTION published(topic text, payload jsonb = '1', must_route boolean = false) RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(queue, ' ' ORDER BY job_id), '-') FROM pgq_publish(topic, payload, must_route => must_route) $$;

SELECT published('nothing.is.bound');
SELECT pgq_bind('order.#', 'one'), pgq_bind('*.paid', 'two', '{"when_full": "skip"}'), pgq_bind('', 'three'), pgq_bind('order.*', 'one', '{}');
SELECT pattern, queue, when_full, maker = current_user AS is_mine FROM pgq_ext.binding ORDER BY pattern COLLATE "C", queue;
SELECT topic, published(topic) FROM unnest('{order,order.paid,order.eu.paid,paid,.paid,"",Order.paid,order.*}'::text[]) AS topic;
SELECT topic, queue, pattern FROM unnest('{order.paid,""}'::text[]) AS topic, pgq_route(topic) ORDER BY topic, queue, pattern COLLATE "C";
-- The header topic is the topic, whatever the caller says.
CREATE TEMP TABLE with_key AS SELECT * FROM pgq_publish('order.paid', '{"n": 1}', priority => 3, headers => '{"topic": "forged", "h": 2}', unique_key => 'k');
SELECT q.queue, j.payload, j.headers, j.priority, j.unique_key FROM with_key JOIN pgq_ext.queue q USING (queue) JOIN pgq_ext.job j USING (queue_id, job_id) ORDER BY q.queue;
-- Again with the key: the ids of the jobs that wait.
SELECT count(*) FROM pgq_publish('order.paid', '{"n": 1}', unique_key => 'k') JOIN with_key USING (queue, job_id);
SELECT string_agg(queue, ' ') FROM pgq_publish_many('[{"topic": "order.paid", "payload": 1}, {"topic": "", "payload": 2}, {"topic": "none", "payload": 3}]');
SELECT pgq_unbind('order.*', 'one'), pgq_unbind('order.*', 'one'), pgq_unbind('order.#', 'two');
SELECT published('order.paid');
-- A binding is changed by another pgq_bind.
SELECT pgq_bind('*.paid', 'two');
SELECT when_full FROM pgq_ext.binding WHERE pattern = '*.paid';

-- ---- full queues ----

SELECT pgq_purge_queue('two') > 0 AS purged, pgq_alter_queue('two', max_depth => 1);
SELECT published('order.paid');
SELECT published('order.paid');
SELECT pgq_bind('*.paid', 'two', '{"when_full": "skip"}');
SELECT published('order.paid');
SELECT published('x.paid');
SELECT published('x.paid', must_route => true);
SELECT published('none', must_route => true);

-- ---- bad input ----

CREATE FUNCTION try(calls text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    call text; code text; message text; detail text; hint text;
    before text := (SELECT jsonb_agg(b) || to_jsonb(array(SELECT job_id FROM pgq_ext.job)) FROM pgq_ext.topic_binding b);
BEGIN
    FOREACH call IN ARRAY string_to_array(btrim(calls, E'\n'), E'\n') LOOP
        RETURN NEXT call;
        BEGIN
            EXECUTE 'SELECT FROM ' || call;
            RETURN NEXT '    no error';
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            RETURN NEXT concat('    ', code, ': ', message, '. ' || nullif(detail, ''), ' (' || nullif(hint, '') || ')');
        END;
        IF before IS DISTINCT FROM (SELECT jsonb_agg(b) || to_jsonb(array(SELECT job_id FROM pgq_ext.job)) FROM pgq_ext.topic_binding b)::text THEN
            RETURN NEXT '    AND SOMETHING CHANGED';
        END IF;
    END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT try($$
pgq_bind(NULL, 'one')
pgq_bind('x', NULL)
pgq_bind('x', 'noo')
pgq_bind('log*', 'one')
pgq_bind('a.#b.c', 'one')
pgq_bind('#.#.#.#.#.#.#.#.#', 'one')
pgq_bind(repeat('x', 256), 'one')
pgq_bind('x', 'one', '[]')
pgq_bind('x', 'one', '"skip"')
pgq_bind('x', 'one', '{"when_full": "wait"}')
pgq_bind('x', 'one', '{"when_full": null}')
pgq_bind('x', 'one', '{"when_full": "skip", "more": 1}')
pgq_bind('x', 'one', '{"whenfull": "skip"}')
pgq_unbind(NULL, 'one')
pgq_unbind('x', NULL)
pgq_unbind('x', 'noo')
pgq_publish(NULL, '1')
pgq_publish('order.paid', NULL)
pgq_publish(repeat('x', 256), '1')
pgq_publish('order.paid', '1', must_route => NULL)
pgq_publish('order.paid', '1', headers => '[]')
pgq_publish('order.paid', '1', delay => '-1 s')
pgq_publish('order.paid', '1', unique_key => 'l', unique_until => 'never')
pgq_publish('order.paid', '1', batch => 9000000000000)
pgq_publish('order.paid', '1', after => '{9000000000000}')
pgq_route(NULL)
pgq_route(repeat('x', 256))
pgq_grant_topic(NULL, 'public', '{publish}')
pgq_grant_topic('x', NULL, '{publish}')
pgq_grant_topic('x', 'public', NULL)
pgq_grant_topic('x', 'public', '{}')
pgq_grant_topic('x', 'public', '{publish,NULL}')
pgq_grant_topic('x', 'public', '{enqueue}')
pgq_grant_topic('x', 'regress_pgq_nobody', '{publish}')
pgq_grant_topic('log*', 'public', '{publish}')
pgq_revoke_topic('x', 'public', '{publish}')
pgq_revoke_topic(NULL, 'public', '{publish}')
$$);
BEGIN READ ONLY;
SELECT try($$
pgq_bind('x', 'one')
pgq_unbind('x', 'one')
pgq_publish('order.paid', '1')
pgq_publish('none', '1')
pgq_publish_many('[]')
pgq_grant_topic('x', 'public', '{publish}')
pgq_revoke_topic('x', 'public', '{publish}')
pgq_route('order.paid')
$$);
COMMIT;
\pset format aligned
\pset tuples_only off

-- ---- rights ----

CREATE ROLE regress_pgq_maker;
CREATE ROLE regress_pgq_chief;
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pgq_bind, pgq_unbind, pgq_publish, pgq_publish_many, pgq_route, pgq_grant_topic, pgq_revoke_topic TO regress_pgq_maker, regress_pgq_chief;
SELECT pgq_grant('one', 'regress_pgq_chief', '{admin}');
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
SELECT pgq_bind('#', 'one');
SELECT pgq_unbind('order.#', 'one');
SELECT pgq_grant_topic('order.#', 'regress_pgq_maker', '{publish}');
SELECT queue, pattern IS NULL AS is_secret FROM pgq_route('order.paid');
RESET ROLE;
SELECT pgq_grant_topic('order.#', 'regress_pgq_chief', '{subscribe,publish}');
SELECT relkind, relowner::regrole = current_user::regrole AS is_owners, (SELECT string_agg(concat_ws(' ', grantee::regrole, privilege_type), ', ' ORDER BY privilege_type) FROM aclexplode(relacl) WHERE grantee <> relowner) AS rights
FROM pg_class, pgq_ext.topic_pattern WHERE relname = 'topic_rights_' || pattern_id;
-- No member of the extension: so it is dumped.
SELECT count(*) AS members FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid = 'pg_class'::regclass AND objid IN (SELECT oid FROM pg_class WHERE relname ~ '^topic_rights_');
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
SELECT count(*) FROM pgq_publish_many('[{"topic": "order.paid", "payload": 1}]');
SELECT published('x.paid');
SET ROLE regress_pgq_chief;
SELECT published('order.paid');
SELECT pgq_bind('order.eu.*', 'one');
SELECT pgq_bind('order.#', 'two', '{"when_full": "skip"}');
SELECT pgq_bind('#', 'one');
SELECT pgq_unbind('order.eu.*', 'one');
RESET ROLE;
SELECT pgq_grant_topic('*.*', 'public', '{publish}');
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
RESET ROLE;
SELECT pgq_revoke_topic('*.*', 'public', '{publish}');
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
RESET ROLE;
-- Another role has granted it.
GRANT USAGE ON SCHEMA pgq_ext TO regress_pgq_chief;
SELECT format('pgq_ext.topic_rights_%s', pattern_id) AS rights FROM pgq_ext.topic_pattern WHERE pattern = 'order.#' \gset
GRANT INSERT ON :rights TO regress_pgq_chief WITH GRANT OPTION;
SET ROLE regress_pgq_chief;
GRANT INSERT ON :rights TO regress_pgq_maker;
RESET ROLE;
SET ROLE regress_pgq_maker;
SELECT published('order.paid');
RESET ROLE;
\set VERBOSITY sqlstate
SELECT pgq_revoke_topic('order.#', 'regress_pgq_maker', '{publish}');
\set VERBOSITY default

SELECT pgq_drop_queue('one', force => true), pgq_drop_queue('two', force => true), pgq_drop_queue('three', force => true);
SELECT count(*) FROM pgq_ext.topic_binding;
DROP OWNED BY regress_pgq_maker, regress_pgq_chief;
DO $$ DECLARE p int; BEGIN
    FOR p IN SELECT pattern_id FROM pgq_ext.topic_pattern LOOP EXECUTE format('DROP VIEW pgq_ext.topic_rights_%s', p); END LOOP;
    DELETE FROM pgq_ext.topic_pattern;
END $$;
DROP ROLE regress_pgq_maker, regress_pgq_chief;
-- TRUNCATE drops the settings of all queues: a new queue may get the id of an earlier one.
SELECT pgq_create_queue('one'), pgq_bind('by.*', 'one'), pgq_grant('one', 'pg_monitor', '{claim}');
BEGIN;
INSERT INTO pgq_ext.queue_handler SELECT queue_id, 0, '', '', 0, false, 1, '1 min', 1, '0', 0, '', false, true, 0, 15, now() FROM pgq_ext.queue WHERE queue = 'one';
TRUNCATE pgq_ext.queue, pgq_ext.job, pgq_ext.dead_job, pgq_ext.attempt, pgq_ext.finished_job RESTART IDENTITY;
COMMIT;
SELECT (SELECT count(*) FROM pgq_ext.topic_binding) AS bindings, (SELECT count(*) FROM pgq_ext.queue_handler) AS handlers,
(SELECT count(*) FROM pg_class WHERE relnamespace = 'pgq_ext'::regnamespace AND relname ~ '^rights_') AS rights;
DROP FUNCTION published, try;
