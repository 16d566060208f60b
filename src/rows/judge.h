/*
 * Visibility checks: whether the heap says that a row version is live, busy or dead. They use no
 * snapshot, so isolation levels do not matter and nothing is registered for serializable
 * transactions. The caller holds the lock of the version's buffer.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Result of a check. A busy version is not proof that the job is gone: its transaction may be
 * rolled back.
 */
enum class Verdict : uint8
{
	kLive,
	kBusy, /* an open transaction, maybe this one, inserts, deletes or locks it */
	kDead,
};

Verdict judge_version(HeapTuple tuple, Buffer buffer);

/*
 * Return whether a write would change this version. True if the insertion is committed or this
 * transaction's own, and this transaction has not replaced or deleted the version. Another
 * transaction may have locked it or be deleting it; the write then waits for that transaction.
 * *inserter: set if another transaction is inserting the version.
 */
bool is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter);

/*
 * Return whether this transaction has locked the version. While it has the lock, no other
 * transaction deletes the row, and an UPDATE passes the lock on to the next version.
 */
bool is_locked_by_us(HeapTupleHeader header);

/*
 * Return whether an open transaction has locked, deleted or replaced the version. header: may be a
 * copy; the answer is then as of the call of is_writable().
 */
bool is_touched(HeapTupleHeader header);

/* Return whether this transaction has locked or written the version. */
bool is_ours(HeapTupleHeader header);

/*
 * Return the xid that moved this dead version's row on, by an UPDATE or to another segment; 0 if
 * the row was deleted. Look-ups add up these traces: if two passes have equal sums, no row was
 * moved in between.
 */
uint64 trace_of(HeapTuple tuple);

} // namespace pgq
