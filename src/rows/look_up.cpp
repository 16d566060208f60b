#include "rows/look_up.h"

#include "catalog/shape.h"
#include "rows/index.h"

namespace pgq {

bool
lock_version(SegmentSet &segments, const Place &place, int64 job_id, Buffer *buffer,
			 HeapTupleData *tuple)
{
	/* A place with offset 0 is unknown: the caller knows only the id of the job. */
	*buffer = place.offset < FirstOffsetNumber ? InvalidBuffer : segments.pin(place);
	if (!BufferIsValid(*buffer))
		return false;
	Relation rel = segments.open(place.segment);
	LockBuffer(*buffer, BUFFER_LOCK_SHARE);
	Page page = BufferGetPage(*buffer);
	if (place.offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId item = PageGetItemId(page, place.offset);
		if (ItemIdIsNormal(item))
		{
			tuple->t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
			tuple->t_len = ItemIdGetLength(item);
			tuple->t_tableOid = RelationGetRelid(rel);
			ItemPointerSet(&tuple->t_self, place.block, place.offset);
			bool is_null;
			Datum id = heap_getattr(tuple, kJobId, RelationGetDescr(rel), &is_null);
			if (!is_null && DatumGetInt64(id) == job_id)
				return true;
		}
	}
	UnlockReleaseBuffer(*buffer);
	return false;
}

/*
 * Call visit() for the versions of the job in all segments, each under the lock of its buffer,
 * until visit() returns true.
 */
template <typename Visit>
static void
visit_versions(SegmentSet &segments, const Tables &t, int64 job_id, Visit visit)
{
	bool done = false;
	for (const Segment &segment : t.segments(kJobRing))
	{
		if (done || segments.is_bare(segment.number))
			continue;
		Relation rel = segments.open(segment.number);
		IndexLookup *lookup =
			begin_index_lookup(rel, shape_of(rel, segment.number).index[kById], job_id);
		while (!done && next_version(lookup))
		{
			done = visit(rel, segment.number, lookup->tuple, lookup->buffer);
			unlock_version(lookup);
		}
		end_index_lookup(lookup);
	}
}

/*
 * Search all segments once. *moved: set to the sum of the traces (trace_of()) of the job's dead
 * versions.
 */
static Visibility
look_up_once(SegmentSet &segments, const Tables &t, int64 job_id, JobRow *row, uint64 *moved)
{
	Visibility visibility = Visibility::kDead;
	*moved = 0;
	visit_versions(segments, t, job_id,
				   [&](Relation rel, int segment, HeapTuple tuple, Buffer buffer) {
					   visibility = visibility_of(tuple, buffer);
					   if (visibility == Visibility::kLive)
						   copy_row(rel, tuple, segment, row);
					   else if (visibility == Visibility::kDead)
						   *moved += trace_of(tuple);
					   return visibility != Visibility::kDead;
				   });
	return visibility;
}

/*
 * Look for the job by its id in all segments. The scan can miss a row that moves to a place that
 * was already scanned. In that case the scan has seen the old version as moved, and a second scan
 * finds the new version. If the row has moved once more before the second scan, the result is
 * kBusy.
 */
static Visibility
look_up(SegmentSet &segments, int64 job_id, JobRow *row)
{
	const Tables &t = segments.open_all();
	/*
	 * If the list of segments is incomplete, the job may be in a missing segment: see
	 * segments_known() in load/refill.cpp.
	 */
	if (!t.has_segments)
		return Visibility::kBusy;
	uint64 moved;
	Visibility visibility = look_up_once(segments, t, job_id, row, &moved);
	if (visibility != Visibility::kDead || moved == 0)
		return visibility;
	uint64 moved_by_now;
	visibility = look_up_once(segments, t, job_id, row, &moved_by_now);
	return visibility == Visibility::kDead && moved_by_now != moved ? Visibility::kBusy
																	: visibility;
}

Visibility
verify_job(SegmentSet &segments, const Place &place, int64 job_id, JobRow *row)
{
	Visibility visibility = Visibility::kDead;
	Buffer buffer;
	HeapTupleData tuple;
	if (lock_version(segments, place, job_id, &buffer, &tuple))
	{
		visibility = visibility_of(&tuple, buffer);
		if (visibility == Visibility::kLive)
			copy_row(segments.open(place.segment), &tuple, place.segment, row);
		UnlockReleaseBuffer(buffer);
	}
	return visibility == Visibility::kDead ? look_up(segments, job_id, row) : visibility;
}

static bool
find_writable_once(SegmentSet &segments, const Tables &t, int64 job_id, Place *place,
				   TransactionId *inserter, uint64 *moved)
{
	bool found = false;
	*moved = 0;
	visit_versions(segments, t, job_id, [&](Relation, int segment, HeapTuple tuple, Buffer buffer) {
		found = is_writable(tuple, buffer, inserter);
		if (visibility_of(tuple, buffer) == Visibility::kDead)
			*moved += trace_of(tuple);
		*place = place_of(tuple->t_self, segment);
		return found;
	});
	return found;
}

/* Search like look_up(), but repeat until two passes have the same sum of traces. */
bool
find_writable(SegmentSet &segments, int64 job_id, Place *place, TransactionId *inserter)
{
	const Tables &t = segments.open_all();
	require_complete_segments(t);
	for (uint64 before = 0;;)
	{
		uint64 moved;
		if (find_writable_once(segments, t, job_id, place, inserter, &moved))
			return true;
		if (TransactionIdIsValid(*inserter) || moved == before)
			return false;
		before = moved;
		CHECK_FOR_INTERRUPTS();
	}
}

bool
queue_of_job(SegmentSet &segments, int64 job_id, int32 *queue_id)
{
	bool found = false;
	visit_versions(segments, segments.open_all(), job_id,
				   [&](Relation rel, int, HeapTuple tuple, Buffer buffer) {
					   bool is_null;
					   found = visibility_of(tuple, buffer) != Visibility::kDead;
					   if (found)
						   *queue_id = DatumGetInt32(
							   heap_getattr(tuple, kJobQueueId, RelationGetDescr(rel), &is_null));
					   return found;
				   });
	return found;
}

int64
batch_of_job(SegmentSet &segments, const Place &place, int64 job_id)
{
	int64 batch_id = 0;
	Buffer buffer;
	HeapTupleData tuple;
	if (lock_version(segments, place, job_id, &buffer, &tuple))
	{
		batch_id = batch_of(&tuple, RelationGetDescr(segments.open(place.segment)));
		UnlockReleaseBuffer(buffer);
		return batch_id;
	}
	visit_versions(segments, segments.open_all(), job_id,
				   [&](Relation rel, int, HeapTuple version, Buffer) {
					   batch_id = batch_of(version, RelationGetDescr(rel));
					   return true;
				   });
	return batch_id;
}

List *
deleters_of(SegmentSet &segments, int64 job_id, int32 *queue_id)
{
	List *deleters = NIL;
	visit_versions(segments, segments.open_all(), job_id,
				   [&](Relation rel, int, HeapTuple tuple, Buffer buffer) {
					   uint16 mask = tuple->t_data->t_infomask;
					   if (visibility_of(tuple, buffer) != Visibility::kDead ||
						   (mask & HEAP_XMAX_INVALID) || HEAP_XMAX_IS_LOCKED_ONLY(mask))
						   return false;
					   bool is_null;
					   deleters = lappend_oid(deleters, HeapTupleHeaderGetUpdateXid(tuple->t_data));
					   *queue_id = DatumGetInt32(
						   heap_getattr(tuple, kJobQueueId, RelationGetDescr(rel), &is_null));
					   return false;
				   });
	return deleters;
}

void
add_to_trace(HeapTuple tuple, Buffer buffer, TupleDesc desc, int column, JobTrace *trace)
{
	TransactionId dead_after;
	TransactionId xid = InvalidTransactionId;
	JobTrace::State state = JobTrace::kNone;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
			state = JobTrace::kThere;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			xid = HeapTupleHeaderGetXmin(tuple->t_data);
			state = TransactionIdIsCurrentTransactionId(xid) ? JobTrace::kThere : JobTrace::kOpen;
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
			state =
				TransactionIdIsCurrentTransactionId(xid) ? JobTrace::kOursGone : JobTrace::kOpen;
			break;
		default:
			return;
	}
	/* If versions differ, kThere counts most, then the state of the first version. */
	if (trace->state == JobTrace::kThere ||
		(trace->state == JobTrace::kOpen && state != JobTrace::kThere))
		return;
	bool is_null;
	trace->state = state;
	trace->decider = xid;
	trace->queue_id = DatumGetInt32(heap_getattr(tuple, column, desc, &is_null));
}

/* Search like find_writable(): repeat until two passes have the same sum of traces. */
JobTrace
trace_job(SegmentSet &segments, int64 job_id)
{
	const Tables &t = segments.open_all();
	require_complete_segments(t);
	for (uint64 before = 0;;)
	{
		JobTrace trace{};
		uint64 moved = 0;
		visit_versions(segments, t, job_id, [&](Relation rel, int, HeapTuple tuple, Buffer buffer) {
			add_to_trace(tuple, buffer, RelationGetDescr(rel), kJobQueueId, &trace);
			if (visibility_of(tuple, buffer) == Visibility::kDead)
				moved += trace_of(tuple);
			return trace.state == JobTrace::kThere;
		});
		if (trace.state != JobTrace::kNone || moved == before)
			return trace;
		before = moved;
		CHECK_FOR_INTERRUPTS();
	}
}

bool
is_visible(SegmentSet &segments, int64 job_id, Snapshot snapshot)
{
	bool seen = false;
	visit_versions(segments, segments.open_all(), job_id,
				   [&](Relation, int, HeapTuple tuple, Buffer buffer) {
					   seen = HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
					   return seen;
				   });
	return seen;
}

} // namespace pgq
