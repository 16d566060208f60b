/*
 * In each segment the rows of a queue lie by priority, and within one by run_at: of each priority the
 * first rows are looked at, up to one that is ready, or is not older than what was found before, and then the scan goes
 * on with the next priority.
 */
#include "load/oldest.h"

#include "engine/hold.h"
#include "rows/index.h"
#include "rows/job.h"
#include "rows/segment_set.h"

#include <algorithm>

namespace pgq {

struct Oldest
{
	static constexpr int kPrioritiesMax = 64;

	Snapshot snapshot;
	TimestampTz run_at; /* of the oldest so far; or later than all that is due */
	int32 priorities[kPrioritiesMax];
	int n;
	bool too_many;
};

static void
note_priority(Oldest *oldest, int32 priority)
{
	int32 *end = oldest->priorities + oldest->n;
	if (std::find(oldest->priorities, end, priority) != end)
		return;
	oldest->too_many = oldest->n == Oldest::kPrioritiesMax;
	if (!oldest->too_many)
		oldest->priorities[oldest->n++] = priority;
}

/* As the view job_status says leased. */
static bool
is_in_hand(const Database *db, int64 job_id)
{
	bool in_hand = false;
	(void) look_at_lease(db, job_id, [&](const Lease &lease) {
		in_hand = (lease.state == LeaseState::kClaimed && !lease.doomed) ||
				  (lease.state == LeaseState::kClaiming && lease.uses == 0);
	});
	return in_hand;
}

static void
begin_below(IndexScanDesc scan, int32 queue_id, int32 priority, bool from_top)
{
	ScanKeyData keys[2];
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, from_top ? BTLessEqualStrategyNumber : BTLessStrategyNumber,
				from_top ? F_INT4LE : F_INT4LT, Int32GetDatum(priority));
	index_rescan(scan, keys, 2, nullptr, 0);
}

/* False: no later one of its priority can be what is looked for. */
static bool
look_at_row(const QueueRef &ref, const Key &key, Oldest *oldest)
{
	note_priority(oldest, key.priority);
	if (key.run_at >= oldest->run_at)
		return false;
	if (is_in_hand(ref.queue->database, key.job_id))
		return true;
	oldest->run_at = key.run_at;
	return false;
}

static void
look_at_segment(const QueueRef &ref, Relation rel, const Segment &segment, Oldest *oldest)
{
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	IndexLookup lookup;
	open_index_lookup(&lookup, rel, segment.index[kByOrder], 2);
	begin_below(lookup.scan, ref.queue_id, INT32_MAX, true);
	while (!oldest->too_many && next_version(&lookup))
	{
		bool visible = HeapTupleSatisfiesVisibility(lookup.tuple, oldest->snapshot, lookup.buffer);
		Key key =
			hint_of(lookup.tuple, RelationGetDescr(rel), static_cast<uint16>(segment.number)).key;
		unlock_version(&lookup);
		if (visible && !look_at_row(ref, key, oldest))
			begin_below(lookup.scan, ref.queue_id, key.priority, false);
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
}

bool
find_oldest_ready(const QueueRef &ref, TimestampTz *run_at)
{
	TimestampTz now = wall_now();
	Oldest oldest = {.run_at = now};
	SegmentSet segments(AccessShareLock);
	const Tables &t = segments.open_all();
	require_complete_segments();
	oldest.snapshot = RegisterSnapshot(GetLatestSnapshot());
	for (const Segment &segment : t.segments(kJobRing))
		look_at_segment(ref, segments.open(segment.number), segment, &oldest);
	UnregisterSnapshot(oldest.snapshot);
	segments.close();
	*run_at = oldest.run_at;
	return !oldest.too_many && oldest.run_at < now;
}

} // namespace pgq
