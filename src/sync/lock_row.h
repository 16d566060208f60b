/*
 * Rows of pgq_ext.held_lock: what outlives a restart of a named lock. Written by the transaction that changes the entry in
 * memory, after that. Its commit is durable, whatever synchronous_commit says: who has been told that he holds a lock
 * does.
 */
#pragma once

#include "core/column.h"
#include "engine/named_lock.h"

namespace pgq {

enum class LockColumn
{
	kName = 1,
	kPeriod,
	kBucket,
	kSlot,
	kSlots,
	kToken,
	kOwner,
	kTtl,
	kAcquiredAt,
	kExpiresAt,
};

inline constexpr Column lock_columns[] = {
	{"name", kText},
	{"period", kInt8},
	{"bucket", kInt8},
	{"slot", kInt8},
	{"slots", kInt8},
	{"token", kInt8},
	{"owner", kText},
	{"ttl", kInt8},
	{"acquired_at", kTimestamptz},
	{"expires_at", kTimestamptz},
};

/*
 * The row of a grant, in the place of that of the token before (0: of none). False: there is another one there, of which
 * memory knows nothing.
 */
bool write_lock_row(const LockKey &key, int32 slot, const Grant &grant, int64 before);

/* False: there is no such row. Its new end is not before the old one. */
bool extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl);

/* False: there is no such row. */
bool delete_lock_row(const LockKey &key, int32 slot, int64 token);

} // namespace pgq
