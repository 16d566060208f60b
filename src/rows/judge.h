/*
 * What the heap says of a row version. No snapshot is involved, so isolation levels do not matter
 * and nothing is registered for serializable transactions. All here is asked under the lock of the
 * version's buffer.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* "Not visible" is not "gone". */
enum class Verdict : uint8
{
	kLive,
	kBusy, /* a transaction that has not ended is at it, our own included */
	kDead,
};

Verdict judge_version(HeapTuple tuple, Buffer buffer);

/*
 * Is it the version that a write would change? One whose insertion is committed, or is our own, and
 * which we have not replaced ourselves; who else is at it, the write itself will wait for.
 * *inserter: who inserts a version we cannot write yet.
 */
bool is_writable(HeapTuple tuple, Buffer buffer, TransactionId *inserter);

/* Has this transaction locked it? Then nobody else deletes it; who changes it hands the lock on to the next version. */
bool is_locked_by_us(HeapTupleHeader header);

/* Has a transaction that has not ended locked, deleted or replaced it? Of a copy: when is_writable() was asked. */
bool is_touched(HeapTupleHeader header);

/* Has this transaction locked or written it? */
bool is_ours(HeapTupleHeader header);

/* Stands for a dead version whose row went on, by an UPDATE or to another segment; 0 if it did not. */
uint64 trace_of(HeapTuple tuple);

} // namespace pgq
