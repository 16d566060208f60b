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

static LOCKTAG
tag_of_turn(int64 job_id)
{
	static constexpr uint16 kClass = 0x5054;
	LOCKTAG tag;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(job_id >> 32),
						 static_cast<uint32>(job_id), kClass);
	return tag;
}

static LOCKTAG
tag_of_batch(int64 batch_id)
{
	static constexpr uint16 kClass = 0x5042;
	LOCKTAG tag;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(batch_id >> 32),
						 static_cast<uint32>(batch_id), kClass);
	return tag;
}

bool
lock_batch(int64 batch_id, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = tag_of_batch(batch_id);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

void
unlock_batch(int64 batch_id, LOCKMODE mode)
{
	LOCKTAG tag = tag_of_batch(batch_id);
	LockRelease(&tag, mode, false);
}

bool
lock_turn(int64 job_id, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = tag_of_turn(job_id);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

void
unlock_turn(int64 job_id, LOCKMODE mode)
{
	LOCKTAG tag = tag_of_turn(job_id);
	LockRelease(&tag, mode, false);
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
