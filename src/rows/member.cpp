#include "rows/member.h"

#include "catalog/shape.h"
#include "rows/index.h"
#include "rows/job.h"
#include "rows/visibility.h"

namespace pgq {

/*
 * Read the versions of members backwards, from the greatest id on, until one is not dead. Most ended
 * members have smaller ids than those that are left. job_id: look at this member only; 0: at all.
 */
static int64
find_member_of(Relation rel, Oid by_batch, int64 batch_id, int64 job_id)
{
	ScanKeyData keys[2];
	int64 found = 0;
	IndexLookup lookup{};
	int n = job_id != 0 ? 2 : 1;
	open_index_lookup(&lookup, rel, by_batch, n);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(batch_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	index_rescan(lookup.scan, keys, n, nullptr, 0);
	while (found == 0 && previous_version(&lookup))
	{
		bool is_null;
		if (visibility_of(lookup.tuple, lookup.buffer) != Visibility::kDead)
			found =
				DatumGetInt64(heap_getattr(lookup.tuple, kJobId, RelationGetDescr(rel), &is_null));
		unlock_version(&lookup);
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
	return found;
}

static int64
find_in_segments(SegmentSet &segments, int64 batch_id, int64 job_id)
{
	const Tables &t = segments.open_all();
	int64 found = 0;
	require_complete_segments(t);
	for (const Segment &segment : t.segments(kJobRing))
	{
		Relation rel = segments.open(segment.number);
		Oid by_batch = shape_of(rel, segment.number).index[kByBatch];
		if (OidIsValid(by_batch) && !segments.is_bare(segment.number))
			found = Max(found, find_member_of(rel, by_batch, batch_id, job_id));
	}
	return found;
}

int64
find_live_member(SegmentSet &segments, int64 batch_id)
{
	return find_in_segments(segments, batch_id, 0);
}

bool
is_live_member(SegmentSet &segments, int64 batch_id, int64 job_id)
{
	return find_in_segments(segments, batch_id, job_id) != 0;
}

} // namespace pgq
