-- ---- schedules: see src/schedules/cron_schedule.h and src/worker/duty/schedules.cpp ----

CREATE TABLE pgq_ext.timetable (
    schedule    text COLLATE "C" NOT NULL PRIMARY KEY,
    cron        text NOT NULL,
    timezone    text NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    payload     jsonb NOT NULL,
    options     jsonb,
    missed      text COLLATE "C" NOT NULL CHECK (missed IN ('skip', 'one', 'all')),
    paused      boolean NOT NULL DEFAULT false,
    -- The role with whose rights the schedule enqueues. In a dump only maker_name identifies the role.
    maker       oid,
    maker_name  text NOT NULL,
    next_run_at timestamptz,
    -- The time of the next try to enqueue: next_run_at, or a later time while tries fail.
    due_at      timestamptz,
    failures    integer NOT NULL DEFAULT 0,
    last_run_at timestamptz,
    last_job_id bigint,
    last_error  text
);
CREATE INDEX timetable_due ON pgq_ext.timetable (due_at) WHERE NOT paused;
REVOKE ALL ON TABLE pgq_ext.timetable FROM PUBLIC;
COMMENT ON TABLE pgq_ext.timetable IS
'Schedules, one row for each: made by pgq_schedule. The scheduler writes the next time of a schedule in the transaction that enqueues its job. Read schedules through the view pgq_ext.schedule, and change them by the functions.';

CREATE FUNCTION pgq_ext.timetable_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_timetable_changed';
REVOKE ALL ON FUNCTION pgq_ext.timetable_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.timetable_changed() IS
'Internal: finds the role with whose rights a schedule enqueues, and tells the scheduler that the schedule has changed.';

CREATE TRIGGER timetable_changed BEFORE INSERT OR UPDATE ON pgq_ext.timetable
FOR EACH ROW EXECUTE FUNCTION pgq_ext.timetable_changed();
ALTER TABLE pgq_ext.timetable ENABLE ALWAYS TRIGGER timetable_changed;

SELECT pg_catalog.pg_extension_config_dump('pgq_ext.timetable', '');

CREATE FUNCTION pgq_schedule(
    schedule text, cron text, queue text, payload jsonb = '{}', timezone text = 'UTC', missed text = 'one',
    options jsonb = null) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_schedule';
REVOKE ALL ON FUNCTION pgq_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_schedule IS
'Enqueue a job again and again: make the schedule of that name, or change it. A changed schedule keeps its next tick if cron and timezone are the same, and stays paused if it was paused. cron: minute, hour, day of month, month, day of week, with seconds before them if there are six fields, as in crontab(5); or @yearly, @monthly, @weekly, @daily, @hourly; or an interval as in ''every 90 s'', counted from 2000-01-01 UTC. If the hour field names hours, a tick runs once where the clocks of timezone skip or repeat that time (a skipped tick runs right after); with * as hour, ticks follow elapsed time. The headers of the job have the name of the schedule and the time of the tick, as schedule and scheduled_at. missed: what happens to ticks that could not run, because the server was down or the queue was full: skip (no job), one (one job for all missed ticks), all (one job for each, for at most the newest 1000). options: an object with other parameters of pgq_enqueue, such as priority or unique_key. The schedule enqueues with the rights of the role that has last called this function for it. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 no schedule, cron or queue, 22023 bad value, or a cron that would not run in the next 40 years.';

CREATE FUNCTION pgq_unschedule(schedule text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unschedule';
REVOKE ALL ON FUNCTION pgq_unschedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_unschedule IS
'Drop a schedule; jobs that it has enqueued stay. False: there is no schedule with that name.';

CREATE FUNCTION pgq_pause_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_schedule';
REVOKE ALL ON FUNCTION pgq_pause_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_schedule IS
'Stop the schedule: from the commit on, it enqueues no job. Does nothing if the schedule is paused already. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_resume_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_schedule';
REVOKE ALL ON FUNCTION pgq_resume_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_schedule IS
'Go on after pgq_pause_schedule, with the next tick from now; the ticks of the pause enqueue no jobs. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_schedule_preview(cron text, timezone text = 'UTC', n int = 5) RETURNS SETOF timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'pgq_schedule_preview';
REVOKE ALL ON FUNCTION pgq_schedule_preview FROM PUBLIC;
COMMENT ON FUNCTION pgq_schedule_preview IS
'Return the next n (at most 10000) times at which a schedule with this cron expression would run, up to the year 9999. Errors: 22004 no cron, 22023 bad value, or a cron that would not run in the next 40 years.';

CREATE VIEW pgq_ext.schedule WITH (security_barrier) AS
SELECT t.schedule, t.cron, t.timezone, t.queue,
       CASE WHEN pgq_ext.may_read('schedule', 'payload') THEN t.payload END AS payload, t.missed,
       CASE WHEN pgq_ext.may_read('schedule', 'options') THEN t.options END AS options, t.paused,
       CASE WHEN NOT t.paused THEN t.next_run_at END AS next_run_at,
       t.last_run_at, t.last_job_id, t.last_error
FROM pgq_ext.timetable t LEFT JOIN pgq_ext.queue q USING (queue)
-- If there is no queue of that name, there are no rights to check. Then the schedule's maker, the owner and
-- pg_monitor see the schedule.
WHERE CASE WHEN q.queue_id IS NOT NULL THEN pgq_ext.may_see(q.queue_id)
           ELSE pg_catalog.pg_has_role(t.maker, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE')
                OR pg_catalog.pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
                                           WHERE c.oid OPERATOR(pg_catalog.=) 'pgq_ext.timetable'::pg_catalog.regclass), 'USAGE') END;
COMMENT ON VIEW pgq_ext.schedule IS
'Schedules. payload, options: NULL for members of pg_monitor without another grant. next_run_at: time of the next tick; a time in the past: the tick that could not run yet; NULL while the schedule is paused. last_run_at: time at which the schedule has last enqueued. last_job_id: the job that was enqueued then, or that had its unique key. last_error: why the last tick has no job, or that ticks were skipped; NULL: no problem.';
