/*
 * Finding the jobs with a unique key. Each segment has an index over a hash of queue and key; the
 * key itself is compared in the row.
 */
#pragma once

#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/* Compute the value of the generated column unique_hash. */
int64 hash_of_key(int32 queue_id, const text *key);

struct UniqueKey
{
	const text *key;
	int64 hash;
	int32 queue_id;
};

/* The column numbers of queue, key and hash in a table that has these columns. */
struct KeyColumns
{
	int queue_id;
	int unique_key;
	int unique_hash;
};

/* Return whether the row, of a job or of a key period, has the key. */
bool has_key(HeapTuple tuple, TupleDesc desc, const KeyColumns &columns, const UniqueKey &wanted);

/* Start a lookup of the key in an index over the hash. */
void look_for_key(IndexLookup *lookup, const UniqueKey &key);

/* A row version that has the key and is not dead. */
struct KeyedJob
{
	enum State : uint8
	{
		kLive,
		kOurs,	   /* written by this transaction */
		kArriving, /* being inserted by the transaction xid */
		kEnding,   /* being deleted or replaced by the transaction xid */
	} state;
	TransactionId xid;
	Hint hint;
	bool locked_by_us; /* this transaction has locked the version, and has not written it */
	int32 attempts;
	TimestampTz expires_at; /* DT_NOEND: never */

	int64 job_id() const { return hint.key.job_id; }
};

/*
 * Find all jobs that have the key, the youngest first. A job is listed twice while a transaction
 * replaces its row. A job that has the key during the whole search is found, even if its row is
 * rewritten or moved in that time (protocol: dead-here-is-not-dead). Uses no snapshot.
 */
int find_keyed_jobs(SegmentSet &segments, const UniqueKey &key, KeyedJob **jobs);

/*
 * Return whether a job has one of the keys, or had it a moment ago. Returns true if in doubt, and
 * false only if there is no trace of such a job.
 */
bool may_have_keys(SegmentSet &segments, const UniqueKey *keys, int n);

/*
 * Look at the job once more, at the place where it was found. Returns false if that version is dead
 * or has another key.
 */
bool look_at_keyed_job(SegmentSet &segments, const UniqueKey &key, KeyedJob *job);

} // namespace pgq
