-- Bad input of every function: an ERROR with its SQLSTATE, and a hint where there is a way out; nothing is changed, and the session goes on.
CREATE SCHEMA errors;
SET search_path = errors, public;

-- All that a refused call could have changed.
CREATE FUNCTION state() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN
RETURN jsonb_build_array(
    (SELECT jsonb_agg(q ORDER BY q.queue) FROM pgq_ext.queue q),
    (SELECT jsonb_agg(j ORDER BY j.job_id) FROM pgq_ext.job j),
    (SELECT jsonb_agg(d ORDER BY d.job_id) FROM pgq_ext.dead_job d),
    (SELECT jsonb_agg(l ORDER BY l.job_id) FROM pgq_ext.lease l),
    (SELECT jsonb_agg(h ORDER BY h.name) FROM pgq_ext.held_lock h),
    (SELECT jsonb_agg(r ORDER BY r.name) FROM pgq_ext.run r),
    (SELECT jsonb_agg(r ORDER BY r.name) FROM pgq_ext.rate_limit r),
    (SELECT jsonb_agg(t ORDER BY t.schedule) FROM pgq_ext.timetable t)) #>> '{}';
END $$;

-- Tries each line of calls, and tells what came of it. A line that does not fail shows up as "no error".
CREATE FUNCTION try(calls text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    call text;
    before text := state();
    code text; message text; detail text; hint text; context text; element text;
BEGIN
    FOREACH call IN ARRAY string_to_array(btrim(calls, E'\n'), E'\n') LOOP
        RETURN NEXT call;
        BEGIN
            EXECUTE 'SELECT FROM ' || call;
            RETURN NEXT '    no error';
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
            element := substring(concat_ws(' ', message, detail, context) FROM 'element \d+');
            message := regexp_replace(message, 'job \d+', 'job N');
            RETURN NEXT concat('    ', code, ': ', message, '. ' || nullif(detail, ''), ' (' || nullif(hint, '') || ')',
                               CASE WHEN message !~ 'element' AND detail !~ 'element' THEN ' at ' || element END);
        END;
        IF state() IS DISTINCT FROM before THEN
            RETURN NEXT '    AND SOMETHING CHANGED';
            before := state();
        END IF;
    END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on

SELECT pgq_create_queue('err', lease_time => '1 day');
SELECT pgq_enqueue('err', '"waits"') > 0, pgq_enqueue('err', '"later"', delay => '1 day') > 0, pgq_enqueue('err', '"in work"', priority => 1) > 0;
CREATE TABLE mine AS SELECT * FROM pgq_claim('err');
CREATE FUNCTION job() RETURNS bigint LANGUAGE sql AS 'SELECT job_id FROM errors.mine';
CREATE FUNCTION lease() RETURNS bigint LANGUAGE sql AS 'SELECT lease FROM errors.mine';

SELECT try($$
pgq_create_queue(NULL)
pgq_create_queue('')
pgq_create_queue(repeat('n', 60))
pgq_create_queue(repeat(U&'\00fc', 30))
pgq_create_queue(repeat('n', 1000000))
pgq_create_queue('two words')
pgq_create_queue(' lead')
pgq_create_queue('trail ')
pgq_create_queue(E'tab\there')
pgq_create_queue(E'line\nbreak')
pgq_create_queue(E'bell\x07')
pgq_create_queue(E'delete\x7f')
pgq_create_queue(U&'no-break\00a0space')
pgq_create_queue(U&'em\2003space')
pgq_create_queue(U&'ideographic\3000space')
pgq_create_queue(U&'next\0085line')
pgq_create_queue(U&'zero\200Bwidth')
pgq_create_queue(U&'\202Edesrever')
pgq_create_queue(U&'mark\FEFF')
pgq_create_queue(U&'soft\00ADhyphen')
pgq_create_queue(U&'variation\FE0F')
pgq_create_queue(U&'tag\+0E0041')
pgq_create_queue('err')
pgq_create_queue('err', if_not_exists => NULL)
pgq_create_queue('x', lease_time => '0')
pgq_create_queue('x', lease_time => '0.999999 s')
pgq_create_queue('x', lease_time => '7 days 0.000001 s')
pgq_create_queue('x', lease_time => '-1 h')
pgq_create_queue('x', lease_time => '-178000000 years')
pgq_create_queue('x', lease_time => '178000000 years -2147483648 days 1 h')
pgq_create_queue('x', max_runtime => '-1 us')
pgq_create_queue('x', max_runtime => '178000000 years')
pgq_create_queue('x', max_runtime => '1 us')
pgq_create_queue('x', max_runtime => '0.999999 s')
pgq_create_queue('x', max_attempts => 0)
pgq_create_queue('x', max_attempts => -2147483648)
pgq_create_queue('x', backoff_base => '-1 s')
pgq_create_queue('x', backoff_base => '1 day -25 h')
pgq_create_queue('x', backoff_max => '-1 s')
pgq_create_queue('x', backoff_max => '1001 years')
pgq_create_queue('x', backoff_jitter => -0.1)
pgq_create_queue('x', backoff_jitter => 1.1)
pgq_create_queue('x', backoff_jitter => 'NaN')
pgq_create_queue('x', backoff_jitter => '-Infinity')
pgq_create_queue('x', concurrency => -1)
pgq_create_queue('x', rate_limit => -1)
pgq_create_queue('x', group_rate_limit => -1)
pgq_create_queue('x', fair => true, group_rate_limit => 1)
pgq_create_queue('x', rate_period => '0')
pgq_create_queue('x', rate_period => '999999 us')
pgq_create_queue('x', rate_period => '-1 s')
pgq_create_queue('x', rate_period => '1001 years')
pgq_create_queue('x', group_concurrency => -1)
pgq_create_queue('x', group_concurrency => 2, fifo => true)
pgq_create_queue('err', group_concurrency => 2, fifo => true, if_not_exists => true)
pgq_create_queue('x', max_depth => -1)
pgq_create_queue('x', log_attempts => 'sometimes')
pgq_create_queue('x', log_attempts => '')
pgq_create_queue('x', log_attempts => 'All')
pgq_create_queue('x', keep_attempts => '-1 s')
pgq_create_queue('x', keep_attempts => '1001 years')
pgq_create_queue('x', keep_finished => '-1 day')
pgq_create_queue('x', keep_finished => '1001 years')
pgq_create_queue('x', keep_dead => '-1 day')
pgq_create_queue('x', keep_dead => '1001 years')
pgq_create_queue('x', keep_dead => '366000 days')
pgq_create_queue('x', keep_dead => '1000 years 1 day')
$$);

-- Locks, runs, rates.
SET application_name = 'errors';
SELECT pgq_lock('held', ttl => '1 day') IS NOT NULL, pgq_create_rate('rate', 5, '1 s', burst => 2);
SELECT try($$
pgq_lock(NULL)
pgq_lock('')
pgq_lock(repeat('n', 60))
pgq_lock('two words')
pgq_lock(E'bell\x07')
pgq_lock('x', ttl => '0')
pgq_lock('x', ttl => '0.999999 s')
pgq_lock('x', ttl => '-1 day')
pgq_lock('x', ttl => '1001 years')
pgq_lock('x', ttl => '178000000 years')
pgq_lock('x', slots => 0)
pgq_lock('x', slots => -1)
pgq_lock('x', slots => 1025)
pgq_lock('x', wait => '-1 s')
pgq_lock('x', wait => '61 s')
pgq_extend_lock(NULL, 1)
pgq_extend_lock('held', NULL)
pgq_extend_lock('held', 1, '0')
pgq_extend_lock('held', 1, '-1 s')
pgq_unlock(NULL, 1)
pgq_unlock('held', NULL)
pgq_assert_lock(NULL, 1)
pgq_assert_lock('held', NULL)
pgq_assert_lock('held', 0)
pgq_run_once(NULL)
pgq_run_once('')
pgq_run_once('x', '0')
pgq_run_once('x', '-1 day')
pgq_run_once('x', '1 month')
pgq_run_once('x', '1 year')
pgq_run_once('x', '0.5 s')
pgq_run_once('x', ttl => '0')
pgq_run_once('x', wait => '61 s')
pgq_run_done(NULL, 1)
pgq_run_done('held', NULL)
pgq_run_done('held', 7)
pgq_create_rate(NULL, 1, '1 s')
pgq_create_rate('a rate', 1, '1 s')
pgq_create_rate('x', NULL, '1 s')
pgq_create_rate('x', 1, NULL)
pgq_create_rate('x', 0, '1 s')
pgq_create_rate('x', -1, '1 s')
pgq_create_rate('x', 100001, '1 s')
pgq_create_rate('x', 1, '0')
pgq_create_rate('x', 1, '0.5 s')
pgq_create_rate('x', 1, '367 days')
pgq_create_rate('x', 1, '1 month')
pgq_create_rate('x', 5, '1 s', burst => 6)
pgq_create_rate('x', 5, '1 s', burst => 0)
pgq_create_rate('rate', 5, '1 s')
pgq_create_rate('rate', 5, '1 s', if_not_exists => NULL)
pgq_drop_rate(NULL)
pgq_drop_rate('none')
pgq_take(NULL)
pgq_take('')
pgq_take('none')
pgq_take('rate', 0)
pgq_take('rate', 3)
pgq_take('rate', wait => '-1 s')
pgq_take('rate', wait => '61 s')
$$);
SELECT pgq_unlock(name, token), pgq_drop_rate('rate') FROM pgq_ext.lock WHERE name = 'held';
RESET application_name;

SELECT try($$
pgq_drop_queue(NULL)
pgq_drop_queue('', if_exists => true)
pgq_drop_queue('errr')
pgq_drop_queue('Err', force => true)
pgq_drop_queue('nothing_like_it')
pgq_drop_queue('o''brien''s_own')
pgq_drop_queue('err')
pgq_drop_queue('err', if_exists => true, force => false)
pgq_purge_queue(NULL)
pgq_purge_queue('')
pgq_purge_queue('er')
pgq_purge_queue('nothing_like_it')
$$);

SELECT try($$
pgq_enqueue(NULL, '1')
pgq_enqueue('err', NULL)
pgq_enqueue('', '1')
pgq_enqueue('e rr', '1')
pgq_enqueue(repeat('n', 60), '1')
pgq_enqueue('er', '1')
pgq_enqueue('nothing_like_it', '1')
pgq_enqueue('err', '1', delay => '-1 us')
pgq_enqueue('err', '1', delay => '1 day -25 h')
pgq_enqueue('err', '1', delay => '1001 years')
pgq_enqueue('err', '1', delay => '178000000 years')
pgq_enqueue('err', '1', delay => '-178000000 years')
pgq_enqueue('err', '1', run_at => 'infinity')
pgq_enqueue('err', '1', run_at => '-infinity')
pgq_enqueue('err', '1', run_at => '294276-12-31')
pgq_enqueue('err', '1', delay => '1 s', run_at => 'now')
pgq_enqueue('err', '1', max_attempts => 0)
pgq_enqueue('err', '1', max_attempts => -1)
pgq_enqueue('err', '1', group_key => '')
pgq_enqueue('err', '1', group_key => repeat('g', 256))
pgq_enqueue('err', '1', group_key => repeat('ü', 128))
pgq_enqueue('err', '1', group_key => '', unique_key => 'u')
pgq_enqueue('err', '1', unique_key => '')
pgq_enqueue('err', '1', unique_key => repeat('u', 256))
pgq_enqueue('err', '1', unique_key => repeat('ü', 128))
pgq_enqueue('err', '1', unique_until => 'claimed')
pgq_enqueue('err', '1', unique_key => 'u', unique_until => 'whenever')
pgq_enqueue('err', '1', unique_key => 'u', unique_until => '')
pgq_enqueue('err', '1', unique_for => '1 h')
pgq_enqueue('err', '1', unique_key => 'u', unique_for => '-1 s')
pgq_enqueue('err', '1', unique_key => 'u', unique_for => '1001 years')
pgq_enqueue('err', '1', on_conflict => 'replace')
pgq_enqueue('err', '1', unique_key => 'u', on_conflict => 'whatever')
pgq_enqueue('err', '1', unique_key => 'u', on_conflict => 'append')
pgq_enqueue('err', '{}', unique_key => 'u', on_conflict => 'append')
pgq_enqueue('nowhere', '1', unique_key => 'u')
pgq_enqueue('err', '1', expires_in => '-1 s')
pgq_enqueue('err', to_jsonb(repeat('x', 268435456)))
pgq_enqueue('err', '1', headers => to_jsonb(repeat('x', 268435456)))
$$);

-- Whatever is wrong with an element, the error names it.
SELECT try($$
pgq_enqueue_many(NULL, '[]')
pgq_enqueue_many('err', NULL)
pgq_enqueue_many('er', '[{"payload": 1}]')
pgq_enqueue_many('er', '[]')
pgq_enqueue_many('err', 'null')
pgq_enqueue_many('err', '1')
pgq_enqueue_many('err', '"[]"')
pgq_enqueue_many('err', '{}')
pgq_enqueue_many('err', '{"payload": 1}')
pgq_enqueue_many('err', '[1]')
pgq_enqueue_many('err', '[null]')
pgq_enqueue_many('err', '["payload"]')
pgq_enqueue_many('err', '[[{"payload": 1}]]')
pgq_enqueue_many('err', '[{"payload": 1}, []]')
pgq_enqueue_many('err', '[{}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2}, {"priority": 1}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "Payload": 2}]')
pgq_enqueue_many('err', '[{"payload": 1, "queue": "err"}]')
pgq_enqueue_many('err', '[{"payload": 1, "": 1}]')
pgq_enqueue_many('err', '[{"payload": 1, "prio": null}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "priority": "1"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "priority": true}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "priority": 2147483648}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "priority": -1e100}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "priority": {}}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": 5}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": ["1 s"]}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": "soon"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": ""}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": "-1 s"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": "178000000 years"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "delay": "1e100 years"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "run_at": 1700000000}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "run_at": "2001-02-29"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "run_at": "infinity"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "run_at": "now", "delay": "1 s"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "max_attempts": "3"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "max_attempts": 0}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "max_attempts": 2147483648}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "group_key": ""}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "group_key": 7}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "group_key": "", "unique_key": "u"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": ""}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": 7}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_until": "claimed"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": "u", "unique_until": "never"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_for": "1 h"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": "u", "unique_for": "-1 s"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": "u", "on_conflict": "append"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "unique_key": "u"}, {"payload": 3, "unique_key": "u", "on_conflict": "error"}]')
pgq_enqueue_many('err', '[{"payload": 1}, {"payload": 2, "expires_in": "-1 s"}]')
pgq_enqueue_many('err', (SELECT jsonb_agg(jsonb_build_object('payload', i)) FROM generate_series(1, 5000) i) || '[{"payload": 1, "priority": []}]')
$$);

SELECT try($$
pgq_claim(NULL)
pgq_claim('')
pgq_claim('er')
pgq_claim('nothing_like_it', wait => '1 min')
pgq_claim('err', 0)
pgq_claim('err', -1)
pgq_claim('err', 10001)
pgq_claim('err', 2147483647)
pgq_claim('err', wait => '-1 us')
pgq_claim('err', wait => '60.000001 s')
pgq_claim('err', wait => '178000000 years')
pgq_claim('err', lease_time => '0')
pgq_claim('err', lease_time => '0.999999 s')
pgq_claim('err', lease_time => '-1 min')
pgq_claim('err', lease_time => '7 days 1 s')
pgq_claim('err', lease_time => '178000000 years')
pgq_claim('err', session_bound => true)
pgq_claim_any(NULL)
pgq_claim_any('{NULL}')
pgq_claim_any('{err,NULL}')
pgq_claim_any('{err,er}')
pgq_claim_any('{err,""}')
pgq_claim_any('{{err},{err}}')
pgq_claim_any(array_fill('err'::text, '{33}'))
pgq_claim_any('{err}', 0)
pgq_claim_any('{err}', 1, '-1 s')
pgq_claim_any('{err}', 1, NULL, '8 days')
pgq_claim_any('{err}', session_bound => true)
$$);

SELECT try($$
pgq_ack(NULL, 1)
pgq_ack(1, NULL)
pgq_ack(1, 1)
pgq_ack(-9223372036854775808, 9223372036854775807)
pgq_ack(9223372036854775807, -9223372036854775808)
pgq_ack(0, 0)
pgq_ack(job(), 0)
pgq_ack_many(NULL, '{}')
pgq_ack_many('{}', NULL)
pgq_ack_many(NULL, ARRAY[lease()])
pgq_ack_many(ARRAY[job()], '{}')
pgq_ack_many(ARRAY[job()], ARRAY[lease(), lease()])
pgq_ack_many(ARRAY[job(), NULL], ARRAY[lease(), 1])
pgq_ack_many(ARRAY[job(), 1], ARRAY[lease(), NULL])
pgq_ack_many(ARRAY[[job()]], ARRAY[[lease()]])
pgq_ack_many(ARRAY[job()], ARRAY[[lease()]])
pgq_ack_many(array_fill(job(), '{10001}'), array_fill(lease(), '{10001}'))
pgq_fail(NULL, 1)
pgq_fail(1, NULL)
pgq_fail(job(), lease(), retry_in => '-1 us')
pgq_fail(job(), lease(), retry_in => '1001 years')
pgq_fail(job(), lease(), retry_in => '178000000 years')
pgq_fail(job(), lease(), 'bad', '-178000000 years', false)
pgq_extend(NULL, 1)
pgq_extend(1, NULL)
pgq_extend(job(), lease(), '0')
pgq_extend(job(), lease(), '0.999999 s')
pgq_extend(job(), lease(), '-1 h')
pgq_extend(job(), lease(), '7 days 0.000001 s')
pgq_extend(job(), lease(), '178000000 years')
pgq_alter_queue(NULL)
pgq_alter_queue('nothing_like_it')
pgq_alter_queue('nothing_like_it', lease_time => '1 s')
pgq_alter_queue('err', lease_time => '0')
pgq_alter_queue('err', max_runtime => '0.5 s')
pgq_alter_queue('err', max_attempts => 0)
pgq_alter_queue('err', backoff_base => '-1 s')
pgq_alter_queue('err', backoff_jitter => 'NaN')
pgq_alter_queue('err', keep_dead => '1001 years')
pgq_alter_queue('err', concurrency => -1)
pgq_alter_queue('err', rate_limit => -1)
pgq_alter_queue('err', group_rate_limit => -1)
pgq_alter_queue('err', group_concurrency => -1)
pgq_alter_queue('err', group_concurrency => 2, fifo => true)
pgq_alter_queue('err', fair => true, group_rate_limit => 1)
pgq_alter_queue('err', rate_period => '0')
pgq_alter_queue('err', max_depth => -1)
pgq_alter_queue('err', log_attempts => 'failed ')
pgq_alter_queue('err', keep_attempts => '-1 s')
pgq_alter_queue('err', keep_finished => '1001 years')
pgq_pause_queue(NULL)
pgq_pause_queue('nothing_like_it')
pgq_resume_queue(NULL)
pgq_resume_queue('')
pgq_release(NULL, 1)
pgq_release(1, NULL)
pgq_release(job(), lease(), '-1 us')
pgq_release(job(), lease(), '1001 years')
pgq_assert_lease(NULL, 1)
pgq_assert_lease(1, NULL)
pgq_assert_lease(1, 1)
pgq_assert_lease(job(), 1)
pgq_ack_claim(NULL, '{}', 'err')
pgq_ack_claim('{}', NULL, 'err')
pgq_ack_claim('{}', '{}', NULL)
pgq_ack_claim('{}', '{}', 'nothing_like_it')
pgq_ack_claim(ARRAY[job()], ARRAY[1], 'err')
pgq_ack_claim(ARRAY[job()], '{}', 'err')
pgq_ack_claim(array_fill(job(), '{10001}'), array_fill(lease(), '{10001}'), 'err')
pgq_ack_claim(ARRAY[job()], ARRAY[lease()], 'nothing_like_it')
pgq_ack_claim(ARRAY[job()], ARRAY[lease()], 'err', 0)
pgq_ack_claim(ARRAY[job()], ARRAY[lease()], 'err', 10001)
pgq_ack_claim(ARRAY[job()], ARRAY[lease()], 'err', 1, '0')
$$);

SELECT try($$
pgq_schedule(NULL, '* * * * *', 'err')
pgq_schedule('x', NULL, 'err')
pgq_schedule('x', '* * * * *', NULL)
pgq_schedule('', '* * * * *', 'err')
pgq_schedule('two words', '* * * * *', 'err')
pgq_schedule(repeat('n', 60), '* * * * *', 'err')
pgq_schedule('x', '* * * * *', 'er')
pgq_schedule('x', '* * * * *', 'nothing_like_it')
pgq_schedule('x', '', 'err')
pgq_schedule('x', '* * * *', 'err')
pgq_schedule('x', '* * * * * * *', 'err')
pgq_schedule('x', '60 * * * *', 'err')
pgq_schedule('x', '* * * * 8', 'err')
pgq_schedule('x', '* * * fev *', 'err')
pgq_schedule('x', '*/0 * * * *', 'err')
pgq_schedule('x', '5/5 * * * *', 'err')
pgq_schedule('x', '9-5 * * * *', 'err')
pgq_schedule('x', '@reboot', 'err')
pgq_schedule('x', '0 0 30 2 *', 'err')
pgq_schedule('x', 'every', 'err')
pgq_schedule('x', 'every fortnight', 'err')
pgq_schedule('x', 'every 1 month', 'err')
pgq_schedule('x', 'every 0 s', 'err')
pgq_schedule('x', 'every -5 s', 'err')
pgq_schedule('x', 'every 1.5 s', 'err')
pgq_schedule('x', 'every 41 years', 'err')
pgq_schedule('x', 'every 20000 days', 'err')
pgq_schedule('x', repeat('* ', 100000), 'err')
pgq_schedule('x', '* * * * *', 'err', timezone => 'Europe/Berln')
pgq_schedule('x', '* * * * *', 'err', timezone => '')
pgq_schedule('x', '* * * * *', 'err', timezone => repeat('z', 300))
pgq_schedule('x', '* * * * *', 'err', missed => 'some')
pgq_schedule('x', '* * * * *', 'err', options => '[]')
pgq_schedule('x', '* * * * *', 'err', options => '1')
pgq_schedule('x', '* * * * *', 'err', options => '{"payload": 1}')
pgq_schedule('x', '* * * * *', 'err', options => '{"prio": 1}')
pgq_schedule('x', '* * * * *', 'err', options => '{"prio": null}')
pgq_schedule('x', '* * * * *', 'err', options => '{"payload": null}')
pgq_schedule('x', '* * * * *', 'err', options => '{"priority": "high"}')
pgq_schedule('x', '* * * * *', 'err', options => '{"headers": 1}')
pgq_schedule('x', '* * * * *', 'err', options => '{"delay": "-1 s"}')
pgq_schedule('x', '* * * * *', 'err', options => '{"max_attempts": 0}')
pgq_schedule('x', '* * * * *', 'err', options => '{"on_conflict": "replace"}')
pgq_schedule('x', '* * * * *', 'err', options => '{"unique_key": "k", "on_conflict": "append"}')
pgq_unschedule(NULL)
pgq_unschedule('')
pgq_pause_schedule(NULL)
pgq_pause_schedule('nothing_like_it')
pgq_resume_schedule(NULL)
pgq_resume_schedule('nothing_like_it')
pgq_schedule_preview(NULL)
pgq_schedule_preview('* * * * ?')
pgq_schedule_preview('* * * * *', 'Mars/Phobos')
pgq_schedule_preview('* * * * *', n => -1)
pgq_schedule_preview('* * * * *', n => 10001)
pgq_schedule_preview('0 0 31 apr *', n => 0)
$$);

-- Reading is all that a read-only transaction does.
BEGIN READ ONLY;
SELECT try($$
pgq_create_queue('x')
pgq_create_queue('err', if_not_exists => true)
pgq_drop_queue('err', force => true)
pgq_purge_queue('err')
pgq_alter_queue('err', notify => true)
pgq_pause_queue('err')
pgq_resume_queue('err')
pgq_enqueue('err', '1')
pgq_enqueue_many('err', '[{"payload": 1}]')
pgq_enqueue_many('err', '[]')
pgq_claim('err')
pgq_claim_any('{err}')
pgq_ack(job(), lease())
pgq_ack_many(ARRAY[job()], ARRAY[lease()])
pgq_fail(job(), lease())
pgq_extend(job(), lease())
pgq_release(job(), lease())
pgq_assert_lease(job(), lease())
pgq_ack_claim('{}', '{}', 'err')
pgq_schedule('x', '* * * * *', 'err')
pgq_unschedule('x')
pgq_pause_schedule('x')
pgq_resume_schedule('x')
$$);
SELECT queue, ready, scheduled, leased FROM pgq_ext.queue_status;
COMMIT;

-- The same without a subtransaction around it: the transaction is aborted, what it did before is undone, and the session goes on.
\set VERBOSITY sqlstate
SELECT state() AS before \gset
BEGIN; SELECT pgq_enqueue('err', '1') > 0; SELECT pgq_enqueue('err', '1', delay => '-1 s'); COMMIT;
BEGIN; SELECT pgq_enqueue_many('err', '[{"payload": 1}]') > 0; SELECT pgq_enqueue_many('err', '[{"payload": 1}, 2]'); COMMIT;
BEGIN; SELECT pgq_enqueue('err', '1') > 0; SELECT pgq_ack(job(), lease()); SELECT pgq_ack(job(), lease()); COMMIT;
BEGIN; SELECT pgq_fail(job(), lease()); SELECT pgq_claim('nothing_like_it'); COMMIT;
BEGIN; SELECT pgq_create_queue('x'); SELECT pgq_create_queue('err'); COMMIT;
BEGIN; SELECT pgq_purge_queue('err'); SELECT pgq_drop_queue('err'); COMMIT;
\set VERBOSITY default
SELECT state() = :'before';

SELECT payload FROM pgq_claim('err', 10);
SELECT pgq_ack(job(), lease());
SELECT pgq_drop_queue('err', force => true);
SELECT count(*) FROM pgq_ext.job;
DROP SCHEMA errors CASCADE;
