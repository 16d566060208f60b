/*
 * Duty: sweep named locks whose time is over. Sweeping a lock deletes its row and frees its entry
 * in memory. A session that wants such a lock need not wait for the sweep.
 */
#include "engine/named/lock_ends.h"
#include "engine/named/named_lock.h"
#include "pg/stop_point.h"
#include "sync/lock.h"
#include "sync/lock_load.h"
#include "txn/lock.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Sweep each lock in a subtransaction, since another session may have locked the row of the lock.
 * Stop after the first failure: the commit then frees the entries of the locks swept so far for
 * sessions that wait for an entry. Return the number of locks tried, including the failed one.
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
sweep_wanted_at(const SchedulerState &scheduler)
{
	return value_of(scheduler.database->sweep_wanted) != 0 ? monotonic_now() : scheduler.locks.due;
}

int64
sweep(SchedulerState &scheduler)
{
	static constexpr int64 kNextLook = 10 * USECS_PER_SEC;
	/*
	 * Skip a lock that ended less than kLong ago, since a session may be about to take that lock.
	 * If a session waits for a free entry, skip no lock.
	 */
	static constexpr int64 kLong = 10 * USECS_PER_SEC;
	static constexpr int kAtOnce = 64;
	OverdueLock overdue[kAtOnce];
	int n = 0;
	int tried = 0;
	auto &state = scheduler.locks;
	state.due = monotonic_now() + kHousekeeping;
	if (pg_atomic_exchange_u32(&scheduler.database->sweep_wanted, 0) != 0)
	{
		state.last = -1;
		state.short_of_room = true;
	}
	settle_prepared_locks();
	/*
	 * If locks_loaded is 0, no session has asked for a named lock since the start of the server, so
	 * memory may lack the locks of the table.
	 */
	if (has_locks(MyDatabaseId) || value_of(scheduler.database->locks_loaded) == 0)
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
	/*
	 * The scheduler makes a pass over all queues between two batches, so the next batch may be due
	 * at once. After a failure, rest for kHousekeeping.
	 */
	int64 rest = more ? 0 : kNextLook;
	return state.due = monotonic_now() + (tried < n ? kHousekeeping : rest);
}

} // namespace pgq
