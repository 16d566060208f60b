/*
 * pgq_schedule, pgq_unschedule, pgq_pause_schedule, pgq_resume_schedule, pgq_schedule_preview; and
 * the trigger of pgq_ext.timetable.
 */
#include "api/args.h"
#include "api/maker.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/queue_lock.h"
#include "catalog/queue_row.h"
#include "load/attach.h"
#include "pg/clock.h"
#include "schedules/cron_schedule.h"
#include "txn/effects.h"
#include "worker/worker.h"

namespace pgq {

static char *
schedule_name(FunctionCallInfo fcinfo)
{
	return checked_name(required(fcinfo, 0, "schedule"), "schedule");
}

static char *
cron_of(FunctionCallInfo fcinfo, int i)
{
	return TextDatumGetCString(key_value(required(fcinfo, i, "cron"), "cron"));
}

static char *
timezone_of(FunctionCallInfo fcinfo, int i)
{
	return given(fcinfo, i) ? TextDatumGetCString(key_value(PG_GETARG_DATUM(i), "timezone"))
							: pstrdup("UTC");
}

static ScheduleSpec
schedule_of_arguments(FunctionCallInfo fcinfo)
{
	ScheduleSpec schedule{};
	schedule.name = schedule_name(fcinfo);
	schedule.cron = cron_of(fcinfo, 1);
	schedule.queue = queue_name(required(fcinfo, 2, "queue"));
	schedule.payload = given(fcinfo, 3) ? PG_GETARG_DATUM(3)
										: DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
	schedule.timezone = timezone_of(fcinfo, 4);
	schedule.missed = Missed::kOne;
	if (given(fcinfo, 5))
		schedule.missed = missed_of(clipped(PG_GETARG_DATUM(5), 64));
	if (given(fcinfo, 6))
		schedule.options = PG_GETARG_JSONB_P(6);
	return schedule;
}

/* Raise the errors that enqueuing the job of a tick of the schedule would raise. */
static void
check_jobs(const ScheduleSpec &schedule)
{
	TimestampTz now = wall_now();
	JobSpec spec = job_of_tick(schedule, now);
	QueueRef ref = resolve_queue(tables(), schedule.queue, Permission::kEnqueue);
	(void) key_rules(spec, now);
	(void) job_of(ref.queue_id, spec, now);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_schedule);
PG_FUNCTION_INFO_V1(pgq_unschedule);
PG_FUNCTION_INFO_V1(pgq_pause_schedule);
PG_FUNCTION_INFO_V1(pgq_resume_schedule);
PG_FUNCTION_INFO_V1(pgq_schedule_preview);
PG_FUNCTION_INFO_V1(pgq_timetable_changed);

PGDLLEXPORT Datum
pgq_schedule(PG_FUNCTION_ARGS)
{
	start_write("pgq_schedule()");
	ScheduleSpec schedule = schedule_of_arguments(fcinfo);
	check_jobs(schedule);
	/*
	 * A concurrent rename of the queue either waits for this lock, and then renames the queue in
	 * this schedule, too. Or the rename has ended before; then the second check_jobs() fails for
	 * the old name.
	 */
	lock_name(schedule.queue, ShareLock);
	check_jobs(schedule);
	make_schedule(schedule);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_unschedule(PG_FUNCTION_ARGS)
{
	start_write("pgq_unschedule()");
	PG_RETURN_BOOL(drop_schedule(schedule_name(fcinfo)));
}

PGDLLEXPORT Datum
pgq_pause_schedule(PG_FUNCTION_ARGS)
{
	start_write("pgq_pause_schedule()");
	pause_schedule(schedule_name(fcinfo));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_resume_schedule(PG_FUNCTION_ARGS)
{
	start_write("pgq_resume_schedule()");
	resume_schedule(schedule_name(fcinfo));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_schedule_preview(PG_FUNCTION_ARGS)
{
	static constexpr int32 kMost = 10000;
	start_verb("pgq_schedule_preview()");
	Timing timing = timing_of(cron_of(fcinfo, 0), timezone_of(fcinfo, 1));
	int32 n = given(fcinfo, 2) ? in_range(PG_GETARG_INT32(2), 0, kMost, "n") : 5;
	ResultRows rows(fcinfo);
	TimestampTz tick = first_tick_after(timing, wall_now());
	for (int32 i = 0; i < n && tick != DT_NOEND; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rows.put(TimestampTzGetDatum(tick));
		tick = tick_after(timing, tick);
	}
	return (Datum) 0;
}

/*
 * Trigger of pgq_ext.timetable for each row; also fires for rows of logical replication. Wakes the
 * scheduler, unless the scheduler itself has made the change.
 */
PGDLLEXPORT Datum
pgq_timetable_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "timetable_changed");
	HeapTuple row = row_of(data);
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return PointerGetDatum(row);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event) ||
		has_other_maker(RelationGetDescr(data->tg_relation), data->tg_trigtuple, row))
		row = with_maker(data, row);
	if (shared != nullptr && !is_scheduler())
		note_changed_definitions();
	return PointerGetDatum(row);
}
}
