/*
 * Named locks whose holders have not given them back in time: their rows are deleted, and their places in memory are
 * free again. Nobody who wants such a lock waits for that.
 */
#include "engine/named_lock.h"
#include "sync/lock.h"
#include "sync/lock_load.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

int64
sweep(Shift &shift)
{
	static constexpr int64 kNextLook = 10 * USECS_PER_SEC;
	int swept = 0;
	/* Nobody has come through since the start: there may be rows. */
	if (has_locks(MyDatabaseId) || value_of(shift.database->locks_loaded) == 0)
		worker_transaction([&] {
			read_few_rows();
			if (try_to_load_locks())
				swept = sweep_locks();
		});
	return monotonic_now() + (swept > 0 ? kHousekeeping : kNextLook);
}

} // namespace pgq
