#include "catalog/queue_lock.h"

#include "catalog/tables.h"

namespace pgq {

static LOCKTAG
tag_of(int32 queue_id, QueueLock what)
{
	LOCKTAG tag;
	const Tables *t = tables_if_attached();
	Oid table =
		t != nullptr ? t->queue : get_relname_relid("queue", get_namespace_oid("pgq_ext", false));
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, table, static_cast<uint32>(queue_id),
					   static_cast<uint16>(what));
	return tag;
}

bool
lock_queue(int32 queue_id, QueueLock what, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = tag_of(queue_id, what);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

void
unlock_queue(int32 queue_id, QueueLock what, LOCKMODE mode)
{
	LOCKTAG tag = tag_of(queue_id, what);
	LockRelease(&tag, mode, false);
}

void
lock_name(const char *name, LOCKMODE mode)
{
	auto *bytes = reinterpret_cast<const unsigned char *>(name);
	uint32 hash = hash_bytes(bytes, static_cast<int>(strlen(name)));
	(void) lock_queue(static_cast<int32>(hash), QueueLock::kName, mode, true);
	AcceptInvalidationMessages();
}

static LOCKTAG
tag_of_key(int32 queue_id, int64 hash)
{
	/* Class (field4) of an advisory lock; the server uses classes 1 and 2. */
	static constexpr uint16 kClass = 0x5047;
	LOCKTAG tag;
	/*
	 * Put the upper half of the hash into the tag. Sessions lock several keys in the order of their
	 * hashes, so they also lock the tags in one order and do not deadlock.
	 */
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(queue_id),
						 static_cast<uint32>(hash >> 32), kClass);
	return tag;
}

/* Classes of tags that name one job or one batch. */
static constexpr uint16 kTurnClass = 0x5054;
static constexpr uint16 kBatchClass = 0x5042;

static LOCKTAG
tag_of_id(uint16 lock_class, int64 id)
{
	LOCKTAG tag;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(id >> 32), static_cast<uint32>(id),
						 lock_class);
	return tag;
}

static bool
lock_id(uint16 lock_class, int64 id, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = tag_of_id(lock_class, id);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static void
unlock_id(uint16 lock_class, int64 id, LOCKMODE mode)
{
	LOCKTAG tag = tag_of_id(lock_class, id);
	LockRelease(&tag, mode, false);
}

bool
lock_batch(int64 batch_id, LOCKMODE mode, bool wait)
{
	return lock_id(kBatchClass, batch_id, mode, wait);
}

void
unlock_batch(int64 batch_id, LOCKMODE mode)
{
	unlock_id(kBatchClass, batch_id, mode);
}

bool
lock_turn(int64 job_id, LOCKMODE mode, bool wait)
{
	return lock_id(kTurnClass, job_id, mode, wait);
}

void
unlock_turn(int64 job_id, LOCKMODE mode)
{
	unlock_id(kTurnClass, job_id, mode);
}

void
lock_key(int32 queue_id, int64 hash)
{
	LOCKTAG tag = tag_of_key(queue_id, hash);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
unlock_key(int32 queue_id, int64 hash)
{
	LOCKTAG tag = tag_of_key(queue_id, hash);
	LockRelease(&tag, ExclusiveLock, false);
}

} // namespace pgq
