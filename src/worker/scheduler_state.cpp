#include "worker/scheduler_state.h"

#include "catalog/incarnation.h"
#include "worker/worker.h"

namespace pgq {

static int64
due_at(const SchedulerState &scheduler, int i)
{
	const DutyState &state = scheduler.duties[i];
	int64 at = duties[i].wanted_at != nullptr ? duties[i].wanted_at(scheduler) : state.due;
	return Max(at, state.not_before);
}

static void
run_step(SchedulerState &scheduler, int i)
{
	DutyState *state = &scheduler.duties[i];
	state->name = duties[i].name;
	state->note = &scheduler.database->duties[i];
	state->due = run_duty(state, [&] { return duties[i].run(scheduler); });
}

void
run_first_duties(SchedulerState &scheduler)
{
	for (int i = 0; i < kDuties; i++)
		if (duties[i].first)
			run_step(scheduler, i);
}

int64
run_most_urgent_duty(SchedulerState &scheduler)
{
	int urgent = 0;
	for (int i = 1; i < kDuties; i++)
		if (due_at(scheduler, i) < due_at(scheduler, urgent))
			urgent = i;
	if (due_at(scheduler, urgent) <= monotonic_now())
		run_step(scheduler, urgent);
	int64 next = INT64_MAX;
	for (int i = 0; i < kDuties; i++)
		next = Min(next, due_at(scheduler, i));
	return next;
}

void
retire(const SchedulerState &scheduler, ExitState why)
{
	if (why == ExitState::kAbsent)
		worker_transaction([] { (void) free_gone_incarnations(); });
	say(scheduler.order, why);
	proc_exit(0);
}

} // namespace pgq
