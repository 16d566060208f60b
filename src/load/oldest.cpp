/*
 * Finding the oldest ready job.
 *
 * Memory usually knows this job: the window has the oldest ready job of the highest priorities, and
 * core/oldest_ready.h keeps the oldest ready job of the lower priorities. Then only the rows of
 * these two jobs are read, to check them. Otherwise the rows of all priorities are searched. In
 * each segment, the index orders the rows of a queue by priority and, within a priority, by run_at.
 * For each priority, the scan reads rows until a row is ready, or is younger than the oldest job
 * found so far. Then the scan skips to the next priority.
 */
#include "load/oldest.h"

#include "catalog/shape.h"
#include "engine/hold.h"
#include "rows/index.h"
#include "rows/look_up.h"

#include <algorithm>

namespace pgq {

namespace {

struct Oldest
{
	static constexpr int kPrioritiesMax = 64;

	Snapshot snapshot;
	/*
	 * run_at of the oldest job found so far; before a job is found, later than the run_at of any
	 * due job
	 */
	TimestampTz run_at;
	bool any;
	Hint hint; /* the oldest job found so far by reading rows, if any */
	int32 priorities[kPrioritiesMax];
	int n;
	bool too_many;
};

} // namespace

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

/* Return whether the view job_status shows the job in the state `leased`. */
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

/* Start the scan at priorities below `priority`. */
static void
begin_below(IndexScanDesc scan, int32 queue_id, int64 priority)
{
	ScanKeyData keys[2];
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTLessStrategyNumber, INT8OID, InvalidOid, F_INT48LT,
						   Int64GetDatum(priority));
	index_rescan(scan, keys, 2, nullptr, 0);
}

/*
 * Compare a visible row with the oldest job found so far. Returns false if no later row of this
 * priority can be older.
 */
static bool
look_at_row(const QueueRef &ref, const Hint &hint, Oldest *oldest)
{
	note_priority(oldest, hint.key.priority);
	if (hint.key.run_at >= oldest->run_at)
		return false;
	if (is_in_hand(ref.queue->database, hint.key.job_id))
		return true;
	oldest->run_at = hint.key.run_at;
	oldest->any = true;
	oldest->hint = hint;
	return false;
}

static void
look_at_segment(const QueueRef &ref, Relation rel, const Segment &segment, int64 below,
				Oldest *oldest)
{
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	IndexLookup lookup;
	open_index_lookup(&lookup, rel, shape_of(rel, segment.number).index[kByOrder], 2);
	begin_below(lookup.scan, ref.queue_id, below);
	while (!oldest->too_many && next_version(&lookup))
	{
		bool visible = HeapTupleSatisfiesVisibility(lookup.tuple, oldest->snapshot, lookup.buffer);
		Hint hint =
			hint_of(lookup.tuple, RelationGetDescr(rel), static_cast<uint16>(segment.number));
		unlock_version(&lookup);
		if (visible && !look_at_row(ref, hint, oldest))
			begin_below(lookup.scan, ref.queue_id, hint.key.priority);
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
}

/* ---- what memory knows ---- */

namespace {

/* The oldest ready job as far as memory knows it. */
struct KnownReady
{
	bool any;	 /* the window has a ready job */
	Hint hint;	 /* the oldest job in the window, if `any` */
	int64 below; /* `hint` is the oldest job of the priorities from this one up; kAll: of none */
	bool known;	 /* memory also knows the oldest ready job of the priorities below `below` */
	bool any_beyond; /* these priorities have a ready job */
	Hint beyond;	 /* the oldest job of these priorities, if `any_beyond` */
};

} // namespace
/*
 * Return whether memory knows every ready job. False if a lease that is lost, parked or held hides
 * a ready job, or if a refill of the timer may still have to bring jobs that are due.
 */
static bool
knows_all_ready(const Queue *queue)
{
	return queue->entries == queue->leased - queue->unheld && !queue->schedule.hides_due();
}

/* Move the jobs that have become due from the timer to the window. */
static void
let_time_pass(QueueHold &hold, TimestampTz now)
{
	hold.schedule().fire(now);
	hold.may_be_ready(static_cast<int>(hold.schedule().take_fired()));
}

static KnownReady
look_at_memory(const QueueRef &ref, TimestampTz now)
{
	KnownReady ready = {.below = OldestReady::kAll};
	(void) change_queue(ref, [&](QueueHold &hold) {
		let_time_pass(hold, now);
		if (!knows_all_ready(hold.queue()))
			return;
		const Schedule &schedule = hold.schedule();
		const OldestReady &beyond = schedule.oldest_beyond();
		OldestInWindow oldest = schedule.oldest_in_window(Oldest::kPrioritiesMax);
		ready.any = oldest.hint != nullptr;
		if (ready.any)
			ready.hint = *oldest.hint;
		ready.below = oldest.below;
		ready.known = oldest.below == INT32_MIN || beyond.knows(oldest.below);
		ready.any_beyond = beyond.knows(oldest.below) && beyond.oldest() != nullptr;
		if (ready.any_beyond)
			ready.beyond = *beyond.oldest();
	});
	return ready;
}

/*
 * Return whether the job of the hint is ready: the snapshot sees its row at the hint's place, with
 * the same key and in the same queue, and no worker has the job.
 */
static bool
is_ready(const QueueRef &ref, SegmentSet &segments, const Hint &hint, Snapshot snapshot)
{
	Buffer buffer;
	HeapTupleData tuple;
	if (!lock_version(segments, hint.place, hint.key.job_id, &buffer, &tuple))
		return false;
	TupleDesc desc = RelationGetDescr(segments.open(hint.place.segment));
	bool ready = HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer) &&
				 scheduling_columns_of(&tuple, desc).queue_id == ref.queue_id &&
				 hint_of(&tuple, desc, hint.place.segment).key == hint.key;
	UnlockReleaseBuffer(buffer);
	return ready && !is_in_hand(ref.queue->database, hint.key.job_id);
}

/*
 * Check whether the jobs that memory knows are still ready. Returns the priority below which there
 * may be an older job that memory does not know; INT32_MIN if memory knows all of them. *run_at:
 * set to the run_at of the oldest job found; unchanged if none is found.
 */
static int64
find_in_memory(const QueueRef &ref, SegmentSet &segments, const KnownReady &ready,
			   Snapshot snapshot, TimestampTz *run_at)
{
	if (ready.any && !is_ready(ref, segments, ready.hint, snapshot))
		return OldestReady::kAll;
	if (ready.any)
		*run_at = ready.hint.key.run_at;
	if (!ready.known)
		return ready.below;
	if (ready.any_beyond && ready.beyond.key.run_at < *run_at)
	{
		if (!is_ready(ref, segments, ready.beyond, snapshot))
			return ready.below;
		*run_at = ready.beyond.key.run_at;
	}
	return INT32_MIN;
}

static int64
ask_memory(const QueueRef &ref, TimestampTz now, TimestampTz *run_at)
{
	KnownReady ready = look_at_memory(ref, now);
	SegmentSet segments(AccessShareLock);
	Snapshot snapshot = register_snapshot_of_others();
	int64 below = find_in_memory(ref, segments, ready, snapshot, run_at);
	UnregisterSnapshot(snapshot);
	segments.close();
	return below;
}

/* ---- the rows ---- */

/*
 * Find the oldest ready job among the rows with priorities below `below`. Keep the result in memory
 * if memory knows all ready jobs: then each job that becomes ready later is filed, and replaces the
 * kept job if it is older.
 */
static void
read_oldest(const QueueRef &ref, int64 below, TimestampTz now, Oldest *oldest)
{
	*oldest = {};
	uint32 serial = 0;
	bool keep = false;
	/* the clock was set back, so memory may have ready jobs whose run_at is in the future */
	bool later = false;
	TimestampTz due = now;
	(void) change_queue(ref, [&](QueueHold &hold) {
		let_time_pass(hold, now);
		Schedule &schedule = hold.schedule();
		due = schedule.due_line();
		keep = knows_all_ready(hold.queue());
		later = schedule.horizon() > due;
		if (keep)
			serial = schedule.oldest_beyond().begin(below);
	});
	oldest->run_at = due + 1;
	SegmentSet segments(AccessShareLock);
	const Tables &t = segments.open_all();
	require_complete_segments();
	oldest->snapshot = register_snapshot_of_others();
	for (const Segment &segment : t.segments(kJobRing))
		look_at_segment(ref, segments.open(segment.number), segment, below, oldest);
	UnregisterSnapshot(oldest->snapshot);
	segments.close();
	/*
	 * After the clock was set back, a job may be ready although its run_at is in the future: its
	 * time had come before. This search does not see such a job. So if the search has found no job
	 * and there may be such a job (`later`), keep nothing. If the search has found a job, keep it:
	 * its run_at is earlier.
	 */
	if (keep && !oldest->too_many && (oldest->any || !later))
		(void) change_queue(ref, [&](QueueHold &hold) {
			hold.schedule().oldest_beyond().finish(serial, oldest->any ? &oldest->hint : nullptr);
		});
}

bool
find_oldest_ready(const QueueRef &ref, TimestampTz *run_at)
{
	TimestampTz now = wall_now();
	TimestampTz oldest_known = DT_NOEND;
	int64 below = ask_memory(ref, now, &oldest_known);
	Oldest read = {.run_at = DT_NOEND};
	if (below > INT32_MIN)
		read_oldest(ref, below, now, &read);
	*run_at = Min(oldest_known, read.run_at);
	return !read.too_many && *run_at < now;
}

} // namespace pgq
