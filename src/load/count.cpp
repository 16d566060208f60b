#include "load/count.h"

#include "catalog/queue_lock.h"
#include "catalog/shape.h"
#include "engine/hold.h"
#include "engine/prepared_entry.h"
#include "load/row_stream.h"
#include "pg/stop_point.h"

#include <algorithm>

namespace pgq {

namespace {
/*
 * What a count sees: the snapshot that decides which row versions count, and the prepared
 * transactions whose jobs are counted separately.
 */
struct Eyes
{
	SnapshotData snapshot;
	Snapshot registered;
	TransactionId *prepared; /* prepared before the start of the server, and perhaps still open */
	int n_prepared;
};

} // namespace

/* ---- rows ---- */

/*
 * Return whether the version was inserted, and not deleted, by one of the prepared transactions of
 * `eyes` or by a subtransaction of such a transaction. No other transaction can have deleted the
 * version, since no other transaction sees the version.
 */
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

/*
 * Visit each version to which an index scan of the segment leads, under the lock of the version's
 * buffer.
 */
template <typename Begin, typename Visit>
static void
visit_versions(Relation rel, Oid index, int keys, Begin begin, Visit visit)
{
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	IndexLookup lookup;
	open_index_lookup(&lookup, rel, index, keys);
	begin(lookup.scan);
	while (next_version(&lookup))
	{
		visit(lookup.tuple, lookup.buffer, RelationGetDescr(rel));
		unlock_version(&lookup);
		CHECK_FOR_INTERRUPTS();
	}
	end_index_lookup(&lookup);
}

static void
of_queue(ScanKeyData *key, int32 queue_id)
{
	ScanKeyInit(key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
}

template <typename Visit>
static void
visit_rows_of(Relation rel, const Segment &segment, int32 queue_id, Visit visit)
{
	visit_versions(
		rel, shape_of(rel, segment.number).index[kByOrder], 1,
		[&](IndexScanDesc scan) {
			ScanKeyData key;
			of_queue(&key, queue_id);
			index_rescan(scan, &key, 1, nullptr, 0);
		},
		visit);
}

static void
add_row(FoundRows *found, HeapTuple tuple, TupleDesc desc)
{
	SchedulingColumns standing = scheduling_columns_of(tuple, desc);
	found->live++;
	if (standing.delayed)
		found->add_waiting(DueSeconds::second_of(standing.run_at));
}

static void
count_rows(SegmentSet &segments, const Tables &t, int32 queue_id, Eyes *eyes, FoundRows *found)
{
	auto sees = [&](HeapTuple tuple, Buffer buffer) {
		return HeapTupleSatisfiesVisibility(tuple, &eyes->snapshot, buffer);
	};
	for (const Segment &segment : t.segments(kJobRing))
		visit_rows_of(segments.open(segment.number), segment, queue_id,
					  [&](HeapTuple tuple, Buffer buffer, TupleDesc desc) {
						  if (sees(tuple, buffer))
							  add_row(found, tuple, desc);
						  else
							  found->unresolved += is_prepared(*eyes, tuple->t_data);
					  });
	for (const Segment &segment : t.segments(kDeadRing))
	{
		Relation rel = table_open(segment.heap, NoLock);
		visit_rows_of(rel, segment, queue_id, [&](HeapTuple tuple, Buffer buffer, TupleDesc) {
			found->dead += sees(tuple, buffer);
		});
		table_close(rel, NoLock);
	}
}

/* Count the jobs that become due in [from, before), separately for each second. */
static void
read_part(SegmentSet &segments, const Tables &t, int32 queue_id, Eyes *eyes, TimestampTz from,
		  TimestampTz before, DueSeconds *found)
{
	auto begin = [&](IndexScanDesc scan) {
		ScanKeyData keys[3];
		of_queue(&keys[0], queue_id);
		ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
					TimestampTzGetDatum(from));
		ScanKeyInit(&keys[2], 2, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
					TimestampTzGetDatum(before));
		index_rescan(scan, keys, 3, nullptr, 0);
	};
	for (const Segment &segment : t.segments(kJobRing))
	{
		Relation rel = segments.open(segment.number);
		visit_versions(
			rel, shape_of(rel, segment.number).index[kDelayed], 3, begin,
			[&](HeapTuple tuple, Buffer buffer, TupleDesc desc) {
				if (HeapTupleSatisfiesVisibility(tuple, &eyes->snapshot, buffer))
					found->add(DueSeconds::second_of(scheduling_columns_of(tuple, desc).run_at), 1);
			});
	}
}

/* ---- snapshots ---- */

/*
 * Take the snapshot. The snapshot does not see changes of this transaction itself, since the commit
 * of this transaction adds these changes to the counts.
 */
static void
open_eyes(Eyes *eyes)
{
	eyes->prepared =
		static_cast<TransactionId *>(palloc((max_prepared_xacts + 1) * sizeof(TransactionId)));
	eyes->n_prepared = any_prepared() ? list_unknown(MyDatabaseId, eyes->prepared) : 0;
	eyes->registered = register_snapshot_of_others();
	eyes->snapshot = *eyes->registered;
}

static void
close_eyes(Eyes *eyes)
{
	UnregisterSnapshot(eyes->registered);
	pfree(eyes->prepared);
}

/*
 * Call publish() with the snapshot as an xmax and a list of running transactions (SeenBy in
 * engine/count.h). The server's snapshot does not list the transaction that has taken the snapshot,
 * so add this transaction to the list.
 */
template <typename Publish>
static bool
publish(const QueueRef &ref, const Eyes &eyes, Publish publish)
{
	bool done = false;
	auto *running = static_cast<TransactionId *>(palloc(running_max() * sizeof(TransactionId)));
	uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64 xmax = next - (static_cast<uint32>(next) - eyes.snapshot.xmax);
	int n = static_cast<int>(eyes.snapshot.xcnt);
	std::copy(eyes.snapshot.xip, eyes.snapshot.xip + n, running);
	TransactionId mine = GetTopTransactionIdIfAny();
	if (TransactionIdIsValid(mine))
		running[n++] = mine;
	(void) change_queue(ref,
						[&](QueueHold &hold) { done = publish(hold->count, xmax, running, n); });
	pfree(running);
	return done;
}

/* ---- the count ---- */

/*
 * Begin a count. Returns false if memory knows the counts of the queue already, or if the queue is
 * gone.
 */
static bool
begin(const QueueRef &ref, uint32 *serial, FoundRows *found)
{
	bool begun = false;
	TimestampTz now = wall_now();
	(void) change_queue(ref, [&](QueueHold &hold) {
		JobCount &count = hold->count;
		begun = wants_count(count, now);
		if (begun)
			*serial = begin_count(count, now, found);
	});
	return begun;
}

/*
 * Steps: begin (from then on, the changes of commit callbacks are logged); take the snapshot;
 * publish it; read the rows with no lock of the queue held; finish. If the counts were forgotten
 * during these steps, start again.
 */
static void
count(const QueueRef &ref, SegmentSet &segments, const Tables &t)
{
	Eyes eyes;
	uint32 serial;
	auto *found = static_cast<FoundRows *>(palloc(sizeof(FoundRows)));
	while (begin(ref, &serial, found))
	{
		open_eyes(&eyes);
		stop_point("count-snapshot");
		if (publish(ref, eyes,
					[&](JobCount &count, uint64 xmax, const TransactionId *running, int n) {
						return publish_snapshot(count, serial, xmax, running, n);
					}))
		{
			stop_point("count-scan");
			count_rows(segments, t, ref.queue_id, &eyes, found);
			(void) change_queue(
				ref, [&](QueueHold &hold) { (void) finish_count(hold->count, serial, *found); });
		}
		close_eyes(&eyes);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(found);
}

/* Lock all segments of jobs and dead letters, and call read(), which takes the snapshot. */
template <typename Read>
static void
with_segments(Read read)
{
	SegmentSet segments(AccessShareLock);
	const Tables &t = segments.open_all();
	for (const Segment &segment : t.segments(kDeadRing))
		LockRelationOid(segment.heap, AccessShareLock);
	/*
	 * Read the list of indexes after the segments are locked: from then on the list cannot change.
	 */
	read(segments, look_at_tables());
	for (const Segment &segment : t.segments(kDeadRing))
		UnlockRelationOid(segment.heap, AccessShareLock);
	segments.close();
}

bool
rows_are_many()
{
	static constexpr uint64 kMany = 1024; /* pages; about 50,000 rows */
	uint64 blocks = 0;
	with_segments([&](SegmentSet &segments, const Tables &t) {
		for (const Segment &segment : t.segments(kJobRing))
			blocks += RelationGetNumberOfBlocks(segments.open(segment.number));
		for (const Segment &segment : t.segments(kDeadRing))
		{
			Relation rel = table_open(segment.heap, NoLock);
			blocks += RelationGetNumberOfBlocks(rel);
			table_close(rel, NoLock);
		}
	});
	return blocks >= kMany;
}

/*
 * Run read() while holding QueueLock::kCount. Without wait, returns false if another process is
 * counting the queue.
 */
template <typename Read>
static bool
with_count_lock(const QueueRef &ref, bool wait, Read read)
{
	if (!lock_queue(ref.queue_id, QueueLock::kCount, ExclusiveLock, wait))
		return false;
	require_whole_segments();
	with_segments(read);
	unlock_queue(ref.queue_id, QueueLock::kCount, ExclusiveLock);
	return true;
}

void
count_jobs(const QueueRef &ref)
{
	(void) with_count_lock(ref, true,
						   [&](SegmentSet &segments, const Tables &t) { count(ref, segments, t); });
}

bool
count_jobs_now(const QueueRef &ref)
{
	return with_count_lock(ref, false,
						   [&](SegmentSet &segments, const Tables &t) { count(ref, segments, t); });
}

void
recount_jobs(const QueueRef &ref)
{
	(void) with_count_lock(ref, true, [&](SegmentSet &segments, const Tables &t) {
		(void) change_queue(ref, [](QueueHold &hold) { forget_count(hold->count); });
		count(ref, segments, t);
	});
}

/* ---- the next part of the seconds ---- */

static void
read_part_of(const QueueRef &ref, SegmentSet &segments, const Tables &t)
{
	/*
	 * Steps: begin, which drops the seconds that have passed; take the snapshot; publish it; read
	 * the rows with no lock of the queue held; finish.
	 */
	Eyes eyes;
	uint32 serial;
	bool begun = false;
	auto *found = static_cast<DueSeconds *>(palloc(sizeof(DueSeconds)));
	TimestampTz now = wall_now();
	TimestampTz from = 0;
	TimestampTz before = 0;
	(void) change_queue(ref, [&](QueueHold &hold) {
		begun = begin_part(hold->count, now, &serial, found);
		from = (hold->count.due.known_to() + 1) * USECS_PER_SEC;
		before = (hold->count.due.reading_to() + 1) * USECS_PER_SEC;
	});
	if (begun)
	{
		open_eyes(&eyes);
		stop_point("part-snapshot");
		if (publish(ref, eyes,
					[&](JobCount &count, uint64 xmax, const TransactionId *running, int n) {
						return publish_part(count, serial, xmax, running, n);
					}))
		{
			stop_point("part-scan");
			read_part(segments, t, ref.queue_id, &eyes, from, before, found);
			(void) change_queue(
				ref, [&](QueueHold &hold) { (void) finish_part(hold->count, serial, *found); });
		}
		close_eyes(&eyes);
	}
	pfree(found);
}

bool
read_next_part(const QueueRef &ref)
{
	return with_count_lock(
		ref, false, [&](SegmentSet &segments, const Tables &t) { read_part_of(ref, segments, t); });
}

/* ---- for comparison ---- */

LiveRows
count_rows_again(const QueueRef &ref, TimestampTz now)
{
	Eyes eyes;
	auto *found = static_cast<FoundRows *>(palloc0(sizeof(FoundRows)));
	found->due.reset(DueSeconds::second_of(now));
	with_segments([&](SegmentSet &segments, const Tables &t) {
		open_eyes(&eyes);
		count_rows(segments, t, ref.queue_id, &eyes, found);
		close_eyes(&eyes);
	});
	LiveRows rows = {found->live, found->dead, found->due.waiting(DueSeconds::second_of(now)),
					 found->blocked};
	pfree(found);
	return rows;
}

} // namespace pgq
