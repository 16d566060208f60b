/*
 * Named locks: who holds a name, alone or with others (slots), for a time (ttl) or as long as his session lives.
 *
 * Memory decides at once (engine/named_lock.h), then the row says so durably (lock_row.h), both undone with the
 * transaction. Who uses a lock in a transaction (assert, extend, unlock) takes the tag of its grant first (lock_tag.h), and
 * then looks whether the grant is still there: who takes a lock away after its time has had that tag in between.
 *
 * Tokens come from the source of all tokens (engine/token.h): they grow, never repeat, and go on growing after a restart
 * or a failover.
 */
#pragma once

#include "engine/named_lock.h"

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
 * Take it in memory, and wait for that if wanted. False: not got. Errors: 53400 no entry is left, 40P01 a deadlock, with
 * transactions that wait for this one.
 */
bool take_lock_in_memory(const LockWish &wish, int64 end, HeldLock *held);

/* ... and durably. False: there was a row that memory did not know, or memory was freed: nothing is taken, try again. */
bool make_lock_durable(const HeldLock &held);

/* All of that. The token, or 0: not got. */
int64 acquire_lock(const LockWish &wish);

/* The end of the waits of a call that begins now. */
int64 end_of_lock_wait(const LockWish &wish);

/* A grant that is not over, and this transaction's to use to its end: nobody else takes it before. False: it is stale. */
bool use_lock(const char *name, int64 token, LOCKMODE mode, HeldLock *held);

/* Its new end; 0: stale. ttl 0: as it was. */
TimestampTz extend_lock(const char *name, int64 token, int64 ttl);

/* At commit nobody has it any more. False: stale. */
bool give_back_lock(const char *name, int64 token, HeldLock *held);

/* To the end of the transaction nobody else gets it. False: stale. */
bool assert_lock(const char *name, int64 token);

/* One that nobody has given back in time. */
struct OverdueLock
{
	int number; /* its entry in memory */
	LockKey key;
	int32 slot;
	int64 token;
	bool has_row;
};

/* The first of them behind that number whose time has been over for that long, so many at most. */
int overdue_locks(int after, int64 rest, OverdueLock *overdue, int most);

/* It is given back. False: somebody has it in hand. */
bool sweep_lock(const OverdueLock &lock);

} // namespace pgq
