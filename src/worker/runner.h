/*
 * How a duty of a scheduler is run: it fails alone.
 *
 * What a duty raises is caught, noted for the view pgq_ext.duty, told in the log at most once a
 * minute, and tried again after 1 s, 2 s ... 1 min, while the others go on. The whole transaction is
 * rolled back, by which its callbacks put leases and refills back: no subtransaction is left behind,
 * and what is raised at commit is caught, too.
 *
 * All times are monotonic; INT64_MAX is never, by what is known now.
 */
#pragma once

#include "engine/registry.h"
#include "pg/pg.h"

namespace pgq {

/* What this process knows of a duty. */
struct DutyState
{
	const char *name;
	DutyNote *note;
	QueueRef ref;	  /* the queue whose duty it is; none: the database's */
	int64 due;		  /* when it shall run next, as it has said itself */
	int64 not_before; /* it rests until then */
	int failures;	  /* in a row */
	int64 told;		  /* last line in the log */
	bool failing;	  /* something in this run has failed, but the run as a whole has not */
	bool noted;		  /* the view says that it fails */
};

/* Before and after a run. end_duty() returns when the next one is due. */
void begin_duty(DutyState *duty, ErrorContextCallback *context);
int64 end_duty(DutyState *duty, ErrorContextCallback *context, bool raised, int64 next);

/* Note the error that has just been caught, and tell of it. The caller rolls back and forgets it. */
void note_duty_error(MemoryContext context);

/* Of the duty that is being run: it goes on, but something in it goes on failing, so its error stays in the view. */
void keep_failing();

/* ... and it shall rest after this run as if it had raised. */
void rest_after_this();

/* Run body, which returns when it wants to run next. Returns when it will. */
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
 * Run body in a subtransaction. False: it has raised, and handle has been called with that error, before the rollback,
 * which takes the error's memory with it; the one who called us goes on.
 */
template <typename Body, typename Handle>
inline bool
survives_alone(Body body, Handle handle)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool survived = false;
	BeginInternalSubTransaction(nullptr);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		body();
		ReleaseCurrentSubTransaction();
		survived = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		handle();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return survived;
}

/* Of the error that is being handled: for lack of resources (53xxx), so that others will fail as well. */
inline bool
is_shortage()
{
	return ERRCODE_TO_CATEGORY(geterrcode()) ==
		   ERRCODE_TO_CATEGORY(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
}

/* The same, where what it raises is an error of the duty, which goes on. */
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
