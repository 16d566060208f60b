/*
 * Heavyweight locks of a queue, for waits that may be long: the deadlock detector sees such waits.
 * pg_locks shows these locks as objects of the class pgq_ext.queue: objid is the id of the queue,
 * objsubid the QueueLock. Each line of the list below says in which modes sessions take the lock,
 * and what for. "To the end" means that they keep the lock until the transaction ends.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

enum class QueueLock : uint16
{
	/*
	 * exclusive: refilling the window, or a step of a lap (load/lap.cpp); share, for a moment:
	 * waiting until these have ended
	 */
	kWindow = 1,
	kTimer,	  /* as kWindow, for refills of the timer */
	kWriters, /* row exclusive, to the end: adding or changing jobs; exclusive: dropping the queue */
	kGroups,  /* as kWindow, for visits of markers of groups (load/visit.cpp) */
	kCount,	  /* exclusive: counting the jobs */
	kOptions, /* exclusive, to the end: changing the options */
	kRights,  /* exclusive, to the end: changing the rights */
	/* exclusive, to the end: giving a queue that name; objid is a hash of the name */
	kName,
	kSegments, /* with queue_id 0; exclusive, to the end: creating the segments */
	/*
	 * with queue_id 0; exclusive, to the end: moving records to another segment; share, to the end:
	 * dropping a queue, which deletes records; share, for a statement: changing records
	 */
	kMoves,
	/*
	 * with queue_id 0; exclusive, to the end: moving jobs to another segment; share, for a statement:
	 * deleting members of a batch
	 */
	kJobMoves,
};

/*
 * Lock until the end of the (sub)transaction, or until unlock_queue(). Without wait, returns false
 * if the lock is not available.
 */
bool lock_queue(int32 queue_id, QueueLock what, LOCKMODE mode, bool wait);
void unlock_queue(int32 queue_id, QueueLock what, LOCKMODE mode);

/*
 * Lock the name (kName) until the end of the (sub)transaction. ShareLock keeps the queue of that
 * name from being renamed. After a wait for the lock, the caller must read the queue's row again.
 */
void lock_name(const char *name, LOCKMODE mode = ExclusiveLock);

/*
 * Lock a unique key. A session holds this lock while it looks for the owner of the key, until it
 * has found the owner or become the owner. pg_locks shows the lock as an advisory lock with
 * objsubid 20551; objid is half of the key's hash.
 */
void lock_key(int32 queue_id, int64 hash);
void unlock_key(int32 queue_id, int64 hash);

/*
 * Lock the turn at a waiting job. ExclusiveLock is for a session that waits for all transactions
 * which hold the job; it keeps other transactions from becoming holders. ShareLock, kept for a
 * moment, is for a session whose transaction is about to hold the job. Without wait, returns false
 * if the lock is not available.
 */
bool lock_turn(int64 job_id, LOCKMODE mode, bool wait);
void unlock_turn(int64 job_id, LOCKMODE mode);

/*
 * Lock the tag of a batch (README of batches/, "How a member is added"). ShareLock, for a moment, is
 * for a session that adds members. ExclusiveLock, without wait, is for a session that decides
 * whether the batch has finished. pg_locks shows the tag as an advisory lock with objsubid 20546;
 * classid and objid are the id of the batch. Without wait, returns false if the lock is not
 * available.
 */
bool lock_batch(int64 batch_id, LOCKMODE mode, bool wait);
void unlock_batch(int64 batch_id, LOCKMODE mode);

} // namespace pgq
