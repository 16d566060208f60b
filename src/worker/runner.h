/*
 * Runs the duties of a scheduler so that an error of one duty does not stop the other duties.
 *
 * An error of a duty is caught, noted for the view pgq_ext.duty, and logged at most once a minute.
 * The duty is tried again after 1 s, 2 s ... 1 min, while the other duties go on. The whole
 * transaction of the duty is rolled back, and the abort callbacks put back the leases and refills
 * that the duty had taken. The duty runs in a transaction of its own, not in a subtransaction, so
 * errors raised at commit are caught, too.
 *
 * All times are readings of the monotonic clock, in microseconds. INT64_MAX means that there is no
 * such time at present.
 */
#pragma once

#include "engine/registry.h"
#include "pg/survive.h"

namespace pgq {

/* The state of a duty in this process. */
struct DutyState
{
	const char *name;
	DutyStatus *note;
	QueueRef ref;	  /* for a duty of a queue: the queue; empty for a duty of the database */
	int64 due;		  /* time of the next run, as returned by the last run */
	int64 not_before; /* after a failure: earliest time of the next run */
	int failures;	  /* number of failures in a row */
	int64 told;		  /* when an error of the duty was last logged */
	bool failing;	  /* a part of the present run has failed, but the run goes on */
	bool noted;		  /* the view shows the duty as failing */
};

/* The steps of run_duty() before and after a run. end_duty() returns the time of the next run. */
void begin_duty(DutyState *duty, ErrorContextCallback *context);
int64 end_duty(DutyState *duty, ErrorContextCallback *context, bool raised, int64 next);

/*
 * Note the error that has just been caught. Log it if the last log entry of the duty is at least a
 * minute old. The caller rolls back and clears the error.
 */
void note_duty_error(MemoryContext context);

/*
 * Mark the running duty as failing although its run goes on, so that the error stays in the view
 * pgq_ext.duty.
 */
void keep_failing();

/* Delay the next run of the running duty as after an error. */
void rest_after_this();

/*
 * Run the duty by calling body(), which returns the time of the next run. Return that time, or a
 * later time if the duty has to rest after a failure.
 */
template <typename Body>
inline int64
run_duty(DutyState *duty, Body body)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorContextCallback told;
	volatile bool raised = true;
	volatile int64 next = 0;
	begin_duty(duty, &told);
	PG_TRY();
	{
		next = body();
		raised = false;
	}
	PG_CATCH();
	{
		note_duty_error(context);
		AbortOutOfAnyTransaction();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return end_duty(duty, &told, raised, next);
}

/*
 * Return whether the caught error says that resources are short (SQLSTATE class 53). In that case,
 * other work will probably fail as well.
 */
inline bool
is_shortage()
{
	return ERRCODE_TO_CATEGORY(geterrcode()) ==
		   ERRCODE_TO_CATEGORY(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
}

/* Like survives_alone(), but note the error as an error of the running duty. */
template <typename Body>
inline bool
survives(Body body, bool *short_of_resources = nullptr)
{
	MemoryContext context = CurrentMemoryContext;
	return survives_alone(body, [&] {
		if (short_of_resources != nullptr)
			*short_of_resources = is_shortage();
		note_duty_error(context);
		keep_failing();
	});
}

} // namespace pgq
