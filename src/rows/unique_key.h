/*
 * Finding the jobs with a unique key. Each segment has an index over a hash of queue and key; the
 * key itself is compared in the row.
 */
#pragma once

#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/* Compute the generated column unique_hash. */
int64 hash_of_key(int32 queue_id, const text *key);

struct UniqueKey
{
	const text *key;
	int64 hash;
	int32 queue_id;
};

/* The column numbers of queue, key and hash in a table. */
struct KeyColumns
{
	int queue_id;
	int unique_key;
	int unique_hash;
};

/* Return whether the row, a job or a key period, has the key. */
bool has_key(HeapTuple tuple, TupleDesc desc, const KeyColumns &columns, const UniqueKey &wanted);

/* Start a lookup in an index over the hash. */
void look_for_key(IndexLookup *lookup, const UniqueKey &key);

/* A version of a row that has the key and is not dead. */
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
 * replaces its row. A job that has the key all the time is found even if its row is rewritten or
 * moved meanwhile (protocol: dead-here-is-not-dead). Uses no snapshot.
 */
int find_keyed_jobs(SegmentSet &segments, const UniqueKey &key, KeyedJob **jobs);

/*
 * Return whether a job has, or has just had, one of the keys. False only if no trace of such a job
 * is found; true in doubt.
 */
bool may_have_keys(SegmentSet &segments, const UniqueKey *keys, int n);

/*
 * Look again at the job at the place where it was found. Returns false if it is dead there or has
 * another key.
 */
bool look_at_keyed_job(SegmentSet &segments, const UniqueKey &key, KeyedJob *job);

} // namespace pgq
