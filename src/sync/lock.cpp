#include "sync/lock.h"

#include "catalog/token_mark.h"
#include "engine/named/lock_ends.h"
#include "load/attach.h"
#include "pg/client.h"
#include "pg/stop_point.h"
#include "pg/wait_events.h"
#include "sync/lock_load.h"
#include "sync/lock_row.h"
#include "sync/lock_tag.h"
#include "txn/deadlock.h"
#include "txn/lock.h"
#include "txn/session_end.h"

namespace pgq {

/* ---- taking ---- */

/*
 * Note that a transaction relies on a grant whose time is over, so that sessions do not ask for the
 * tag of the grant again for a while.
 */
static void
note_use(int number, int64 token)
{
	static constexpr int64 kAskAgain = 100 * 1000;
	with_locks([&](LockHold &hold) {
		if (hold[number].now.token == token)
			hold[number].in_use_until = hold.monotonic() + kAskAgain;
	});
}

/*
 * Lock the tag of a grant without queueing, and keep the tag locked. Returns false if a transaction
 * relies on the grant. The scheduler, or a call with a stale token, may have locked the tag for a
 * moment, so retry up to *naps times, 1 ms apart.
 */
static bool
is_unused(int64 token, int *naps)
{
	bool unused = lock_grant(token, ExclusiveLock, false);
	for (; *naps > 0 && !unused; --*naps)
	{
		pg_usleep(1000);
		unused = lock_grant(token, ExclusiveLock, false);
	}
	return unused;
}

/*
 * Store the present incarnation of the extension in the request. Called after every wait, since the
 * extension may have been dropped and created during the wait.
 */
static void
find_incarnation(const LockWish &wish, LockRequest *request)
{
	AcceptInvalidationMessages();
	const Tables *t = &tables_with_locks();
	while (!token_mark_is_ahead(t->database, kTokenLead))
	{
		advance_token_mark(kTokenLead, true, synchronous_commit);
		t = &tables_with_locks();
	}
	request->database = t->database;
	request->generation = t->database_generation;
	request->key = lock_key_of(t->database, wish.name, wish.period, wish.bucket);
}

/*
 * Take a slot of the lock without waiting for the holders. Wait only for the scheduler, if the
 * scheduler is about to end a grant of the lock.
 */
static LockTaken
try_to_take(const LockWish &wish, LockRequest *request)
{
	/* Naps of 1 ms that is_unused() may still take. If it fails, note_use() makes the loop skip the slot. */
	int naps = 10;
	for (;;)
	{
		find_incarnation(wish, request);
		settle_prepared_locks(request->database, request->key.name);
		reserve_lock_effect();
		stop_point("lock-take");
		LockTaken taken = take_lock_for_transaction(request->database, *request);
		/*
		 * Release the tag that the last pass of this loop has locked for this pass. Then start
		 * again, wait for the scheduler, or lock the tag of a grant whose time is over.
		 */
		if (request->unused != 0)
			unlock_grant(request->unused, ExclusiveLock);
		request->unused = 0;
		if (taken.answer == TakeAnswer::kGone || taken.answer == TakeAnswer::kAboveMark)
			continue;
		if (taken.answer == TakeAnswer::kBusy && taken.swept != 0)
		{
			(void) lock_grant(taken.swept, ShareLock);
			unlock_grant(taken.swept, ShareLock);
			continue;
		}
		if (taken.answer != TakeAnswer::kOver)
			return taken;
		if (is_unused(taken.token, &naps))
			request->unused = taken.token;
		else
			note_use(taken.number, taken.token);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Return how long to sleep, in milliseconds: at most deadlock_timeout, so that deadlocks are found,
 * and at most 1 s, in case an earlier waiter has died without waking this session.
 */
static long
nap_of_lock(int64 look_again, int64 end)
{
	static constexpr int64 kLookAnyway = USECS_PER_SEC;
	int64 now = monotonic_now();
	int64 nap =
		Min(Min(look_again, end) - now, Min(kLookAnyway, DeadlockTimeout * INT64CONST(1000)));
	return Max(0, nap) / 1000 + 1;
}

static void
stand_in_line(const LockKey &key, int32 slots)
{
	with_locks([&](LockHold &hold) {
		const LockKey *awaited = awaited_by(my_procno());
		if (awaited != nullptr && !(*awaited == key))
			hold.leave_line();
		join_lock_line(key, slots);
	});
}

/* Take a slot, or wait in the line of the lock (lock_line.h), which is joined before each try. */
static LockTaken
wait_to_take(const LockWish &wish, LockRequest *request, int64 end)
{
	DeadlockWatch deadlock;
	LockTaken taken;
	for (;;)
	{
		ResetLatch(MyLatch);
		find_incarnation(wish, request);
		stand_in_line(request->key, request->slots);
		taken = try_to_take(wish, request);
		if (taken.answer != TakeAnswer::kBusy || monotonic_now() >= end)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 nap_of_lock(taken.look_again, end), wait_events.lock);
		CHECK_FOR_INTERRUPTS();
		check_client();
		deadlock.look();
	}
	with_locks([](LockHold &hold) { hold.leave_line(); });
	return taken;
}

/*
 * Called when no entry is left: wait a moment for the schedulers to free entries of locks whose
 * time is over. Returns false if there are no such locks, or if the schedulers take too long.
 */
static bool
wait_for_room(const Database *db, int64 since)
{
	static constexpr long kNap = 10;
	settle_prepared_locks();
	if (monotonic_now() - since >= ask_for_sweep(db))
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kNap,
					 wait_events.lock);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	check_client();
	return true;
}

static LockTaken
take_in_time(const LockWish &wish, LockRequest *request, int64 end)
{
	int64 began = monotonic_now();
	/* When wait_for_room() gives up, try once more: an entry may have been freed just before. */
	for (bool last = false;;)
	{
		LockTaken taken = try_to_take(wish, request);
		if (taken.answer == TakeAnswer::kBusy && monotonic_now() < end)
			taken = wait_to_take(wish, request, end);
		if (taken.answer != TakeAnswer::kFull || last)
			return taken;
		last = !wait_for_room(request->database, Max(began, end));
	}
}

int64
end_of_lock_wait(const LockWish &wish)
{
	return wish.wait > 0 ? end_of_wait(wish.wait) : 0;
}

bool
take_lock_in_memory(const LockWish &wish, int64 end, HeldLock *held)
{
	LockRequest request = {.slots = wish.slots,
						   .session_bound = wish.session_bound,
						   .ttl = wish.ttl,
						   .owner = wish.owner};
	if (wish.session_bound)
		at_session_end(end_session_locks);
	LockTaken taken = take_in_time(wish, &request, end);
	if (taken.answer == TakeAnswer::kFull)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many named locks of pgq_ext are held at the same time"),
				 errhint("Raise pgq_ext.max_locks (now %d) and restart the server.", max_locks)));
	*held = {request.database, request.key, taken.number, taken.slot, taken.token, taken.before};
	return taken.answer == TakeAnswer::kTaken;
}

/*
 * Keep the extension from being dropped until the transaction ends. Returns false if it was dropped
 * since the lock was taken.
 */
static bool
keep_incarnation(const HeldLock &held)
{
	LockRelationOid(tables().held_lock(), RowExclusiveLock);
	return tables().queue == held.key.incarnation;
}

/*
 * Write the row of a lock. If the write had to look at all rows of the slot (floor = 0), note its
 * duration, by which raise_row_floor() decides how often that may happen.
 */
static bool
write_row_above(const HeldLock &held, const Grant &now, int64 before, int64 floor)
{
	int64 began = monotonic_now();
	if (!write_lock_row(held.key, held.slot, now, before, floor))
		return false;
	int64 cost = floor == 0 ? monotonic_now() - began : 0;
	with_locks(
		[&](LockHold &hold) { hold.raise_row_floor(held.key, held.slot, held.token, cost); });
	return true;
}

/*
 * Write the row of the lock. The new row replaces the row of the grant that had the slot before,
 * and whose time is over. (A session-bound grant has no row.)
 */
bool
make_lock_durable(const HeldLock &held)
{
	Grant now;
	int64 before = held.before.has_row() ? held.before.token : 0;
	int64 floor = 0;
	with_locks([&](LockHold &hold) {
		now = hold[held.number].now;
		floor = hold.row_floor(held.key, held.slot);
	});
	stop_point("lock-write");
	bool current = now.token == held.token;
	if (current && now.session_bound)
	{
		if (before != 0)
			(void) delete_lock_row(held.key, held.slot, before);
		return true;
	}
	current = current && keep_incarnation(held);
	if (current && write_row_above(held, now, before, floor))
		return true;
	undo_newest_lock_effect();
	if (current)
		doubt_locks(held.database);
	return false;
}

int64
acquire_lock(const LockWish &wish)
{
	int64 end = end_of_lock_wait(wish);
	HeldLock held;
	for (;;)
	{
		if (!take_lock_in_memory(wish, end, &held))
			return 0;
		if (make_lock_durable(held))
			return held.token;
	}
}

/* ---- using ---- */

static bool
is_usable(const NamedLock &lock)
{
	return lock.now.state == GrantState::kHeld && (!lock.is_open() || lock.changer == my_procno());
}

static bool
find_usable(Database *db, const char *name, int64 token, bool relied_on, HeldLock *held)
{
	bool current = false;
	with_locks([&](LockHold &hold) {
		int number = hold.find(db, name, token, relied_on);
		current = number >= 0 && is_usable(hold[number]);
		if (current)
			*held = {db, hold[number].key, number, hold[number].slot, token, hold[number].now};
	});
	return current;
}

/* Lock the tag before looking up the grant, so that no session takes over the slot in between. */
static bool
use_known_lock(Database *db, const char *name, int64 token, LOCKMODE mode, HeldLock *held)
{
	/*
	 * If this transaction already relies on the grant, no other session has taken the slot over,
	 * even if the time of the grant is over.
	 */
	bool relied_on = relies_on_grant(token);
	(void) lock_grant(token, mode);
	settle_prepared_locks(db, name);
	bool current = find_usable(db, name, token, relied_on, held);
	if (!current)
		unlock_grant(token, mode);
	return current;
}

bool
use_lock(const char *name, int64 token, LOCKMODE mode, HeldLock *held)
{
	/*
	 * Look for the grant in memory. If memory may lack its row, release the tag, wait for sessions
	 * that write rows by other means (a restore), load the rows, and look again.
	 */
	Database *db = tables_with_known_locks().database;
	for (;;)
	{
		bool loaded = knows_all_locks(db);
		if (use_known_lock(db, name, token, mode, held))
			return true;
		if (loaded)
			return false;
		db = tables_with_locks().database;
	}
}

bool
assert_lock(const char *name, int64 token)
{
	HeldLock held;
	return use_lock(name, token, ShareLock, &held);
}

/*
 * Undo in memory that the lock was extended, because a user's SQL has deleted its row. Leave the
 * entry alone if it was changed after the lock was extended.
 */
static void
take_back_extension(const HeldLock &held, int64 deadline)
{
	with_locks([&](LockHold &hold) {
		Grant &now = hold[held.number].now;
		if (now.token != held.token || now.deadline != deadline)
			return;
		now.ttl = held.before.ttl;
		now.deadline = held.before.deadline;
	});
}

TimestampTz
extend_lock(const char *name, int64 token, int64 ttl)
{
	HeldLock held;
	if (!use_lock(name, token, ShareLock, &held))
		return 0;
	const Grant &was = held.before;
	int64 length = ttl > 0 ? ttl : was.ttl;
	/* Extend in memory first: memory must hold the lock for at least as long as the row says. */
	int64 deadline = 0;
	with_locks([&](LockHold &hold) {
		Grant &now = hold[held.number].now;
		if (now.token != token || now.is_left())
			return;
		now.ttl = length;
		now.deadline = deadline = Max(now.deadline, hold.monotonic() + length);
	});
	if (deadline == 0)
		return 0;
	if (!was.session_bound && !extend_lock_row(held.key, held.slot, token, length))
	{
		take_back_extension(held, deadline);
		return 0;
	}
	/*
	 * Return the time at which the lock ends according to memory. The time in the row is later if
	 * the wall clock was ahead when the row was written.
	 */
	return wall_now() + (deadline - monotonic_now());
}

bool
give_back_lock(const char *name, int64 token, HeldLock *held)
{
	if (!use_lock(name, token, ExclusiveLock, held))
		return false;
	reserve_lock_effect();
	if (!unlock_at_commit(held->number, token, false))
		return false;
	stop_point("unlock-write");
	if (held->before.has_row())
		(void) delete_lock_row(held->key, held->slot, token);
	return true;
}

/* ---- sweeping ---- */

int
overdue_locks(int after, int64 rest, OverdueLock *overdue, int most)
{
	Database *db = tables_with_locks().database;
	int n = 0;
	for_locks_from(after + 1, [&](const LockHold &hold, int number) {
		const NamedLock &lock = hold[number];
		if (is_of(lock.key, db) && lock.is_over(hold.monotonic() - rest))
			overdue[n++] = {number, lock.key, lock.slot, lock.now.token, lock.now.has_row()};
		return n < most;
	});
	return n;
}

bool
sweep_lock(const OverdueLock &lock)
{
	if (!lock_grant(lock.token, ExclusiveLock, false))
	{
		note_use(lock.number, lock.token);
		return false;
	}
	reserve_lock_effect();
	if (!unlock_at_commit(lock.number, lock.token, true))
		return false;
	if (lock.has_row)
		(void) delete_lock_row(lock.key, lock.slot, lock.token);
	return true;
}

} // namespace pgq
