/*
 * Heavyweight locks of a queue, for what is waited for long: so that the deadlock
 * detector sees who waits for whom. pg_locks shows them as objects of pgq_ext.queue;
 * objid is the queue's id, objsubid what for.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

enum class QueueLock : uint16
{
	kWindow =
		1,	  /* exclusive: whoever refills its window; share, for a moment: who waits for that */
	kTimer,	  /* the same for its timer */
	kWriters, /* row exclusive, to the end: who adds or changes jobs of it; exclusive: who drops it */
	kGroups,  /* as kWindow, for its groups: whoever probes them */
	kCount,	  /* exclusive: whoever counts its jobs */
	kOptions, /* exclusive, to the end: whoever changes its options */
	kRights,  /* the same: its rights */
	kName, /* the same: whoever creates one of that name, or gives it that; objid is a hash of it */
	kSegments, /* the same, of queue 0: whoever makes the segments */
	kMoves, /* of queue 0, to the end. Exclusive: a worker that moves records; share: a drop, which deletes them */
};

/* To the end of the (sub)transaction, or until it is unlocked. False: only without wait. */
bool lock_queue(int32 queue_id, QueueLock what, LOCKMODE mode, bool wait);
void unlock_queue(int32 queue_id, QueueLock what, LOCKMODE mode);

/* Lock the name (kName) to the end of the (sub)transaction; in share mode to rely on it. Read rows anew afterwards. */
void lock_name(const char *name, LOCKMODE mode = ExclusiveLock);

/*
 * The lock of a key: whoever looks for the owner of that unique key, until he has found or become one. An
 * advisory lock of a class of its own; objid is the key's hash, in part.
 */
void lock_key(int32 queue_id, int64 hash);
void unlock_key(int32 queue_id, int64 hash);

/*
 * The turn at a waiting job. Exclusive: a session that waits for all holders of the job, so that nobody new joins them;
 * share, for a moment: a session that is about to hold it. False: only without wait.
 */
bool lock_turn(int64 job_id, LOCKMODE mode, bool wait);
void unlock_turn(int64 job_id, LOCKMODE mode);

} // namespace pgq
