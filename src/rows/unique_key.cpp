#include "rows/unique_key.h"

#include "catalog/shape.h"
#include "rows/look_up.h"
#include "rows/visibility.h"

#include <algorithm>

namespace pgq {

int64
hash_of_key(int32 queue_id, const text *key)
{
	return static_cast<int64>(
		hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(key)),
							static_cast<int>(VARSIZE_ANY_EXHDR(key)),
							static_cast<uint64>(static_cast<int64>(queue_id))));
}

/*
 * Return whether the stored key equals the wanted key. A key that a user's SQL has copied from
 * another table may be compressed or toasted. Such a key cannot be read under the lock of a buffer,
 * so it counts as equal if length and hash are equal.
 */
static bool
is_text(Datum value, const text *wanted)
{
	const auto *key = reinterpret_cast<const text *>(DatumGetPointer(value));
	size_t length = VARSIZE_ANY_EXHDR(wanted);
	if (VARATT_IS_EXTERNAL(key) || VARATT_IS_COMPRESSED(key))
		return toast_raw_datum_size(value) - VARHDRSZ == length;
	return VARSIZE_ANY_EXHDR(key) == length &&
		   memcmp(VARDATA_ANY(key), VARDATA_ANY(wanted), length) == 0;
}

bool
has_key(HeapTuple tuple, TupleDesc desc, const KeyColumns &columns, const UniqueKey &wanted)
{
	bool is_null;
	if (DatumGetInt32(heap_getattr(tuple, columns.queue_id, desc, &is_null)) != wanted.queue_id)
		return false;
	Datum hash = heap_getattr(tuple, columns.unique_hash, desc, &is_null);
	if (is_null || DatumGetInt64(hash) != wanted.hash)
		return false;
	Datum value = heap_getattr(tuple, columns.unique_key, desc, &is_null);
	return !is_null && is_text(value, wanted.key);
}

static bool
is_keyed(HeapTuple tuple, TupleDesc desc, const UniqueKey &key)
{
	static constexpr KeyColumns columns = {kJobQueueId, kJobUniqueKey, kJobUniqueHash};
	return has_key(tuple, desc, columns, key);
}

/*
 * Fill *job from a row version that has the key. Returns false if the version is dead; a version
 * that this transaction has deleted or replaced counts as dead.
 */
static bool
judge_keyed(HeapTuple tuple, Buffer buffer, KeyedJob *job)
{
	TransactionId dead_after;
	job->locked_by_us = false;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			job->state = KeyedJob::kLive;
			job->locked_by_us = is_locked_by_us(tuple->t_data);
			return true;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			job->xid = HeapTupleHeaderGetXmin(tuple->t_data);
			job->state = TransactionIdIsCurrentTransactionId(job->xid) ? KeyedJob::kOurs
																	   : KeyedJob::kArriving;
			job->locked_by_us = job->state == KeyedJob::kArriving && is_locked_by_us(tuple->t_data);
			return true;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			job->xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			job->state = KeyedJob::kEnding;
			job->locked_by_us = is_locked_by_us(tuple->t_data);
			return !TransactionIdIsCurrentTransactionId(job->xid);
		default:
			return false;
	}
}

static void
note_version(HeapTuple tuple, TupleDesc desc, int segment, KeyedJob *job)
{
	bool is_null;
	job->hint = hint_of(tuple, desc, static_cast<uint16>(segment));
	job->attempts = DatumGetInt32(heap_getattr(tuple, kJobAttempts, desc, &is_null));
	Datum expires_at = heap_getattr(tuple, kJobExpiresAt, desc, &is_null);
	job->expires_at = is_null ? DT_NOEND : DatumGetTimestampTz(expires_at);
	job->batch_id = batch_of(tuple, desc);
}

namespace {

struct Found
{
	KeyedJob *jobs;
	int n;
	int size;
	uint64 moved; /* sum of the traces of dead versions; see trace_of() */

	KeyedJob *next()
	{
		if (n == size)
		{
			size = Max(2 * size, 4);
			jobs =
				static_cast<KeyedJob *>(jobs == nullptr ? palloc(size * sizeof(KeyedJob))
														: repalloc(jobs, size * sizeof(KeyedJob)));
		}
		return &jobs[n];
	}
};

} // namespace

void
look_for_key(IndexLookup *lookup, const UniqueKey &key)
{
	ScanKeyData scan_key;
	ScanKeyInit(&scan_key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(key.hash));
	index_rescan(lookup->scan, &scan_key, 1, nullptr, 0);
}

static void
look_in_segment(SegmentSet &segments, const Segment &segment, const UniqueKey &key, Found *found)
{
	Relation rel = segments.open(segment.number);
	IndexLookup lookup{};
	open_index_lookup(&lookup, rel, shape_of(rel, segment.number).index[kByKey], 1);
	look_for_key(&lookup, key);
	/*
	 * Allocate room for a result before next_version() locks the buffer, since nothing may be
	 * allocated under that lock.
	 */
	for (KeyedJob *job = found->next(); next_version(&lookup); job = found->next())
	{
		if (is_keyed(lookup.tuple, RelationGetDescr(rel), key))
		{
			if (judge_keyed(lookup.tuple, lookup.buffer, job))
			{
				note_version(lookup.tuple, RelationGetDescr(rel), segment.number, job);
				found->n++;
			}
			else
				found->moved += trace_of(lookup.tuple);
		}
		unlock_version(&lookup);
	}
	end_index_lookup(&lookup);
}

int
find_keyed_jobs(SegmentSet &segments, const UniqueKey &key, KeyedJob **jobs)
{
	const Tables &t = segments.open_all();
	Found found{};
	for (uint64 before = 0;; before = found.moved)
	{
		require_complete_segments(t);
		found.n = 0;
		found.moved = 0;
		for (const Segment &segment : t.segments(kJobRing))
			if (!segments.is_bare(segment.number))
				look_in_segment(segments, segment, key, &found);
		/*
		 * A row may have moved to a segment that this pass had searched before. A move leaves a dead
		 * version, whose trace (trace_of()) is added to found.moved. So repeat until two passes in a
		 * row have the same sum: then no row was moved between them.
		 */
		if (found.moved == before)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	std::sort(found.jobs, found.jobs + found.n,
			  [](const KeyedJob &a, const KeyedJob &b) { return a.job_id() > b.job_id(); });
	*jobs = found.jobs;
	return found.n;
}

static bool
may_have_key(IndexLookup *lookup, TupleDesc desc, const UniqueKey &key)
{
	bool may = false;
	look_for_key(lookup, key);
	while (!may && next_version(lookup))
	{
		KeyedJob job;
		may = is_keyed(lookup->tuple, desc, key) &&
			  (judge_keyed(lookup->tuple, lookup->buffer, &job) || trace_of(lookup->tuple) != 0);
		unlock_version(lookup);
	}
	return may;
}

bool
may_have_keys(SegmentSet &segments, const UniqueKey *keys, int n)
{
	const Tables &t = segments.open_all();
	bool may = false;
	require_complete_segments(t);
	for (const Segment &segment : t.segments(kJobRing))
	{
		if (may || segments.is_bare(segment.number))
			continue;
		Relation rel = segments.open(segment.number);
		IndexLookup lookup{};
		open_index_lookup(&lookup, rel, shape_of(rel, segment.number).index[kByKey], 1);
		for (int i = 0; i < n && !may; i++)
			may = may_have_key(&lookup, RelationGetDescr(rel), keys[i]);
		end_index_lookup(&lookup);
	}
	return may;
}

bool
look_at_keyed_job(SegmentSet &segments, const UniqueKey &key, KeyedJob *job)
{
	Buffer buffer;
	HeapTupleData tuple;
	if (!lock_version(segments, job->hint.place, job->job_id(), &buffer, &tuple))
		return false;
	TupleDesc desc = RelationGetDescr(segments.open(job->hint.place.segment));
	bool there = is_keyed(&tuple, desc, key) && judge_keyed(&tuple, buffer, job);
	if (there)
		note_version(&tuple, desc, job->hint.place.segment, job);
	UnlockReleaseBuffer(buffer);
	return there;
}

} // namespace pgq
