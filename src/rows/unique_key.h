/*
 * Which jobs have a unique key. Found by an index of each segment over a hash of queue and key; the key itself is
 * compared in the row.
 */
#pragma once

#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

namespace pgq {

/* As the column unique_hash. */
int64 hash_of_key(int32 queue_id, const text *key);

struct UniqueKey
{
	const text *key;
	int64 hash;
	int32 queue_id;
};

/* Their numbers in a table that has them. */
struct KeyColumns
{
	int queue_id;
	int unique_key;
	int unique_hash;
};

/* Has that row, of jobs or of periods, the key? */
bool has_key(HeapTuple tuple, TupleDesc desc, const KeyColumns &columns, const UniqueKey &wanted);

/* Begin to look, in an index by hash. */
void look_for_key(IndexLookup *lookup, const UniqueKey &key);

/* A version of a row with that key that is not dead. */
struct KeyedJob
{
	enum State : uint8
	{
		kLive,
		kOurs,	   /* this transaction has written it */
		kArriving, /* the transaction xid has, */
		kEnding,   /* or is deleting or replacing it */
	} state;
	TransactionId xid;
	Hint hint;
	bool locked_by_us; /* this transaction has, and has not written it */
	int32 attempts;
	TimestampTz expires_at; /* or DT_NOEND */

	int64 job_id() const { return hint.key.job_id; }
};

/*
 * All of them, the youngest job first; a job may be there more than once, if somebody is replacing its row. A key that
 * a job has all the time is found, whoever rewrites or moves its row meanwhile (protocol: dead-here-is-not-dead). No snapshot is
 * involved.
 */
int find_keyed_jobs(SegmentSet &segments, const UniqueKey &key, KeyedJob **jobs);

/* Has any job one of these keys, or has just had one? Not, if there is nothing to be seen of it; in doubt, yes. */
bool may_have_keys(SegmentSet &segments, const UniqueKey *keys, int n);

/* Look at it again, where it was: false, it is dead there, or has another key. */
bool look_at_keyed_job(SegmentSet &segments, const UniqueKey &key, KeyedJob *job);

} // namespace pgq
