/*
 * Duty: compare rows with memory, a few at a time (load/reconcile.h), and the memory about batches with
 * rows (worker/witness_check.h). Each step first looks again
 * at the suspects of the last step, and then reads more rows. Comparing a million jobs takes about
 * ten minutes.
 */
#include "engine/batch_watch.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

int64
reconcile(SchedulerState &scheduler)
{
	static constexpr int kRows = 2000;
	Reconciliation *state = &scheduler.reconcile.state;
	/*
	 * If the last step has raised an error, skip the segment of that step, so that damage in one
	 * segment does not keep the duty from other segments.
	 */
	if (scheduler.reconcile.under_way)
		skip_segment(state);
	scheduler.reconcile.under_way = true;
	(void) serving_transaction(AccessShareLock, [&] {
		if (repair_forgotten(state, nullptr, nullptr) && !reconcile_rows(state, kRows))
			pg_atomic_fetch_add_u64(&scheduler.database->reconciled, 1);
		read_few_rows();
		/* Check only when no batch is TOLD: a look at a batch finds ended witnesses, too. */
		if (!scheduler.batches.sweeping && !has_told_batches(MyDatabaseId))
			(void) survives([&] { check_witnesses(&scheduler.reconcile.witnesses); });
	});
	scheduler.reconcile.under_way = false;
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
