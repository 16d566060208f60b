/*
 * The state of a scheduler: its duties, and the data that the duties keep between runs.
 *
 * To add a duty, write a function in a file of the folder duty/, declare it here, and add a line to
 * one of the tables below. Data that the duty keeps from run to run is a member of SchedulerState. The view
 * pgq_ext.duty shows the names that the tables give to the duties.
 *
 * A scheduler can end at any time. So SchedulerState may only have data that the next scheduler can find out
 * again from shared memory and from the extension's tables.
 */
#pragma once

#include "batches/look.h"
#include "catalog/queue_row.h"
#include "dependencies/judge.h"
#include "engine/child_watch.h"
#include "engine/exit_status.h"
#include "jobs/expiry.h"
#include "load/reconcile.h"
#include "ring/rotation.h"
#include "worker/runner.h"
#include "worker/witness_check.h"

namespace pgq {

struct SchedulerState;

/* ---- the duties for the whole database ---- */

struct Duty
{
	const char *name;
	/*
	 * Do one step, without waiting for other sessions. Return the monotonic time of the next step.
	 */
	int64 (*run)(SchedulerState &scheduler);
	/*
	 * If not NULL: returns the monotonic time at which the duty is due; the result of run() is then
	 * ignored.
	 */
	int64 (*wanted_at)(const SchedulerState &scheduler);
	bool first; /* the first run comes before the scheduler's first pass over the queues */
};

int64 look_around(SchedulerState &scheduler);
int64 send_notifications(SchedulerState &scheduler);
int64 notifications_wanted_at(const SchedulerState &scheduler);
int64 attach_queues(SchedulerState &scheduler);
int64 keep_token_mark_ahead(SchedulerState &scheduler);
int64 rotate(SchedulerState &scheduler);
int64 retain(SchedulerState &scheduler);
int64 expire(SchedulerState &scheduler);
int64 reconcile(SchedulerState &scheduler);
int64 sweep(SchedulerState &scheduler);
int64 sweep_wanted_at(const SchedulerState &scheduler);
int64 fire_schedule(SchedulerState &scheduler);
int64 schedules_wanted_at(const SchedulerState &scheduler);
int64 watch_handlers(SchedulerState &scheduler);
int64 handlers_wanted_at(const SchedulerState &scheduler);
int64 clear_checkpoints(SchedulerState &scheduler);
int64 settle_batches(SchedulerState &scheduler);
int64 batches_wanted_at(const SchedulerState &scheduler);
int64 settle_children(SchedulerState &scheduler);
int64 children_wanted_at(const SchedulerState &scheduler);

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
	{"handlers", watch_handlers, handlers_wanted_at, false},
	{"checkpoints", clear_checkpoints, nullptr, false},
	{"batches", settle_batches, batches_wanted_at, false},
	{"children", settle_children, children_wanted_at, false},
};
inline constexpr int kDuties = lengthof(duties);
inline constexpr int kHandlersDuty = 10;
static_assert(duties[kHandlersDuty].run == watch_handlers);
static_assert(kDuties <= kDutyStatuses);

/* ---- duties for each queue ---- */

struct QueuePass; /* findings of a pass over a queue (queue_pass.h) */

struct QueueDuty
{
	const char *name;
	/* Return whether the duty has work. failing: the view shows the duty as failing. */
	bool (*wanted)(const QueuePass &pass, bool failing);
	/*
	 * Do one step. Return the monotonic time of the next step; INT64_MAX: the next step is due when
	 * wanted() returns true.
	 */
	int64 (*run)(const QueueRef &ref, const QueuePass &pass);
};

bool wants_counting(const QueuePass &pass, bool failing);
int64 count_lost_leases(const QueueRef &ref, const QueuePass &pass);
bool wants_window(const QueuePass &pass, bool failing);
int64 fill_window(const QueueRef &ref, const QueuePass &pass);
bool wants_timer(const QueuePass &pass, bool failing);
int64 fill_timer(const QueueRef &ref, const QueuePass &pass);
bool wants_counts(const QueuePass &pass, bool failing);
int64 count_rows(const QueueRef &ref, const QueuePass &pass);
int64 count_at_once(const QueueRef &ref, const QueuePass &pass);
bool wants_worker(const QueuePass &pass, bool failing);
int64 start_handler_worker(const QueueRef &ref, const QueuePass &pass);

inline constexpr QueueDuty queue_duties[] = {
	{"lost leases", wants_counting, count_lost_leases},
	{"window", wants_window, fill_window},
	{"timer", wants_timer, fill_timer},
	{"counts", wants_counts, count_rows},
	{"handler", wants_worker, start_handler_worker},
};
inline constexpr int kQueueDuties = lengthof(queue_duties);
static_assert(kQueueDuties <= kQueueDutyStatuses);
inline constexpr int kCountsDuty = 3;
static_assert(queue_duties[kCountsDuty].run == count_rows);

/* ---- the scheduler's state ---- */

/* Number of batches at which a step of the duty "batches" looks, at most. */
inline constexpr int kLooksAtOnce = 64;

struct BatchesState
{
	/* A batch at which the duty looks again at a certain time. */
	struct Later
	{
		int64 batch_id; /* 0: the entry is free */
		int64 at;		/* monotonic */
		int64 delay;	/* microseconds from the last look to this one */
		/* members of this cancelled batch with smaller ids were visited in this pass */
		int64 cancelled_to;
	};
	struct Look
	{
		int64 batch_id;
		LookResult result;
	};

	bool begun;				  /* memory knows that this process watches the batches */
	Look looks[kLooksAtOnce]; /* the looks of a step that has begun and not ended */
	int n;
	Later later[kLooksAtOnce];
	/* A sweep looks at all pending batches, in the order of their ids. */
	bool sweeping;
	int64 swept_to;				/* id of the last batch that the sweep has visited */
	int64 sweep_at = INT64_MAX; /* monotonic: another sweep begins */
	/* `due` is the first due_at in the table */
	bool due_known;
	TimestampTz due = DT_NOEND;
	TimestampTz due_to =
		DT_NOBEGIN;	  /* the due_at up to which this pass over due batches has come */
	int64 not_before; /* monotonic: earliest next step */
};

struct ChildrenState
{
	enum Phase : uint8
	{
		kDependencies,
		kOutcomes,
		kFlag,
	};
	bool begun;	 /* begin_watching_children() was called */
	bool failed; /* a step has begun and not ended */
	/* The children and parents of which the scheduler was told, and the next ones to judge. */
	ToldTaken taken;
	int next_child;
	int next_parent;
	int64 parents_to; /* children of the next parents with ids up to this one were judged */
	/* Children for which the last step had no room, since it has looked at many parents. */
	int64 left[kChildrenAtOnce];
	int left_n;
	/*
	 * A sweep judges the blocked children with ids greater than swept_to, in ascending order. A sweep
	 * takes turns with the children that memory was told of, so that it delays none of them for long.
	 */
	bool sweeping;
	bool swept_last; /* the last step was one of the sweep */
	int64 swept_to;
	int64 sweep_from = INT64_MAX; /* another sweep begins with this child; INT64_MAX: none */
	/* Children to judge again at later_at (monotonic), because another session had them in hand. */
	int64 later[kChildrenAtOnce];
	int later_n;
	/* the first of the children for which `later` had no room; INT64_MAX: none */
	int64 later_from = INT64_MAX;
	int64 later_at;
	int64 later_delay;
	bool later_again; /* the children of this step come from `later` */
	/* monotonic: when to judge all children again, since rows of parents were missing */
	int64 unknown_at = INT64_MAX;
	/* Children with an unknown parent, and since when this process knows that (monotonic). */
	static constexpr int kUnknownMax = 256;
	struct
	{
		int64 child_id;
		int64 since;
	} unknown[kUnknownMax];
	int unknown_n;
	int64 not_before;	/* monotonic: earliest next step that judges children */
	int64 delay;		/* pause before the next step, in microseconds, if a lock was not free */
	Phase phase;		/* what the next step of garbage collection does */
	int64 collected_to; /* position of garbage collection in the table of this phase */
	int64 collect_at;	/* monotonic */
};

struct SchedulerState
{
	static constexpr int kPatience = 100;

	Database *database;
	uint32 generation; /* generation of the database's slot */
	StartOrder order;  /* the launcher's order with which this process was started */
	int commit_level;  /* synchronous_commit as configured for the database */

	DutyState duties[kDuties];
	DutyState *queue_duties; /* by queue slot and duty; allocated at the start */

	struct
	{
		/*
		 * true: NOTIFYs may be owed for which no pending flag is set, because the last scheduler,
		 * or a step that raised an error, had cleared the flags without sending
		 */
		bool owed = true;
		int64 sent;		  /* monotonic: time of the last try to send NOTIFYs */
		int64 not_before; /* monotonic: earliest next try, if the last try did not get its locks */
		int patience = kPatience; /* milliseconds to wait in lock_notifications() */
	} notify;

	struct
	{
		int64 busy; /* monotonic: last time at which there were queues or named locks; 0: never */
		Attached told; /* problems that were logged already */
	} queues;

	struct
	{
		int64 events =
			-1; /* number of jobs enqueued and handed out so far, at the last run of the duty */
		uint64 cleared_at; /* the token mark at the last delete of void saved leases */
		bool none_saved;   /* the table saved_lease is empty */
	} tokens;

	Rotation rotation;
	struct
	{
		Sweep sweep; /* position in the current segment */
		int segment;
		bool failed;  /* a job could not be expired in this sweep */
		bool failing; /* a job could not be expired in this sweep or in the last sweep */
	} expiry;

	struct
	{
		Reconciliation state;
		bool
			under_way; /* a step has begun and not ended; still true at the next step if the step has raised an error */
		WitnessCheck witnesses;
	} reconcile;

	struct
	{
		int last = -1;		/* number of the last entry that was swept; -1: none */
		int64 due = 0;		/* monotonic: next sweep, if no session waits for a free entry */
		bool short_of_room; /* a session waits for a free entry */
	} locks;

	struct
	{
		bool known;		/* `next` is known, and right while definition_changes is `changes` */
		uint32 changes; /* value of Database::definition_changes */
		TimestampTz next = DT_NOEND;
		/* no schedule is due before this time, while definition_changes is first_changes */
		TimestampTz first = DT_NOBEGIN;
		uint32 first_changes;
		/*
		 * monotonic: earliest next run of the duty. After a run that got its locks, this is the end
		 * of the run, so that duties that have waited for longer run first. After any other run it
		 * is kHousekeeping later than the begin of the run.
		 */
		int64 not_before;
	} schedules;

	struct
	{
		bool known;		/* the handlers were read since this process became the scheduler */
		uint32 changes; /* value of Database::definition_changes at that time */
		int n;			/* number of handlers */
		uint32 tried;	/* the same value at the last try to read the handlers */
		/* monotonic: earliest next try, if the last try did not get its locks */
		int64 not_before;
	} handlers;

	struct
	{
		/* the job up to which this pass over the table has come; 0: a new pass begins */
		int64 last;
		bool failed;  /* rows could not be deleted in this pass */
		bool failing; /* rows could not be deleted in this pass or in the last pass */
	} checkpoints;

	BatchesState batches;
	/* The retention of batches goes on with batches that finished later than this. */
	TimestampTz batches_kept_from = DT_NOBEGIN;
	ChildrenState children;
};

/* End this scheduler. why: the reason to report to the launcher. */
[[noreturn]] void retire(const SchedulerState &scheduler, ExitState why);

/* Run the duties that come before the first pass over the queues. */
void run_first_duties(SchedulerState &scheduler);

/*
 * Run one step of the duty that has been due for longest, if any duty is due. Return when the next
 * duty is due (monotonic).
 */
int64 run_most_urgent_duty(SchedulerState &scheduler);

/* Interval, in microseconds, of duties for which no event wakes the scheduler. */
inline constexpr int64 kHousekeeping = USECS_PER_SEC;

} // namespace pgq
