/*
 * Index access by hand: entries for rows inserted directly, and lookups that see
 * every version which is not dead to all.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Entries of job rows in their segment's indexes, those that an admin added included. Without
 * wait a duplicate id is an error also if its transaction has not ended.
 */
void insert_job_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n,
							  bool wait);

/* Of a version that is HOT for all other indexes: those that summarize blocks, which somebody has added. */
void insert_summaries(Relation rel, HeapTuple tuple);

/* The same of records. */
void insert_record_index_entries(Relation rel, int segment_number, HeapTuple *tuples, int n);

/*
 * Versions that an index leads to, each with its buffer pinned by the slot and share-locked between
 * next_version() and unlock_version(). Non-MVCC: nothing is registered for serializable
 * transactions (protocol: busy-is-not-gone), and entries dead to all are marked for the index to
 * kill.
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

/* A scan without keys yet: index_rescan() starts it. The lookup must not move while it is in use. */
void open_index_lookup(IndexLookup *lookup, Relation heap, Oid index, int keys);

IndexLookup *begin_index_lookup(Relation heap, Oid by_id, int64 job_id);
bool next_version(IndexLookup *lookup);
void unlock_version(IndexLookup *lookup);
void end_index_lookup(IndexLookup *lookup);

} // namespace pgq
