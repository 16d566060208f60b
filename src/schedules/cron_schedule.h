/*
 * Schedules: rows of pgq_ext.timetable. This file makes and changes schedules. The scheduler fires
 * schedules that are due (worker/duty/schedules.cpp).
 */
#pragma once

#include "enqueue/job_spec.h"
#include "schedules/timing.h"

namespace pgq {

/* What to do about missed ticks, that is, ticks that were due while no scheduler was running. */
enum class Missed : uint8
{
	kSkip,
	kOne, /* one job for all missed ticks */
	kAll, /* one job for each missed tick, but only for the newest thousand */
};

struct ScheduleSpec
{
	char *name;
	char *cron;
	char *timezone;
	char *queue;
	Datum payload;	/* jsonb */
	Jsonb *options; /* NULL: no options */
	Missed missed;
};

/* Return the value that the word names: skip, one or all. Raises 22023. */
Missed missed_of(const char *word);

/*
 * Return the job to enqueue for one tick; its headers name the schedule and the tick. Raises 22023
 * if the options of the schedule are not valid, for example if `headers` is not an object.
 */
JobSpec job_of_tick(const ScheduleSpec &schedule, TimestampTz tick);

/* ---- verbs ---- */

/*
 * These functions raise 42501 if the caller may not enqueue to the schedule's queue and does not
 * administer it.
 */

/*
 * Make the schedule, or change the existing one of that name. If cron and time zone are unchanged,
 * the next tick stays.
 */
void make_schedule(const ScheduleSpec &schedule);

/* Drop the schedule. Returns false if there is no such schedule. */
bool drop_schedule(const char *name);

/*
 * Pause or resume the schedule. Both functions raise 42704 if there is no such schedule. A resumed
 * schedule continues with the next tick after now.
 */
void pause_schedule(const char *name);
void resume_schedule(const char *name);

/* ---- for the scheduler ---- */

struct DueSchedule
{
	ScheduleSpec schedule;
	char *missed; /* one of the words skip, one, all, as stored in the table */
	TimestampTz next_run_at;
	int32 failures;
	Oid maker;
	char *maker_name;
};

/*
 * Of the schedules that became due between `from` and `now`, lock and return the one that became
 * due first. Returns NULL if there is none, or if other sessions have locked all of them.
 */
DueSchedule *take_due_schedule(TimestampTz from, TimestampTz now);

/* Return when the next schedule is due, at or after `from`; DT_NOEND if there is none. */
TimestampTz next_due_schedule(TimestampTz from);

/* The outcome of a tick, to be written to the schedule's row. */
struct TickResult
{
	TimestampTz next_run_at; /* DT_NOEND: no further tick */
	TimestampTz due_at;		 /* next_run_at; after a failure the time of the next try */
	int32 failures;
	int64 last_job_id; /* 0: unchanged */
	TimestampTz fired_at;
	const char *error; /* NULL: no error */
};
void note_tick(const DueSchedule &due, const TickResult &result);

/*
 * Look up the roles of all makers by their names again. Rows that were restored while the trigger
 * was disabled have role OIDs of another server.
 */
void find_makers();

} // namespace pgq
