/*
 * The state of a scheduler ("shift"): its duties, and what they remember while it runs.
 *
 * To add a duty, write a function in a file of the folder duty/, declare it here, and add a line to
 * one of the tables below. Data that the duty keeps from run to run is a member of Shift.
 * The view pgq_ext.duty shows the names in the tables.
 *
 * A scheduler can end at any time. So Shift may only hold data that the next scheduler can find out
 * again from shared memory and the tables.
 */
#pragma once

#include "catalog/queue_row.h"
#include "engine/seat.h"
#include "jobs/expiry.h"
#include "load/reconcile.h"
#include "ring/rotation.h"
#include "worker/runner.h"

namespace pgq {

struct Shift;

/* ---- the duties for the whole database ---- */

struct Duty
{
	const char *name;
	/*
	 * Do one step, without waiting for other sessions. Return the monotonic time of the next step.
	 */
	int64 (*run)(Shift &shift);
	/* If not NULL: returns when the duty is due, and the result of run() is ignored. */
	int64 (*wanted_at)(const Shift &shift);
	bool first; /* run before any queue is served after the start */
};

int64 look_around(Shift &shift);
int64 send_notifications(Shift &shift);
int64 notifications_wanted_at(const Shift &shift);
int64 attach_queues(Shift &shift);
int64 keep_token_mark_ahead(Shift &shift);
int64 rotate(Shift &shift);
int64 retain(Shift &shift);
int64 expire(Shift &shift);
int64 reconcile(Shift &shift);
int64 sweep(Shift &shift);
int64 sweep_wanted_at(const Shift &shift);
int64 fire_schedule(Shift &shift);
int64 schedules_wanted_at(const Shift &shift);

inline constexpr Duty duties[] = {
	{"presence", look_around, nullptr, true},
	{"notify", send_notifications, notifications_wanted_at, false},
	{"queues", attach_queues, nullptr, true},
	{"token mark", keep_token_mark_ahead, nullptr, false},
	{"rotation", rotate, nullptr, false},
	{"retention", retain, nullptr, false},
	{"expiry", expire, nullptr, false},
	{"reconcile", reconcile, nullptr, false},
	{"locks", sweep, sweep_wanted_at, false},
	{"schedules", fire_schedule, schedules_wanted_at, false},
};
inline constexpr int kDuties = lengthof(duties);
static_assert(kDuties <= kDutyNotes);

/* ---- duties for each queue ---- */

struct Turn; /* state of the queue in this pass: turn.h */

struct QueueDuty
{
	const char *name;
	/* Return whether the duty has work. failing: the view shows the duty as failing. */
	bool (*wanted)(const Turn &turn, bool failing);
	/* Do one step. Return the monotonic time of the next step; INT64_MAX: when wanted() says so. */
	int64 (*run)(const QueueRef &ref, const Turn &turn);
};

bool wants_counting(const Turn &turn, bool failing);
int64 count_lost_leases(const QueueRef &ref, const Turn &turn);
bool wants_window(const Turn &turn, bool failing);
int64 fill_window(const QueueRef &ref, const Turn &turn);
bool wants_timer(const Turn &turn, bool failing);
int64 fill_timer(const QueueRef &ref, const Turn &turn);
bool wants_counts(const Turn &turn, bool failing);
int64 count_rows(const QueueRef &ref, const Turn &turn);
int64 count_at_once(const QueueRef &ref, const Turn &turn);

inline constexpr QueueDuty queue_duties[] = {
	{"lost leases", wants_counting, count_lost_leases},
	{"window", wants_window, fill_window},
	{"timer", wants_timer, fill_timer},
	{"counts", wants_counts, count_rows},
};
inline constexpr int kQueueDuties = lengthof(queue_duties);
static_assert(kQueueDuties <= kQueueDutyNotes);
inline constexpr int kCountsDuty = 3;
static_assert(queue_duties[kCountsDuty].run == count_rows);

/* ---- the scheduler's state ---- */

struct Shift
{
	static constexpr int kPatience = 100;

	Database *database;
	uint32 generation; /* generation of the database's slot */
	SeatOrder order;   /* the launcher's order with which this process was started */
	int commit_level;  /* synchronous_commit as configured for the database */

	DutyState duties[kDuties];
	DutyState *queue_duties; /* by queue slot and duty; allocated at the start */

	struct
	{
		/*
		 * Notifications may have been lost without a pending flag: those of the last scheduler, or
		 * of a step that has raised an error.
		 */
		bool owed = true;
		int64 sent;		  /* monotonic: when the last notifications were sent */
		int64 not_before; /* monotonic: earliest next try, after a try that did not get its locks */
		int patience = kPatience; /* milliseconds to wait for the server's lock of notifications */
	} notify;

	struct
	{
		int64 busy;	   /* monotonic: when there last were queues or locks; 0: never */
		Attached told; /* problems that were logged already */
	} queues;

	struct
	{
		int64 events = -1; /* number of jobs enqueued and handed out at the last look */
		uint64 cleared_at; /* the token mark when void saved leases were deleted last */
		bool none_saved;   /* saved_lease is empty, so there is nothing to delete */
	} tokens;

	Rotation rotation;
	struct
	{
		Sweep sweep; /* position in the current segment */
		int segment;
		bool failed;  /* a job could not be expired in this sweep */
		bool failing; /* a job could not be expired in this sweep or in the last one */
	} expiry;

	struct
	{
		Reconciliation state;
		bool under_way; /* a step has begun and not ended, so it has raised an error */
	} reconcile;

	struct
	{
		int last = -1;		/* number of the last entry that was swept; -1: none */
		int64 due = 0;		/* monotonic: next look, if none is asked for */
		bool short_of_room; /* a session waits for a free entry */
	} locks;

	struct
	{
		bool known;		/* `next` is right as long as `changes` is the current value */
		uint32 changes; /* value of Database::schedule_changes */
		TimestampTz next = DT_NOEND;
		/* no schedule is due before this time, as of first_changes */
		TimestampTz first = DT_NOBEGIN;
		uint32 first_changes;
		/* monotonic: earliest next run; until then other duties run, or tables were locked */
		int64 not_before;
	} schedules;
};

/* End this scheduler. why: the reason to report to the launcher. */
[[noreturn]] void retire(const Shift &shift, SeatState why);

/* Run the duties that come before the first pass over the queues. */
void run_first_duties(Shift &shift);

/*
 * Run one step of the duty that has been due for longest, if one is due. Return when the next duty
 * is due (monotonic).
 */
int64 run_most_urgent_duty(Shift &shift);

/* Interval, in microseconds, of duties that nothing wakes. */
inline constexpr int64 kHousekeeping = USECS_PER_SEC;

} // namespace pgq
