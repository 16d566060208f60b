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
 * What the column "slot" says: the slot, and below it the token with which the row was written. So no two rows have had the
 * same key, and one is found by its key without a look at the dead ones of that name, however many there are beside an old
 * snapshot. Version 0.1 wrote the slot alone. 0: there is no such slot, somebody has written it by hand.
 */
int64 slot_column(int32 slot, int64 token);
int32 slot_of_column(int64 column);

/*
 * The row of a grant, in the place of that of the token before (0: of none). False: there is another one of that slot, of
 * which memory knows nothing: it was written with a token from `floor` on, or by version 0.1.
 */
bool write_lock_row(const LockKey &key, int32 slot, const Grant &grant, int64 before, int64 floor);

/* False: there is no such row. Its new end is not before the old one. */
bool extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl);

/* False: there is no such row. */
bool delete_lock_row(const LockKey &key, int32 slot, int64 token);

} // namespace pgq
