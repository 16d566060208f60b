#include "load/depth.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "engine/watch.h"
#include "load/row_stream.h"
#include "pg/stop_point.h"

#include <algorithm>

namespace pgq {

/* By what a version is judged. */
struct Eyes
{
	SnapshotData snapshot;
	TransactionId *prepared; /* before the start, and perhaps not ended */
	int n_prepared;
};

/* Has that transaction, or a subtransaction of it, inserted the version, and not deleted it? Nobody else can have. */
static bool
is_prepared(const Eyes &eyes, HeapTupleHeader header)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(header);
	if (eyes.n_prepared == 0 || !TransactionIdIsNormal(xmin) ||
		TransactionIdPrecedes(xmin, TransactionXmin) || HeapTupleHeaderXminInvalid(header))
		return false;
	TransactionId top = SubTransGetTopmostTransaction(xmin);
	TransactionId *end = eyes.prepared + eyes.n_prepared;
	if (std::find(eyes.prepared, end, top) == end)
		return false;
	return (header->t_infomask & HEAP_XMAX_INVALID) || HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask);
}

static int64
count_segment(SegmentSet &segments, const Segment &segment, int32 queue_id, Eyes *eyes)
{
	int64 n = 0;
	RowStream stream;
	ScanKeyData key;
	open_stream(&stream, segments, segment.number, queue_id, segment.index[kByOrder], 1);
	if (!stream.opened)
		return 0;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	IndexLookup &lookup = stream.lookup;
	index_rescan(lookup.scan, &key, 1, nullptr, 0);
	while (next_version(&lookup))
	{
		n += HeapTupleSatisfiesVisibility(lookup.tuple, &eyes->snapshot, lookup.buffer) ||
			 is_prepared(*eyes, lookup.tuple->t_data);
		unlock_version(&lookup);
		CHECK_FOR_INTERRUPTS();
	}
	close_stream(&stream);
	return n;
}

static int64
count_segments(SegmentSet &segments, const Tables &t, int32 queue_id, Eyes *eyes)
{
	int64 n = 0;
	for (const Segment &segment : t.segments(kJobRing))
		n += count_segment(segments, segment, queue_id, eyes);
	return n;
}

/* What this transaction has done itself is not seen: its commands are all after that one. */
static Snapshot
open_eyes(Eyes *eyes)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	eyes->snapshot = *snapshot;
	eyes->snapshot.curcid = FirstCommandId;
	return snapshot;
}

static void
list_prepared(Eyes *eyes)
{
	eyes->prepared =
		static_cast<TransactionId *>(palloc((max_prepared_xacts + 1) * sizeof(TransactionId)));
	eyes->n_prepared = any_prepared() ? list_unknown(MyDatabaseId, eyes->prepared) : 0;
}

/* A snapshot does not name the transaction that takes it. */
static int
list_running(const Eyes &eyes, TransactionId *running)
{
	int n = static_cast<int>(eyes.snapshot.xcnt);
	std::copy(eyes.snapshot.xip, eyes.snapshot.xip + n, running);
	TransactionId mine = GetTopTransactionIdIfAny();
	if (TransactionIdIsValid(mine))
		running[n++] = mine;
	return n;
}

static bool
publish(const QueueRef &ref, uint32 serial, const Eyes &eyes, TransactionId *running)
{
	bool done = false;
	uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64 xmax = next - (static_cast<uint32>(next) - eyes.snapshot.xmax);
	int n = list_running(eyes, running);
	(void) change_queue(ref, [&](QueueHold &hold) {
		done = publish_snapshot(hold->depth, serial, xmax, running, n);
	});
	return done;
}

/* False: it knows, or is gone. exactly: rather than too much. */
static bool
begin(const QueueRef &ref, bool exactly, uint32 *serial)
{
	bool begun = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		const DepthCount &depth = hold->depth;
		begun =
			depth.limited && (depth.state != DepthCount::kKnown || (exactly && depth.may_be_high));
		if (begun)
			*serial = begin_count(hold->depth);
	});
	return begun;
}

/* Begin, which has callbacks logged; take the snapshot; publish it; read, with nothing locked; finish. */
static void
count(const QueueRef &ref, SegmentSet &segments, const Tables &t)
{
	Eyes eyes;
	uint32 serial;
	auto *running = static_cast<TransactionId *>(palloc(running_max() * sizeof(TransactionId)));
	/* Once: who deletes all the time would have it counted for ever. */
	for (bool exactly = true; begin(ref, exactly, &serial); exactly = false)
	{
		list_prepared(&eyes);
		Snapshot snapshot = open_eyes(&eyes);
		stop_point("depth-snapshot");
		if (publish(ref, serial, eyes, running))
		{
			stop_point("depth-scan");
			int64 rows = count_segments(segments, t, ref.queue_id, &eyes);
			(void) change_queue(
				ref, [&](QueueHold &hold) { (void) finish_count(hold->depth, serial, rows); });
		}
		UnregisterSnapshot(snapshot);
		pfree(eyes.prepared);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(running);
}

void
count_depth(const QueueRef &ref)
{
	(void) lock_queue(ref.queue_id, QueueLock::kDepth, ExclusiveLock, true);
	SegmentSet segments(AccessShareLock);
	const Tables &t = segments.open_all();
	require_complete_segments();
	count(ref, segments, t);
	segments.close();
	unlock_queue(ref.queue_id, QueueLock::kDepth, ExclusiveLock);
}

int64
live_rows(const QueueRef &ref)
{
	Eyes eyes;
	SegmentSet segments(AccessShareLock);
	const Tables &t = segments.open_all();
	list_prepared(&eyes);
	Snapshot snapshot = open_eyes(&eyes);
	int64 rows = count_segments(segments, t, ref.queue_id, &eyes);
	UnregisterSnapshot(snapshot);
	segments.close();
	pfree(eyes.prepared);
	return rows;
}

} // namespace pgq
