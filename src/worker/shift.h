/*
 * The shift of a scheduler: its duties, and what they remember while it lasts.
 *
 * A new duty is a function in a file of the folder duty/, and here its declaration and a line in a
 * table; what it remembers from run to run is a member of Shift. The view pgq_ext.duty has the
 * names from the tables.
 *
 * A shift can end anywhere: it knows nothing that the next one cannot find out again from shared
 * memory and the tables.
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
	/* One step, which waits for nobody. Returns the monotonic time of the next. */
	int64 (*run)(Shift &shift);
	/* If given, when it is due: others decide that, not what run() has said. */
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

/* ---- what is done for each queue, whenever it is served ---- */

struct Turn; /* how it is with the queue: turn.h */

struct QueueDuty
{
	const char *name;
	/* Is there anything to do? failing: the view says that the duty fails. */
	bool (*wanted)(const Turn &turn, bool failing);
	/* As above; INT64_MAX: when it is wanted. */
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

/* ---- the shift ---- */

struct Shift
{
	static constexpr int kPatience = 100;

	Database *database;
	uint32 generation; /* of the database's slot */
	SeatOrder order;   /* what the launcher has said when it started us */
	int commit_level;  /* synchronous_commit, where nothing is set otherwise */

	DutyState duties[kDuties];
	DutyState *queue_duties; /* by slot of the queue and duty; allocated */

	struct
	{
		bool owed =
			true; /* some may be that no queue knows of: by the last scheduler, or by a step that has raised */
		int64 sent;				  /* monotonic: the last ones */
		int64 not_before;		  /* monotonic: they could not be sent just now */
		int patience = kPatience; /* in milliseconds: so long their lock is waited for */
	} notify;

	struct
	{
		int64 busy;	   /* monotonic: when there were any last; 0: not in this shift */
		Attached told; /* what the log has been told of */
	} queues;

	struct
	{
		int64 events = -1; /* jobs enqueued and handed out, at the last look */
		uint64 cleared_at; /* the mark when saved leases that are void were deleted last */
		bool none_saved;   /* ... and there are no others */
	} tokens;

	Rotation rotation;
	struct
	{
		Sweep sweep; /* of the segment it is at */
		int segment;
		bool failed;  /* there has been one in this sweep that could not be ended */
		bool failing; /* ... or in the last one */
	} expiry;

	struct
	{
		Reconciliation state;
		bool under_way; /* a step has begun and not ended */
	} reconcile;

	struct
	{
		int last = -1;		/* the entry up to which overdue ones have been given back; -1: none */
		int64 due = 0;		/* monotonic: when it looks by itself */
		bool short_of_room; /* in this round through the entries: somebody waits for one */
	} locks;

	struct
	{
		bool known;		/* when the next one is due, as of: */
		uint32 changes; /* Database::schedule_changes */
		TimestampTz next = DT_NOEND;
		TimestampTz first = DT_NOBEGIN; /* none is due before it, as of: */
		uint32 first_changes;
		int64
			not_before; /* monotonic: others are to have their turn, or it could not be done just now */
	} schedules;
};

/* End the shift, and say why. */
[[noreturn]] void retire(const Shift &shift, SeatState why);

/* Run the duties that come before all else. */
void run_first_duties(Shift &shift);

/* A step of the duty that has been due for longest, if any is due. Returns when the next one is. */
int64 run_most_urgent_duty(Shift &shift);

/* How often those duties look that nobody calls. */
inline constexpr int64 kHousekeeping = USECS_PER_SEC;

} // namespace pgq
