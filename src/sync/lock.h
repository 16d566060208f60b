/*
 * Named locks: a session holds a name, alone or together with other sessions (slots), for a time
 * (ttl) or as long as the session lives.
 *
 * Memory decides at once which session gets a lock (engine/named/named_lock.h). The row then makes
 * the decision durable (lock_row.h). A rollback undoes the change of memory and of the row. A
 * transaction that uses a lock (assert, extend, unlock) first locks the tag of its grant
 * (lock_tag.h), and then checks that the grant still exists. A transaction that takes over a lock
 * whose time is over must first hold that tag for a moment.
 *
 * Tokens come from the source of all tokens (engine/token.h): they grow, never repeat, and go on
 * growing after a restart or a failover.
 */
#pragma once

#include "engine/named/named_lock.h"

namespace pgq {

struct LockWish
{
	const char *name;
	int64 ttl;
	int32 slots;
	int64 wait;
	const char *owner;
	bool session_bound;
	int64 period; /* as in LockKey */
	TimestampTz bucket;
};

/* A lock that this transaction has taken in memory. */
struct HeldLock
{
	Database *database;
	LockKey key;
	int number;
	int32 slot;
	int64 token;
	Grant before;
};

/*
 * Take a lock in memory. If all slots are taken, wait for a slot until `end` (monotonic; 0: do not
 * wait). Returns false if no slot was free until then. Raises 53400 if no entry is left, 40P01 on a
 * deadlock with transactions that wait for this transaction.
 */
bool take_lock_in_memory(const LockWish &wish, int64 end, HeldLock *held);

/*
 * Write the row of a lock that was taken in memory. Returns false if the slot has a row that memory
 * did not know, or if the entry in memory was freed, for example because the extension was dropped.
 * The lock is then given up in memory, and the caller tries again.
 */
bool make_lock_durable(const HeldLock &held);

/* Take a lock in memory and write its row. Returns the token, or 0 if the lock was not taken. */
int64 acquire_lock(const LockWish &wish);

/*
 * Return the monotonic time at which the waits of a call that begins now must end, or 0 if the call
 * does not wait.
 */
int64 end_of_lock_wait(const LockWish &wish);

/*
 * Find the grant with that token, and lock its tag in that mode, so that no other session takes the
 * slot over before this transaction ends. Returns false if the token is stale.
 */
bool use_lock(const char *name, int64 token, LOCKMODE mode, HeldLock *held);

/*
 * Extend the lock. Returns the new end, or 0 if the token is stale. ttl: microseconds from now; 0:
 * the same ttl as at the last call that took or extended the lock.
 */
TimestampTz extend_lock(const char *name, int64 token, int64 ttl);

/* Give the lock back at commit. Returns false if the token is stale. */
bool give_back_lock(const char *name, int64 token, HeldLock *held);

/*
 * Keep the lock from other sessions until this transaction ends, even if its time runs out. Returns
 * false if the token is stale.
 */
bool assert_lock(const char *name, int64 token);

/* A lock that was not given back before its time was over. */
struct OverdueLock
{
	int number; /* number of the lock's entry in memory */
	LockKey key;
	int32 slot;
	int64 token;
	bool has_row;
};

/*
 * Store up to `most` locks whose time has been over for at least `rest` microseconds, in the order
 * of their entries, beginning behind entry `after`. Returns their number.
 */
int overdue_locks(int after, int64 rest, OverdueLock *overdue, int most);

/* Give back an overdue lock at commit. Returns false if another transaction uses it. */
bool sweep_lock(const OverdueLock &lock);

} // namespace pgq
