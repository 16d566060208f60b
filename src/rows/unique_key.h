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

/*
 * The column numbers of queue_id, unique_key and unique_hash, in pgq_ext.job or in
 * pgq_ext.unique_key.
 */
struct KeyColumns
{
	int queue_id;
	int unique_key;
	int unique_hash;
};

/* Return whether a row of pgq_ext.job or of pgq_ext.unique_key has the key. */
bool has_key(HeapTuple tuple, TupleDesc desc, const KeyColumns &columns, const UniqueKey &wanted);

/* Start a lookup of the key in an index over the hash. */
void look_for_key(IndexLookup *lookup, const UniqueKey &key);

/* A row version that has the key and is not dead. */
struct KeyedJob
{
	enum State : uint8
	{
		kLive,
		kOurs,	   /* this transaction has written the version */
		kArriving, /* the transaction xid is inserting the version */
		kEnding,   /* the transaction xid is deleting or replacing the version */
	} state;
	TransactionId xid;
	Hint hint;
	bool locked_by_us; /* this transaction has locked the version, but has not written it */
	int32 attempts;
	TimestampTz expires_at; /* DT_NOEND: never */
	int64 batch_id;			/* 0: the job is no member of a batch */

	int64 job_id() const { return hint.key.job_id; }
};

/*
 * Find all jobs that have the key, the youngest first, and return their number. A job is listed
 * twice while a transaction replaces its row. A job that has the key during the whole search is
 * found, even if its row is rewritten or moved during the search (protocol: dead-here-is-not-dead).
 * Uses no snapshot.
 */
int find_keyed_jobs(SegmentSet &segments, const UniqueKey &key, KeyedJob **jobs);

/*
 * Return whether a job may have one of the keys. False proves that no job has any of these keys: no
 * row version with such a key is live or busy, and none of the dead versions with such a key was
 * replaced by an UPDATE or moved to another segment.
 */
bool may_have_keys(SegmentSet &segments, const UniqueKey *keys, int n);

/*
 * Look at the job's row again, at the place where find_keyed_jobs() has found the row. Returns
 * false if that version is dead or has another key.
 */
bool look_at_keyed_job(SegmentSet &segments, const UniqueKey &key, KeyedJob *job);

} // namespace pgq
