#include "ring/move.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "pg/stop_point.h"
#include "ring/survey.h"
#include "rows/visibility.h"
#include "rows/write.h"
#include "txn/effects.h"

namespace pgq {

namespace {

struct Candidate
{
	int32 queue_id;
	Hint hint;
};

} // namespace

/*
 * Collect live rows from *next on. Returns their number. Pages are share-locked one at a time. The
 * collection ends at `most` rows or about 1 MB; *next is then the first live row that was not
 * collected.
 */
static int
collect_live(Relation rel, int segment, Position *next, Candidate *candidates, int most)
{
	static constexpr int64 kManyBytes = 1024 * 1024;
	TupleDesc desc = RelationGetDescr(rel);
	BlockNumber end = RelationGetNumberOfBlocks(rel);
	int64 bytes = 0;
	int n = 0;
	bool full = false;
	while (next->block < end && !full)
	{
		Buffer buffer = lock_page(rel, next->block, nullptr);
		visit_page(rel, buffer, next->offset, [&](HeapTuple tuple) {
			if (visibility_of(tuple, buffer) != Visibility::kLive)
				return true;
			/* If the batch is full, leave this row to the next batch. */
			full = n == most || bytes > kManyBytes;
			if (full)
			{
				next->offset = ItemPointerGetOffsetNumber(&tuple->t_self);
				return false;
			}
			bool is_null;
			bytes += version_bytes(tuple, desc);
			candidates[n++] = {DatumGetInt32(heap_getattr(tuple, kJobQueueId, desc, &is_null)),
							   hint_of(tuple, desc, static_cast<uint16>(segment))};
			return true;
		});
		UnlockReleaseBuffer(buffer);
		if (!full)
			*next = {next->block + 1, FirstOffsetNumber};
	}
	return n;
}

/*
 * Move a row under its job's lease. At commit the lease ends and a hint of the job is filed, even
 * if the row was not moved: a superfluous hint does no harm.
 */
static bool
move_row(SegmentSet &segments, const Candidate &candidate, const Segment &to)
{
	QueueRef ref;
	Lease *lease;
	VirtualTransactionId other;
	Hint hint = candidate.hint;
	/*
	 * A queue without a slot has no leases, so its row stays where it is. The row will be read when
	 * the queue gets a slot.
	 */
	if (!find_attached_queue(look_at_tables().database, candidate.queue_id, &ref))
		return false;
	reserve_hints(ref, look_at_tables().queue, 1);
	if (take_lease_to_end(ref, hint, LeaseEnd::kMoved, &lease, &other) != TakeResult::kTaken)
		return false;
	bool moved = move_job(segments, hint.place, hint.key.job_id, to, &hint);
	add_hint(ref, hint, false);
	return moved;
}

bool
move_jobs(const Segment &from, const Segment &to, Position *next, int most, int *moved)
{
	*moved = 0;
	if (!lock_queue(0, QueueLock::kJobMoves, ExclusiveLock, false))
		return true;
	auto *candidates = static_cast<Candidate *>(palloc(most * sizeof(Candidate)));
	SegmentSet segments(RowExclusiveLock);
	Relation rel = segments.open(from.number);
	int n = collect_live(rel, from.number, next, candidates, most);
	for (int i = 0; i < n; i++)
		*moved += move_row(segments, candidates[i], to);
	bool at_end = next->block >= RelationGetNumberOfBlocks(rel);
	segments.close();
	pfree(candidates);
	stop_point("rotation-moved");
	return at_end;
}

void
wait_for_mover(const QueueRef &ref, VirtualTransactionId mover)
{
	if (!VirtualTransactionIdIsValid(mover))
		return;
	VirtualXactLock(mover, true);
	(void) change_queue(ref, [&](QueueHold &hold) {
		if (VirtualTransactionIdEquals(hold->mover, mover))
			SetInvalidVirtualTransactionId(hold->mover);
	});
}

} // namespace pgq
