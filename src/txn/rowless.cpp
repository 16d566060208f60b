/*
 * Leases of jobs whose rows go by hand.
 */
#include "engine/hold.h"
#include "txn/effects.h"
#include "txn/pending.h"

namespace pgq {

void
end_rowless(Lease *lease, int64 monotonic, QueueHold &hold)
{
	if (lease->state == LeaseState::kClaimed)
	{
		count_end(lease, LeaseEnd::kUncounted, false, monotonic, hold);
		hold.end(lease, true);
	}
	else if (lease->state == LeaseState::kClaiming)
		hold.doom(lease, Loss::kUndone, monotonic);
}

bool
note_rows_gone(Lease *lease, const RowsGone &gone, int64 monotonic, QueueHold &hold)
{
	lack_row(lease, gone);
	bool rowless = lease->rows_gone.at_all > 0;
	if (rowless)
		end_rowless(lease, monotonic, hold);
	return rowless;
}

} // namespace pgq
