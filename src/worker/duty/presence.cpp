/*
 * Duty: end the scheduler when another session wants to drop, rename or copy the database, or when
 * the extension is gone. No other duty may delay this check.
 */
#include "catalog/version.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

int64
look_around(SchedulerState &scheduler)
{
	bool gone = false;
	bool wanted = false;
	worker_transaction([&] {
		gone = !extension_installed();
		/*
		 * If this library does not support the version of the SQL objects, end this scheduler. The
		 * next scheduler waits for a version that the library supports.
		 */
		wanted = database_is_wanted() || (!gone && !version_served());
	});
	if (gone || wanted)
		retire(scheduler, gone ? ExitState::kAbsent : ExitState::kWanted);
	return monotonic_now() + kHousekeeping;
}

} // namespace pgq
