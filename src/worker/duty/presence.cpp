/*
 * Presence: is anybody waiting for the database, is the extension here still? Nothing else may keep
 * the scheduler from asking that.
 */
#include "catalog/version.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

int64
look_around(Shift &shift)
{
	bool gone = false;
	bool wanted = false;
	worker_transaction([&] {
		gone = !extension_installed();
		/* With another version the next scheduler waits. */
		wanted = database_is_wanted() || (!gone && !version_served());
	});
	if (gone || wanted)
		retire(shift, gone ? SeatState::kAbsent : SeatState::kWanted);
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
