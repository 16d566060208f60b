/*
 * Reconcile: a few rows at a time. What looked odd the last time is looked at again, then some more
 * rows are read; a million jobs are read through in ten minutes.
 */
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

int64
reconcile(Shift &shift)
{
	static constexpr int kRows = 2000;
	Reconciliation *state = &shift.reconcile.state;
	/* The last step has raised: what is damaged in one segment must not keep it from the others. */
	if (shift.reconcile.under_way)
		skip_segment(state);
	shift.reconcile.under_way = true;
	(void) serving_transaction(AccessShareLock, [&] {
		if (repair_forgotten(state, nullptr, nullptr) && !reconcile_rows(state, kRows))
			pg_atomic_fetch_add_u64(&shift.database->reconciled, 1);
	});
	shift.reconcile.under_way = false;
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
