/*
 * Index access without the executor: entries for rows that are inserted directly, and lookups that
 * see every version that is not dead to all transactions.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Insert the entries of job rows into all indexes of their segment, including indexes that an
 * administrator has added. Without wait, a duplicate id raises an error, even if the transaction
 * that inserted the other row has not ended.
 */
void insert_job_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n,
							  bool wait);

/*
 * Insert the entries of a HOT version. It needs entries only in summarizing indexes (BRIN), which
 * an administrator may have added.
 */
void insert_summaries(Relation rel, HeapTuple tuple);

/* Like insert_job_index_entries(), but for records; waits for transactions with a duplicate id. */
void insert_record_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n);

/*
 * A scan of the versions to which an index leads. Between next_version() and unlock_version() the
 * slot pins the version's buffer, and the buffer is share-locked. The scan uses no MVCC snapshot,
 * so nothing is registered for serializable transactions (protocol: busy-is-not-gone). Index
 * entries that are dead to all are marked for removal.
 */
struct IndexLookup
{
	Relation index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	SnapshotData snapshot;
	HeapTuple tuple;
	Buffer buffer;
};

/*
 * Open a scan without keys; index_rescan() sets the keys and starts the scan. While the lookup is
 * in use it must stay at the same address.
 */
void open_index_lookup(IndexLookup *lookup, Relation heap, Oid index, int keys);

IndexLookup *begin_index_lookup(Relation heap, Oid by_id, int64 job_id);
bool next_version(IndexLookup *lookup);
void unlock_version(IndexLookup *lookup);
void end_index_lookup(IndexLookup *lookup);

} // namespace pgq
