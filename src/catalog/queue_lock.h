/*
 * Heavyweight locks of a queue, for waits that may be long: the deadlock detector sees them.
 * pg_locks shows them as objects of the class pgq_ext.queue: objid is the id of the queue, objsubid
 * the QueueLock. "To the end" means until the transaction ends.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

enum class QueueLock : uint16
{
	/* exclusive: refilling the window; share, for a moment: waiting until the refill has ended */
	kWindow = 1,
	kTimer,	  /* the same for refills of the timer */
	kWriters, /* row exclusive, to the end: adding or changing jobs; exclusive: dropping the queue */
	kGroups,  /* as kWindow, for probing groups */
	kCount,	  /* exclusive: counting the jobs */
	kOptions, /* exclusive, to the end: changing the options */
	kRights,  /* exclusive, to the end: changing the rights */
	/* exclusive, to the end: giving a queue that name; objid is a hash of the name */
	kName,
	kSegments, /* of queue 0; exclusive, to the end: creating the segments */
	/*
	 * of queue 0, to the end; exclusive: a worker that moves records; share: a drop, which deletes
	 * records
	 */
	kMoves,
};

/*
 * Lock until the end of the (sub)transaction, or until unlock_queue(). Without wait, returns false
 * if the lock is not available.
 */
bool lock_queue(int32 queue_id, QueueLock what, LOCKMODE mode, bool wait);
void unlock_queue(int32 queue_id, QueueLock what, LOCKMODE mode);

/*
 * Lock the name (kName) until the end of the (sub)transaction. ShareLock keeps the queue of that
 * name from being renamed. Afterwards the caller must read its rows again.
 */
void lock_name(const char *name, LOCKMODE mode = ExclusiveLock);

/*
 * Lock a unique key. A session holds this lock while it looks for the owner of the key, until it
 * has found the owner or become the owner. pg_locks shows it as an advisory lock of a class of its
 * own; objid is half of the key's hash.
 */
void lock_key(int32 queue_id, int64 hash);
void unlock_key(int32 queue_id, int64 hash);

/*
 * Lock the turn at a waiting job. Exclusive: a session waits for all transactions that hold the
 * job, and keeps others from becoming holders. Share, for a moment: a session is about to become a
 * holder. Without wait, returns false if the lock is not available.
 */
bool lock_turn(int64 job_id, LOCKMODE mode, bool wait);
void unlock_turn(int64 job_id, LOCKMODE mode);

} // namespace pgq
