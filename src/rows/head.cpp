#include "rows/head.h"

#include "catalog/shape.h"
#include "pg/clock.h"
#include "rows/index.h"

namespace pgq {

/* Return whether the row is visible, and its job has not expired at the time `then`. */
static bool
is_first(const IndexLookup &lookup, Snapshot snapshot, TimestampTz then)
{
	if (!HeapTupleSatisfiesVisibility(lookup.tuple, snapshot, lookup.buffer))
		return false;
	bool is_null;
	Datum expires_at =
		heap_getattr(lookup.tuple, kJobExpiresAt, lookup.slot->tts_tupleDescriptor, &is_null);
	return is_null || DatumGetTimestampTz(expires_at) > then;
}

static void
begin_scan(IndexLookup *lookup, SegmentSet &segments, const Segment &segment, int32 queue_id,
		   int64 group, int64 from, int64 before)
{
	ScanKeyData keys[4];
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(before));
	Relation rel = segments.open(segment.number);
	open_index_lookup(lookup, rel, shape_of(rel, segment.number).index[kFifo], lengthof(keys));
	index_rescan(lookup->scan, keys, lengthof(keys), nullptr, 0);
}

/*
 * Find the group's first job in one segment, not counting jobs that expire before `then`. Returns
 * false if the segment has no job of the group.
 */
static bool
first_in_segment(IndexLookup *lookup, uint16 segment, Snapshot snapshot, TimestampTz then,
				 Hint *first)
{
	bool found = false;
	while (!found && next_version(lookup))
	{
		found = is_first(*lookup, snapshot, then);
		if (found)
			*first = hint_of(lookup->tuple, lookup->slot->tts_tupleDescriptor, segment);
		unlock_version(lookup);
		CHECK_FOR_INTERRUPTS();
	}
	return found;
}

/*
 * Search segment by segment, each time only for jobs before the head that was found so far. The
 * answer must be the same for all sessions, so changes of this transaction itself must be
 * invisible. Therefore the snapshot gets the first command id: all changes of this transaction have
 * a later one.
 */
static bool
find_first(SegmentSet &segments, int32 queue_id, int64 group, int64 from, int64 before,
		   TimestampTz then, Hint *first)
{
	const Tables &t = segments.open_all();
	Snapshot registered = RegisterSnapshot(GetLatestSnapshot());
	SnapshotData snapshot = *registered;
	snapshot.curcid = FirstCommandId;
	bool found = false;
	for (const Segment &segment : t.segments(kJobRing))
	{
		if (segments.is_bare(segment.number))
			continue;
		IndexLookup lookup;
		begin_scan(&lookup, segments, segment, queue_id, group, from, before);
		if (first_in_segment(&lookup, static_cast<uint16>(segment.number), &snapshot, then, first))
		{
			before = first->key.job_id;
			found = true;
		}
		end_index_lookup(&lookup);
	}
	UnregisterSnapshot(registered);
	return found;
}

bool
find_head(SegmentSet &segments, int32 queue_id, int64 group, int64 from, int64 before, Hint *head)
{
	return find_first(segments, queue_id, group, from, before, wall_now(), head);
}

bool
find_first_row(SegmentSet &segments, int32 queue_id, int64 group, Hint *first)
{
	return find_first(segments, queue_id, group, PG_INT64_MIN, PG_INT64_MAX, DT_NOBEGIN, first);
}

} // namespace pgq
