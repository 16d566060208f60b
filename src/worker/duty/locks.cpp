/*
 * Named locks whose holders have not given them back in time: their rows are deleted, and their places in memory are
 * free again. Nobody who wants such a lock waits for that.
 */
#include "engine/named_lock.h"
#include "pg/stop_point.h"
#include "sync/lock.h"
#include "sync/lock_load.h"
#include "txn/lock.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Each by itself: somebody may have locked its row. Then the transaction ends, for the sake of those that were swept before,
 * and of who waits for them. Returns how many were tried.
 */
static int
sweep_each(const OverdueLock *overdue, int n)
{
	for (int i = 0; i < n; i++)
		if (!survives([&] { (void) sweep_lock(overdue[i]); }))
			return i + 1;
	return n;
}

int64
sweep_wanted_at(const Shift &shift)
{
	return value_of(shift.database->sweep_wanted) != 0 ? monotonic_now() : shift.locks.due;
}

int64
sweep(Shift &shift)
{
	static constexpr int64 kNextLook = 10 * USECS_PER_SEC;
	/* A lock that has only just ended is left alone, since somebody may want it; unless others lack room. */
	static constexpr int64 kLong = 10 * USECS_PER_SEC;
	static constexpr int kAtOnce = 64;
	OverdueLock overdue[kAtOnce];
	int n = 0;
	int tried = 0;
	auto &state = shift.locks;
	state.due = monotonic_now() + kHousekeeping;
	if (pg_atomic_exchange_u32(&shift.database->sweep_wanted, 0) != 0)
	{
		state.last = -1;
		state.short_of_room = true;
	}
	settle_prepared_locks();
	/* Nobody has come through since the start: there may be rows. */
	if (has_locks(MyDatabaseId) || value_of(shift.database->locks_loaded) == 0)
		worker_transaction([&] {
			read_few_rows();
			if (!try_to_load_locks())
				return;
			n = overdue_locks(state.last, state.short_of_room ? 0 : kLong, overdue, kAtOnce);
			if (n > 0)
				stop_point("locks-overdue");
			tried = sweep_each(overdue, n);
		});
	bool more = n == kAtOnce || tried < n;
	state.last = more ? overdue[tried - 1].number : -1;
	state.short_of_room = more && state.short_of_room;
	/* As fast as they come: every queue has its turn in between. But what fails is not tried all the time. */
	int64 rest = more ? 0 : kNextLook;
	return state.due = monotonic_now() + (tried < n ? kHousekeeping : rest);
}

} // namespace pgq
