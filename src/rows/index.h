/*
 * Index access without the executor: entries for rows that are inserted directly, and lookups that
 * see every row version that is not dead to all transactions.
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
 * Insert the index entries of a row version that was written by a HOT update. Only summarizing
 * indexes (BRIN) need entries of such a version; an administrator may have added such indexes.
 */
void insert_summaries(Relation rel, HeapTuple tuple);

/*
 * Like insert_job_index_entries(), but for records. If another transaction is inserting the same
 * id, wait until that transaction ends.
 */
void insert_record_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n);

/* Insert the index entries of rows of a table that is no ring. The executor inserts them. */
void insert_all_index_entries(Relation rel, HeapTuple *tuples, int n);

/*
 * Insert the entries of rows of another table, of which `own` is the extension's only index, into
 * all indexes of the table. The index `own` is not unique.
 */
void insert_index_entries(Relation rel, Oid own, HeapTuple *tuples, int n);

/*
 * A scan of the row versions to which an index leads. From next_version() to unlock_version(), the
 * tuple slot `slot` pins the version's buffer, and the buffer is share-locked. The scan uses no
 * MVCC snapshot, so nothing is registered for serializable transactions
 * (protocol: busy-is-not-gone). Index entries whose rows are dead to all transactions are marked
 * for removal.
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
 * Open a scan without keys; index_rescan() sets the keys and starts the scan. The lookup must stay
 * at the same address until end_index_lookup().
 */
void open_index_lookup(IndexLookup *lookup, Relation heap, Oid index, int keys);

IndexLookup *begin_index_lookup(Relation heap, Oid by_id, int64 job_id);
bool next_version(IndexLookup *lookup);
/* Like next_version(), from the end of the index on. A scan goes in one direction only. */
bool previous_version(IndexLookup *lookup);
void unlock_version(IndexLookup *lookup);
void end_index_lookup(IndexLookup *lookup);

} // namespace pgq
