/*
 * Index access without the executor: entries for rows inserted directly, and lookups that see every
 * version which is not dead to all.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Insert the entries of job rows into all indexes of their segment, including those that an
 * administrator has added. Without wait, a duplicate id is an error even if the transaction that
 * inserted it has not ended.
 */
void insert_job_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n,
							  bool wait);

/*
 * Insert the entries of a HOT version, which needs entries only in summarizing indexes (BRIN) that
 * an administrator has added.
 */
void insert_summaries(Relation rel, HeapTuple tuple);

/* As insert_job_index_entries(), for records; waits for transactions with a duplicate id. */
void insert_record_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n);

/*
 * A scan of the versions to which an index leads. Between next_version() and unlock_version() the
 * version's buffer is pinned by the slot and share-locked. No MVCC snapshot: nothing is registered
 * for serializable transactions (protocol: busy-is-not-gone), and entries that are dead to all are
 * marked for removal from the index.
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
 * Open a scan without keys; index_rescan() sets them and starts it. The lookup must not be moved in
 * memory while it is in use.
 */
void open_index_lookup(IndexLookup *lookup, Relation heap, Oid index, int keys);

IndexLookup *begin_index_lookup(Relation heap, Oid by_id, int64 job_id);
bool next_version(IndexLookup *lookup);
void unlock_version(IndexLookup *lookup);
void end_index_lookup(IndexLookup *lookup);

} // namespace pgq
