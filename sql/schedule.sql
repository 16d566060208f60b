-- Schedules: made, changed, paused, dropped; what their jobs look like. Their times are in test/unit/cron_test.cpp and test/t/075_schedules.pl.
SET TimeZone = 'UTC';
SELECT pgq_create_queue('s', concurrency => 1);
-- Nothing of this is due before long.
SELECT pgq_schedule('yearly', '0 0 1 1 *', 's');
SELECT schedule, cron, timezone, queue, payload, missed, options, paused, next_run_at = date_trunc('year', now()) + '1 year' AS next, last_run_at, last_job_id, last_error
FROM pgq_ext.schedule;

-- The same again leaves its time alone, whatever else is changed; another time zone or cron does not.
UPDATE pgq_ext.timetable SET next_run_at = '2101-01-01', due_at = '2101-01-01', failures = 3, last_error = 'an old one';
SELECT pgq_schedule('yearly', '0 0 1 1 *', 's', '{"n": 1}', missed => 'all', options => '{"priority": 7, "delay": "1 day"}');
SELECT payload, missed, options, next_run_at, last_error FROM pgq_ext.schedule;
SELECT due_at, failures, maker = current_user::regrole AS maker, maker_name = current_user AS name FROM pgq_ext.timetable;
SELECT pgq_schedule('yearly', '0 0 1 1 *', 's', timezone => 'Asia/Kathmandu');
SELECT to_char(next_run_at, 'MM-DD HH24:MI') AS next, missed, options FROM pgq_ext.schedule;
SELECT pgq_schedule('yearly', '@yearly', 's');
SELECT to_char(next_run_at, 'MM-DD HH24:MI') AS next FROM pgq_ext.schedule;
-- NULL is the default.
SELECT pgq_schedule('nulls', 'every 3 months', 's', NULL, NULL, NULL, NULL);
SELECT pgq_schedule('nulls', 'every 14600 days', 's', NULL, NULL, NULL, NULL);
SELECT timezone, payload, missed, options, next_run_at FROM pgq_ext.schedule WHERE schedule = 'nulls';

-- Paused, and resumed with the next tick from now. What is paused stays so when it is changed.
SELECT pgq_pause_schedule('yearly'), pgq_pause_schedule('yearly');
SELECT paused, next_run_at FROM pgq_ext.schedule WHERE schedule = 'yearly';
UPDATE pgq_ext.timetable SET next_run_at = '2001-01-01', due_at = '2001-01-01' WHERE schedule = 'yearly';
SELECT pgq_schedule('yearly', '@yearly', 's');
SELECT paused FROM pgq_ext.schedule WHERE schedule = 'yearly';
SELECT pgq_resume_schedule('yearly'), pgq_resume_schedule('yearly');
SELECT paused, next_run_at = date_trunc('year', now()) + '1 year' AS next FROM pgq_ext.schedule WHERE schedule = 'yearly';
SELECT pgq_unschedule('yearly'), pgq_unschedule('yearly');
SELECT pgq_unschedule('nulls');

-- It is part of the transaction.
BEGIN;
SELECT pgq_schedule('undone', '@daily', 's');
SAVEPOINT s;
SELECT pgq_unschedule('undone');
ROLLBACK TO s;
SELECT schedule FROM pgq_ext.schedule;
ROLLBACK;
SELECT schedule FROM pgq_ext.schedule;

-- A tick: within a second there is one, and it is one that the schedule knows.
SELECT pgq_schedule('each-"second"', '* * * * * *', 's', '{"n": 2}', options => '{"priority": 7, "group_key": "g", "headers": {"mine": 1, "schedule": "no"}}');
CREATE TABLE tick AS SELECT * FROM pgq_claim('s', wait => '30 s');
SELECT pgq_unschedule('each-"second"');
SELECT payload, priority, group_key, headers - 'scheduled_at' AS headers,
       abs(extract(epoch FROM enqueued_at - (headers ->> 'scheduled_at')::timestamptz)) < 30 AS in_time,
       date_trunc('second', (headers ->> 'scheduled_at')::timestamptz) = (headers ->> 'scheduled_at')::timestamptz AS whole
FROM tick;
SELECT pgq_ack(job_id, lease) FROM tick;
SELECT pgq_purge_queue('s') >= 0 AS purged;

-- One that lasts: the key of its job is taken, by the job that is in its way.
CREATE TABLE mine AS SELECT pgq_enqueue('s', '"by hand"', unique_key => 'k', delay => '1 day') AS job_id;
SELECT pgq_schedule('keyed', 'every 1 s', 's', options => '{"unique_key": "k"}');
DO $$ BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT last_job_id IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'keyed');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT last_job_id = job_id AS met, last_error, next_run_at > last_run_at AS moved FROM pgq_ext.schedule, mine;
SELECT count(*) FROM pgq_ext.job;
SELECT pgq_unschedule('keyed'), pgq_purge_queue('s');

-- The preview, and what it may be asked.
SELECT count(*), min(p) > now() AS later, bool_and(extract(epoch FROM p) % 90 = 0) AS steps, max(p) - min(p) AS span FROM pgq_schedule_preview('every 90 s') p;
SELECT count(*), bool_and(to_char(p AT TIME ZONE 'Europe/Berlin', 'HH24:MI Dy') IN ('09:30 Mon', '09:30 Tue', '09:30 Wed')) AS fits, max(p) - min(p) > '4 weeks' AS long
FROM pgq_schedule_preview('30 9 * * mon-wed', 'Europe/Berlin', 15) p;
SELECT count(*) FROM pgq_schedule_preview('every 1 day 12 hours', n => 0);
SELECT bool_and(to_char(p, 'MM-DD HH24:MI:SS') = '02-29 12:00:05') AS leap, count(*) FROM pgq_schedule_preview('5 0 12 29 feb *', NULL, NULL) p;
-- In its zone the clocks go forward once a year: 2:30 comes then, too, and in autumn once.
SELECT count(*) AS days, count(DISTINCT (p AT TIME ZONE 'America/New_York')::date) AS dates,
       count(*) FILTER (WHERE to_char(p AT TIME ZONE 'America/New_York', 'HH24:MI') = '03:00') AS after_the_skipped_hour
FROM pgq_schedule_preview('30 2 * * *', 'America/New_York', 1461) p;
SELECT count(*) FILTER (WHERE gap = '1 hour') AS hours, count(*) FILTER (WHERE gap <> '1 hour') AS others
FROM (SELECT p - lag(p) OVER (ORDER BY p) AS gap FROM pgq_schedule_preview('@hourly', 'America/New_York', 10000) p) g;
-- A zone is what SET TimeZone makes of it: numbers are hours east, what looks like POSIX is west.
CREATE FUNCTION nine_in(zone text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    tick timestamptz;
BEGIN
    tick := pgq_schedule_preview('0 9 15 6 *', zone, 1);
    PERFORM set_config('TimeZone', zone, true);
    RETURN concat_ws(' ', to_char(tick, 'HH24:MI'), to_char(tick AT TIME ZONE 'UTC', 'HH24:MI'));
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN SQLERRM;
END $$;
SELECT zone, nine_in(zone) AS here_and_utc
FROM unnest('{+2,-5,+02,5.5,0,+05:30,<+05>-5,Europe/Berlin,"INTERVAL ''+02:00'' HOUR TO MINUTE",interval,168,-1000,nan,inf,1e9}'::text[]) zone;
SELECT pgq_schedule('east', '0 9 15 6 *', 's', timezone => '+2');
SELECT to_char(next_run_at AT TIME ZONE 'UTC', 'HH24:MI') AS next FROM pgq_ext.schedule WHERE schedule = 'east';
-- One that an older version has taken is named by what it fails of.
UPDATE pgq_ext.timetable SET timezone = $$INTERVAL '+02:00' HOUR TO MINUTE$$, cron = '* * * * * *', next_run_at = now(), due_at = now() WHERE schedule = 'east';
DO $$ BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT last_error IS NOT NULL FROM pgq_ext.schedule WHERE schedule = 'east');
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT last_error FROM pgq_ext.schedule WHERE schedule = 'east';
SELECT pgq_unschedule('east');
DROP TABLE tick, mine;
SELECT pgq_drop_queue('s');
-- Far ahead there is an end.
SELECT count(*) BETWEEN 100 AND 300 AS some, max(t) < '10000-01-01' AS before_10000 FROM pgq_schedule_preview('every 14640 days', n => 10000) t;
SELECT count(*) BETWEEN 1000 AND 3000 AS some, max(t) < '10000-01-01' AS before_10000 FROM pgq_schedule_preview('0 0 29 2 *', n => 10000) t;
