#include "engine/named/lock_ends.h"

#include "engine/database.h"
#include "engine/quota.h"
#include "engine/registry.h"

namespace pgq {

/*
 * Expire all session-bound locks of this session. If another session relies on a lock or is giving
 * it back, the lock becomes free when that session's transaction ends.
 */
void
end_session_locks()
{
	with_locks([](LockHold &) { end_session_of(my_procno()); });
	for_each_lock([](LockHold &hold, int number) {
		NamedLock &lock = hold[number];
		if (!lock.now.session_bound || lock.now.procno != my_procno())
			return;
		lock.now.end_with_session(hold.monotonic());
		if (!lock.is_open())
			hold.wake_first(lock.key);
	});
}

void
free_locks(Oid database, Oid incarnation)
{
	for_each_lock([=](LockHold &hold, int number) {
		const LockKey &key = hold[number].key;
		if (key.database == database && key.incarnation == incarnation)
			hold.free(number);
	});
}

bool
has_locks(Oid database)
{
	bool any = false;
	for_locks_from(0, [&](const LockHold &hold, int number) {
		any = hold[number].key.database == database;
		return !any;
	});
	return any;
}

int
copy_locks(const Database *db, LockCopy *copies, int most)
{
	int n = 0;
	for_each_lock([&](const LockHold &hold, int number) {
		const NamedLock &lock = hold[number];
		if (n < most && is_of(lock.key, db) && !lock.key.is_run())
			copies[n++] = {lock.key, lock.slot, lock.is_open(), waiting_for(lock.key), lock.now};
	});
	return n;
}

int64
ask_for_sweep(const Database *db)
{
	static constexpr int64 kMost = 10 * USECS_PER_SEC;
	/*
	 * Longest time (microseconds) until the scheduler removes a lock on which a transaction relied
	 * a moment ago.
	 */
	static constexpr int64 kInUse = USECS_PER_SEC / 2;
	int64 longest = 0;
	for_each_lock([&](const LockHold &hold, int number) {
		const NamedLock &lock = hold[number];
		const Database &home = shared->databases[lock.home];
		bool gives_room = &home == db || home.locks.used > own_part(max_locks);
		if (!gives_room || (!lock.is_over(hold.monotonic()) && !lock.now.swept))
			return;
		longest = Max(longest, lock.in_use_until > hold.monotonic() ? kInUse : kMost);
		pg_atomic_write_u32(&shared->databases[lock.home].sweep_wanted, 1);
	});
	for (int i = 0; i < max_databases; i++)
		if (value_of(shared->databases[i].sweep_wanted) != 0)
			wake_scheduler(&shared->databases[i]);
	return longest;
}

} // namespace pgq
