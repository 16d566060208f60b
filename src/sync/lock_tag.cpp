#include "sync/lock_tag.h"

namespace pgq {

static LOCKTAG
tag_of(int64 token)
{
	/*
	 * Class (field4) of an advisory lock. The server uses classes 1 and 2; unique keys use 0x5047.
	 */
	static constexpr uint16 kClass = 0x5048;
	LOCKTAG tag;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(token >> 32),
						 static_cast<uint32>(token), kClass);
	return tag;
}

bool
lock_grant(int64 token, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = tag_of(token);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

bool
relies_on_grant(int64 token)
{
	return has_lock(tag_of(token), ShareLock);
}

void
unlock_grant(int64 token, LOCKMODE mode)
{
	LOCKTAG tag = tag_of(token);
	LockRelease(&tag, mode, false);
}

} // namespace pgq
