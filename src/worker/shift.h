/*
 * The state of a scheduler ("shift"): its duties, and what they remember while it runs.
 *
 * To add a duty, write a function in a file of the folder duty/, declare it here, and add a line to
 * a table below. What the duty remembers from run to run is a member of Shift. The view
 * pgq_ext.duty shows the names of the tables.
 *
 * A scheduler can end at any time. So Shift may hold only what the next scheduler can find out
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
	/* If given, return when the duty is due; the value that run() has returned is then ignored. */
	int64 (*wanted_at)(const Shift &shift);
	bool first; /* run before any queue is served */
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
	/* Return whether there is work. failing: the view says that the duty fails. */
	bool (*wanted)(const Turn &turn, bool failing);
	/* Do one step. Return the monotonic time of the next; INT64_MAX: when wanted() says so. */
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
	uint32 generation; /* of the database's slot */
	SeatOrder order;   /* the launcher's order with which this process was started */
	int commit_level;  /* synchronous_commit as configured for the database */

	DutyState duties[kDuties];
	DutyState *queue_duties; /* by queue slot and duty; allocated */

	struct
	{
		/*
		 * Notifications may be lost that no queue remembers: those of the last scheduler, or of a
		 * step that has raised an error.
		 */
		bool owed = true;
		int64 sent;		  /* monotonic: when the last ones were sent */
		int64 not_before; /* monotonic: do not send before; the last try did not get its locks */
		int patience = kPatience; /* milliseconds to wait for the server's lock of notifications */
	} notify;

	struct
	{
		int64 busy;	   /* monotonic: when there were queues or locks last; 0: never */
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
		bool failing; /* the same in this sweep, or in the last one while this one goes on */
	} expiry;

	struct
	{
		Reconciliation state;
		bool under_way; /* a step has begun and not ended, so it has raised an error */
	} reconcile;

	struct
	{
		int last = -1;		/* entries up to this one have been swept; -1: none */
		int64 due = 0;		/* monotonic: next look, if none is asked for */
		bool short_of_room; /* a session waits for an entry in this sweep */
	} locks;

	struct
	{
		bool known;		/* `next` is right as long as `changes` is the current value */
		uint32 changes; /* value of Database::schedule_changes */
		TimestampTz next = DT_NOEND;
		TimestampTz first = DT_NOBEGIN; /* no schedule is due before, as of first_changes */
		uint32 first_changes;
		/* monotonic: do not run before; other duties come first, or tables were locked */
		int64 not_before;
	} schedules;
};

/* End this scheduler, and tell the launcher why. */
[[noreturn]] void retire(const Shift &shift, SeatState why);

/* Run the duties that must run before any queue is served. */
void run_first_duties(Shift &shift);

/*
 * Run one step of the duty that has been due for longest, if any is due. Return when the next duty
 * is due (monotonic).
 */
int64 run_most_urgent_duty(Shift &shift);

/* Interval, in microseconds, at which duties look that are not woken. */
inline constexpr int64 kHousekeeping = USECS_PER_SEC;

} // namespace pgq
