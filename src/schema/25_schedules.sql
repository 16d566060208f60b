-- ---- schedules: see src/schedules/timetable.h and src/worker/duty/schedules.cpp ----

CREATE TABLE pgq_ext.timetable (
    schedule    text COLLATE "C" NOT NULL PRIMARY KEY,
    cron        text NOT NULL,
    timezone    text NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    payload     jsonb NOT NULL,
    options     jsonb,
    missed      text COLLATE "C" NOT NULL CHECK (missed IN ('skip', 'one', 'all')),
    paused      boolean NOT NULL DEFAULT false,
    -- The role with whose rights the schedule enqueues. Dumps identify it by its name.
    maker       oid,
    maker_name  text NOT NULL,
    next_run_at timestamptz,
    -- When the scheduler looks at the schedule next: next_run_at, or a later time while the schedule fails.
    due_at      timestamptz,
    failures    integer NOT NULL DEFAULT 0,
    last_run_at timestamptz,
    last_job_id bigint,
    last_error  text
);
CREATE INDEX timetable_due ON pgq_ext.timetable (due_at) WHERE NOT paused;
REVOKE ALL ON TABLE pgq_ext.timetable FROM PUBLIC;
COMMENT ON TABLE pgq_ext.timetable IS
'Schedules, one row each: made by pgq_schedule, moved on by the scheduler in the transaction that enqueues. To be read through pgq_ext.schedule, and changed by the functions.';

CREATE FUNCTION pgq_ext.timetable_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_timetable_changed';
REVOKE ALL ON FUNCTION pgq_ext.timetable_changed() FROM PUBLIC;
COMMENT ON FUNCTION pgq_ext.timetable_changed() IS
'Internal: finds the role that a schedule enqueues for, and tells the scheduler of the change.';

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
'Enqueue a job again and again: make the schedule of that name, or change it; it goes on where it was if cron and timezone are the same, and stays paused if it was. cron: minute, hour, day of month, month, day of week, with seconds before them if there are six, as in crontab(5); or @yearly, @monthly, @weekly, @daily, @hourly; or as in ''every 90 s'', counted from 2000-01-01 UTC. Hours that are named run once where clocks of timezone skip or repeat them (a skipped time runs right after), those with * run by elapsed time. Headers of the job have the name of the schedule and the time of the tick, as schedule and scheduled_at. missed: what becomes of ticks that could not run, by a downtime or since the queue was full: skip (nothing), one (one job for all of them), all (each has its job, the newest 1000 at most). options: an object with what else pgq_enqueue may be told, as priority or unique_key. It enqueues with the rights of the role that has called this last. Errors: 42704 no such queue, 42501 the caller may not enqueue, 22004 no schedule, cron or queue, 22023 bad value, or a cron that would not run in the next 40 years.';

CREATE FUNCTION pgq_unschedule(schedule text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_unschedule';
REVOKE ALL ON FUNCTION pgq_unschedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_unschedule IS
'Drop a schedule; its jobs stay. False: there is none of that name.';

CREATE FUNCTION pgq_pause_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_pause_schedule';
REVOKE ALL ON FUNCTION pgq_pause_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_pause_schedule IS
'Enqueue nothing by this schedule from the commit on. Paused twice is paused. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_resume_schedule(schedule text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgq_resume_schedule';
REVOKE ALL ON FUNCTION pgq_resume_schedule FROM PUBLIC;
COMMENT ON FUNCTION pgq_resume_schedule IS
'Go on after pgq_pause_schedule, with the next tick from now: those of the pause are not made up for. Error: 42704 no such schedule.';

CREATE FUNCTION pgq_schedule_preview(cron text, timezone text = 'UTC', n int = 5) RETURNS SETOF timestamptz
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'pgq_schedule_preview';
REVOKE ALL ON FUNCTION pgq_schedule_preview FROM PUBLIC;
COMMENT ON FUNCTION pgq_schedule_preview IS
'The next n (at most 10000) moments at which such a schedule would run, up to the year 9999. Errors: 22004 no cron, 22023 bad value, or a cron that would not run in the next 40 years.';

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
'Schedules. payload, options: NULL for members of pg_monitor without another grant. next_run_at: its next tick, or, in the past, the one that could not run yet; NULL while it is paused. last_run_at: when it has enqueued last, and last_job_id: that job, or the one that had its unique key. last_error: why its last tick has no job, or that ticks were left out; NULL: all is well.';
