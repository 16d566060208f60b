/*
 * Visibility checks: what the heap says of a row version. They use no snapshot, so isolation levels
 * do not matter and nothing is registered for serializable transactions. The caller holds the lock
 * of the version's buffer.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* "Not visible" must not be taken for "gone": a busy version decides nothing. */
enum class Verdict : uint8
{
	kLive,
	kBusy, /* an open transaction, perhaps our own, inserts, deletes or locks it */
	kDead,
};

Verdict judge_version(HeapTuple tuple, Buffer buffer);

/*
 * Return whether a write would change this version. Its insertion is committed or is our own, and
 * this transaction has not replaced or deleted it. Another transaction may have locked it or be
 * deleting it; the write waits for that. *inserter: set if another transaction is inserting the
 * version.
 */
bool is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter);

/*
 * Return whether this transaction has locked the version. As long as it holds the lock no other
 * transaction deletes the row, and an UPDATE hands the lock on to the next version.
 */
bool is_locked_by_us(HeapTupleHeader header);

/*
 * Return whether an open transaction has locked, deleted or replaced the version. For a copy of a
 * version: at the time of is_writable().
 */
bool is_touched(HeapTupleHeader header);

/* Return whether this transaction has locked or written the version. */
bool is_ours(HeapTupleHeader header);

/*
 * Return the xid that moved the row of this dead version on, by an UPDATE or to another segment; 0
 * if it was deleted. Look-ups add these traces up: equal sums of two passes mean that no row was
 * moved in between.
 */
uint64 trace_of(HeapTuple tuple);

} // namespace pgq
