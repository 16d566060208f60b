/*
 * Schedules: rows of pgq_ext.timetable. They are made and changed here; when they are due the scheduler fires them
 * (worker/duty/schedules.cpp).
 */
#pragma once

#include "jobs/job_spec.h"
#include "jobs/timing.h"

namespace pgq {

/* What becomes of ticks at which nobody could fire it. */
enum class Missed : uint8
{
	kSkip,
	kOne, /* job for all of them */
	kAll, /* have their jobs, the newest thousand at most */
};

struct ScheduleSpec
{
	char *name;
	char *cron;
	char *timezone;
	char *queue;
	Datum payload;	/* jsonb */
	Jsonb *options; /* NULL: none */
	Missed missed;
};

/* skip, one or all. Error: 22023. */
Missed missed_of(const char *word);

/* The job of one of its ticks: its headers say which. Errors: 22023. */
JobSpec job_of_tick(const ScheduleSpec &schedule, TimestampTz tick);

/* That role must be there, and may call pgq_enqueue. Errors: 42704, 42501. */
void require_enqueuer(Oid role, const char *name);

/* ---- verbs ---- */

/* Of these, who neither may enqueue to the schedule's queue nor administers it gets error 42501. */

/* Make it, or change the one of that name: it goes on where it was if cron and time zone are the same. */
void make_schedule(const ScheduleSpec &schedule);

/* False: there is none. */
bool drop_schedule(const char *name);

/* Error 42704 if there is none. Resumed, it goes on with the next tick from now. */
void pause_schedule(const char *name);
void resume_schedule(const char *name);

/* ---- for the scheduler ---- */

struct DueSchedule
{
	ScheduleSpec schedule;
	char *missed; /* as it is written */
	TimestampTz next_run_at;
	int32 failures;
	Oid maker;
	char *maker_name;
};

/*
 * The schedule that has been due for longest, not before `from`, locked: NULL if there is none, or others have locked all of
 * them.
 */
DueSchedule *take_due_schedule(TimestampTz from, TimestampTz now);

/* When the next one is due, from that time on; DT_NOEND: none. */
TimestampTz next_due_schedule(TimestampTz from);

/* How it went, for its row. */
struct TickResult
{
	TimestampTz next_run_at; /* DT_NOEND: never */
	TimestampTz due_at;		 /* when it is tried again, or the same */
	int32 failures;
	int64 last_job_id; /* 0: as it was */
	TimestampTz fired_at;
	const char *error; /* NULL: none */
};
void note_tick(const DueSchedule &due, const TickResult &result);

/* Their makers, by their names: rows that came while the trigger was silent have the numbers of another server. */
void find_makers();

} // namespace pgq
