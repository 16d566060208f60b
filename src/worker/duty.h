/*
 * The duties of a scheduler, each on its own: what one of them raises is caught, noted for the
 * view pgq_ext.duty, told in the log at most once a minute, and tried again after 1 s, 2 s ...
 * 1 min, while the others go on.
 *
 * The whole transaction is rolled back, by which its callbacks put leases and refills back: no
 * subtransaction is left behind, and what is raised at commit is caught, too.
 */
#pragma once

#include "engine/registry.h"
#include "pg/pg.h"

namespace pgq {

/* What this process knows of a duty: of one queue, if there is a lock of its own. */
struct DutyState
{
	const char *name;
	DutyNote *note;
	LWLock *lock;
	const Queue *queue;
	uint32 generation; /* of the queue */
	int failures;	   /* in a row */
	int64 not_before;  /* monotonic: backs off until then */
	int64 told;		   /* monotonic: last line in the log */
	bool failed;	   /* in this run, but not as a whole */
	bool noted;		   /* the view says that it fails */
};

/* The duty that is being run. */
extern DutyState *current_duty;

void begin_duty(DutyState *duty, ErrorContextCallback *context);
void end_duty(DutyState *duty, ErrorContextCallback *context, bool raised, int64 next);

/* Note the error that has just been caught, and tell of it. The caller rolls back and forgets it. */
void note_duty_error(MemoryContext context);

/* The duty goes on, but something in it goes on failing: its error stays in the view. */
void keep_failing();

/* As if it had raised: it backs off. */
void back_off(DutyState *duty);

/* Run body, which returns the monotonic time of its next run. False: it has raised. */
template <typename Body>
inline bool
run_duty(DutyState *duty, int64 *next, Body body)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorContextCallback told;
	volatile bool raised = true;
	begin_duty(duty, &told);
	PG_TRY();
	{
		*next = body();
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
	end_duty(duty, &told, raised, *next);
	return !raised;
}

/*
 * Run body in a subtransaction. False: it has raised, which is noted as an error of the duty, which goes on.
 * *short_of_resources: for lack of resources (53xxx), so that others will fail as well.
 */
template <typename Body>
inline bool
survives(Body body, bool *short_of_resources = nullptr)
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
		if (short_of_resources != nullptr)
			*short_of_resources = ERRCODE_TO_CATEGORY(geterrcode()) ==
								  ERRCODE_TO_CATEGORY(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
		note_duty_error(context);
		keep_failing();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return survived;
}

} // namespace pgq
