/*
 * Visibility checks: whether the heap says that a row version is live, busy or dead. The checks use
 * no snapshot, so isolation levels do not matter and nothing is registered for serializable
 * transactions. The caller holds the lock of the version's buffer.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Result of a visibility check. A busy version does not prove that the job is gone: the transaction
 * that is changing the version may be rolled back.
 */
enum class Visibility : uint8
{
	kLive,
	kBusy, /* an open transaction, maybe this one, inserts, deletes or locks the version */
	kDead,
};

Visibility visibility_of(HeapTuple tuple, Buffer buffer);

/*
 * Return whether a write would change this version. True if this transaction or a committed one has
 * inserted the version, and this transaction has not replaced or deleted the version. Another
 * transaction may have locked the version or be deleting it; the write then waits for that
 * transaction. *inserter: set to the xid of another transaction that is inserting the version, if
 * there is one.
 */
bool is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter);

/*
 * Return whether this transaction has locked the version. While this transaction has the lock, no
 * other transaction deletes the row, and an UPDATE of another transaction carries the lock over to
 * the new version.
 */
bool is_locked_by_us(HeapTupleHeader header);

/*
 * Return whether an open transaction has locked, deleted or replaced the version. The caller has
 * called is_writable() for the version. header: may be a copy that was made after that call; the
 * result is then the state at the time of the copy.
 */
bool is_touched(HeapTupleHeader header);

/* Return whether this transaction has locked or written the version. */
bool is_ours(HeapTupleHeader header);

/*
 * Return the xid of the transaction that replaced this dead version, by an UPDATE or by a move to
 * another segment; 0 if the row was deleted. A look-up adds up the traces of all dead versions that
 * it passes: if two passes over the segments have equal sums, no row was moved between the passes.
 */
uint64 trace_of(HeapTuple tuple);

} // namespace pgq
