/*
 * Rows of pgq_ext.held_lock: the part of a named lock that survives a restart. A transaction
 * changes the entry in memory first, and then the row. The commit of a change is durable even with
 * synchronous_commit = off: a session that was told that it holds a lock still holds the lock after
 * a crash.
 */
#pragma once

#include "core/column.h"
#include "engine/named/named_lock.h"

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
 * slot_column() returns the value of the column "slot": the slot number in the high bits, and in
 * the low bits the token with which the row was written. So no two rows ever have the same key, and
 * an index look-up of a row does not visit dead rows of the same name, however many dead rows an
 * old snapshot keeps. Version 0.1 wrote the slot number alone. slot_of_column() returns the slot
 * number; 0 if the value names no slot, which only a user's SQL can have written.
 */
int64 slot_column(int32 slot, int64 token);
int32 slot_of_column(int64 column);

/*
 * Write the row of a grant, after deleting the row of the slot with the token `before` (0: none).
 * Returns false if the slot has another row, which memory does not know. The search for such rows
 * covers only rows of version 0.1 and rows with a token from `floor` on.
 */
bool write_lock_row(const LockKey &key, int32 slot, const Grant &grant, int64 before, int64 floor);

/*
 * Store a later end in the row; an earlier end changes nothing. Returns false if there is no such
 * row.
 */
bool extend_lock_row(const LockKey &key, int32 slot, int64 token, int64 ttl);

/* Delete the row. Returns false if there is no such row. */
bool delete_lock_row(const LockKey &key, int32 slot, int64 token);

} // namespace pgq
