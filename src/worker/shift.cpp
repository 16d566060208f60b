#include "worker/shift.h"

#include "catalog/incarnation.h"
#include "worker/worker.h"

namespace pgq {

static int64
due_at(const Shift &shift, int i)
{
	const DutyState &state = shift.duties[i];
	int64 at = duties[i].wanted_at != nullptr ? duties[i].wanted_at(shift) : state.due;
	return Max(at, state.not_before);
}

static void
run_step(Shift &shift, int i)
{
	DutyState *state = &shift.duties[i];
	state->name = duties[i].name;
	state->note = &shift.database->duties[i];
	state->due = run_duty(state, [&] { return duties[i].run(shift); });
}

void
run_first_duties(Shift &shift)
{
	for (int i = 0; i < kDuties; i++)
		if (duties[i].first)
			run_step(shift, i);
}

int64
run_most_urgent_duty(Shift &shift)
{
	int urgent = 0;
	for (int i = 1; i < kDuties; i++)
		if (due_at(shift, i) < due_at(shift, urgent))
			urgent = i;
	if (due_at(shift, urgent) <= monotonic_now())
		run_step(shift, urgent);
	int64 next = INT64_MAX;
	for (int i = 0; i < kDuties; i++)
		next = Min(next, due_at(shift, i));
	return next;
}

void
retire(const Shift &shift, SeatState why)
{
	if (why == SeatState::kAbsent)
		worker_transaction([] { (void) free_gone_incarnations(); });
	say(shift.order, why);
	proc_exit(0);
}

} // namespace pgq
