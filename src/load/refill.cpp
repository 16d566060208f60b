#include "load/refill.h"

#include "engine/waiter.h"
#include "pg/scope.h"
#include "pg/stop_point.h"
#include "rows/index.h"
#include "rows/job.h"
#include "catalog/queue_lock.h"
#include "txn/effects.h"

namespace pgq {

/* Rows read in one refill. */
static constexpr int kBatchMax = 1024;

/* ---- one segment's rows, in order ---- */

/*
 * The rows of a queue in the order of one index, from a key on. INSERT_IN_PROGRESS
 * is left out (its own transaction will file it), DELETE_IN_PROGRESS is kept (it
 * may be undone).
 */
struct RowStream
{
	IndexLookup lookup;
	int32 queue_id;
	bool bare; /* the segment has no page, so the scan was not opened */
	bool has_row;
	Hint row; /* if has_row: the current one */
	uint16 segment;
	ScanKeyData from[2]; /* where the scan starts; it refers to them */
};

static bool
wanted(HeapTuple tuple, Buffer buffer)
{
	TransactionId dead_after;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return true;
		default:
			return false;
	}
}

/* The next row of the scan as it stands; false at its end. */
static bool
next_row(RowStream *stream)
{
	while (next_version(&stream->lookup))
	{
		bool take = wanted(stream->lookup.tuple, stream->lookup.buffer);
		if (take)
			stream->row = hint_of(stream->lookup.tuple, stream->lookup.slot->tts_tupleDescriptor,
								  stream->segment);
		unlock_version(&stream->lookup);
		CHECK_FOR_INTERRUPTS();
		if (take)
			return true;
	}
	return false;
}

/*
 * (run_at, job_id) >= start, as a row comparison: a million jobs may have the same
 * run_at, and a scan must not begin with the first of them each time.
 */
static void
start_from(RowStream *stream, ScanKey key, AttrNumber column, const TimerKey &start)
{
	ScanKeyEntryInitialize(&stream->from[0], SK_ROW_MEMBER, column, BTGreaterEqualStrategyNumber,
						   TIMESTAMPTZOID, InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(start.run_at));
	ScanKeyEntryInitialize(&stream->from[1], SK_ROW_MEMBER | SK_ROW_END, column + 1,
						   BTGreaterEqualStrategyNumber, INT8OID, InvalidOid, F_BTINT8CMP,
						   Int64GetDatum(start.job_id));
	*key = {};
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = column;
	key->sk_strategy = BTGreaterEqualStrategyNumber;
	key->sk_argument = PointerGetDatum(stream->from);
}

/* ---- by order, for the window ---- */

struct OrderScan
{
	Key start;
	int64 due_line;
	int64 horizon; /* rows that were due when enqueued are looked for up to here */
};

static void
start_at(RowStream *stream, const Key &start)
{
	ScanKeyData keys[3];
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream->queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(start.priority));
	start_from(stream, &keys[2], 3, {start.run_at, start.job_id});
	index_rescan(stream->lookup.scan, keys, 3, nullptr, 0);
}

static void
start_below(RowStream *stream, int32 priority)
{
	ScanKeyData keys[3];
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream->queue_id));
	/* The number of keys of a scan is fixed; this one says nothing new. */
	ScanKeyInit(&keys[1], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream->queue_id));
	ScanKeyInit(&keys[2], 2, BTLessStrategyNumber, F_INT4LT, Int32GetDatum(priority));
	index_rescan(stream->lookup.scan, keys, 3, nullptr, 0);
}

/* The next row that is due. At the first one beyond the horizon the scan goes on at the next priority. */
static void
advance_order(RowStream *stream, const OrderScan &scan, int32 *priority, bool *first_priority)
{
	for (;;)
	{
		if (!next_row(stream))
		{
			if (!*first_priority)
			{
				stream->has_row = false;
				return;
			}
			*first_priority = false;
			start_below(stream, *priority);
			continue;
		}
		const Hint &row = stream->row;
		*priority = row.key.priority;
		if (row.key.run_at <= scan.due_line || (!row.delayed && row.key.run_at <= scan.horizon))
		{
			stream->has_row = true;
			return;
		}
		if (row.key.run_at > scan.horizon)
		{
			*first_priority = false;
			start_below(stream, *priority);
		}
	}
}

/* ---- merging the segments ---- */

static constexpr int kIncomplete = -1;

/*
 * Merge the streams of all segments in order into rows, at most `most`. Returns
 * their number; *end is the first row left out, if any. kIncomplete if not all
 * segments are there: then nothing is known.
 */
template <typename Order, typename Start, typename Advance>
static int
merge_segments(int32 queue_id, Oid Segment::*index, int keys, Start start, Advance advance,
			   int most, Hint *rows, bool *more, Hint *end)
{
	SegmentSet segments(AccessShareLock);
	const JobSegments list = segments.open_all();
	/* The wait for a lock can have brought the news that an index is missing. */
	if (list.n == 0)
	{
		segments.close();
		return kIncomplete;
	}
	RowStream streams[kMaxSegments];
	for (int i = 0; i < list.n; i++)
	{
		RowStream &stream = streams[i];
		int number = list.segment[i].number;
		stream.queue_id = queue_id;
		stream.segment = static_cast<uint16>(number);
		stream.has_row = false;
		stream.bare = segments.is_bare(number);
		if (stream.bare)
			continue;
		open_index_lookup(&stream.lookup, segments.open(number), list.segment[i].*index, keys);
		start(&stream, i);
		advance(&stream, i);
	}

	int n = 0;
	for (;;)
	{
		int smallest = -1;
		for (int i = 0; i < list.n; i++)
			if (streams[i].has_row &&
				(smallest < 0 || Order::less(streams[i].row, streams[smallest].row)))
				smallest = i;
		*more = smallest >= 0;
		if (!*more)
			break;
		if (n == most)
		{
			*end = streams[smallest].row;
			break;
		}
		rows[n++] = streams[smallest].row;
		advance(&streams[smallest], smallest);
	}

	for (int i = 0; i < list.n; i++)
		if (!streams[i].bare)
			end_index_lookup(&streams[i].lookup);
	segments.close();
	return n;
}

/* ---- the two refills ---- */

/* Merge in short holds; the last of them finishes. */
template <typename Merge, typename Finish>
static void
publish(const QueueRef &ref, const Hint *rows, int n, Merge merge, Finish finish)
{
	Queue *queue = ref.queue;
	for (bool done = false; !done;)
	{
		Wakeups wakeups;
		bool wake = false;
		with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(ref))
			{
				done = true;
				return;
			}
			int merged = 0;
			for (int i = 0; i < kHoldMax && n > 0; i++, rows++, n--)
				if (Lease *lease = holder_of(queue, rows->key.job_id))
				{
					note_missed(queue, lease, *rows);
					queue->schedule.note_met(*rows);
				}
				else
				{
					merge(queue->schedule, *rows);
					merged++;
				}
			done = n == 0;
			if (done)
				finish(queue->schedule);
			/* Jobs that time has made ready are news; others were told of when they came. */
			if (merged > 0 && queue->schedule.take_handed_over())
				wake = note_filed(queue, merged, queue->schedule.next_timer(), &wakeups);
			else
				pass_on(queue, &wakeups);
		});
		wakeups.deliver();
		if (wake)
			wake_scheduler(queue->database);
	}
	end_refill_role();
}

/*
 * The list of segments can be one transaction behind: the first pgq_create_queue
 * runs its commit callbacks before its invalidations are sent. A queue always has
 * segments, so an empty list says that we have to look again.
 */
static bool
segments_known()
{
	if (tables().segments > 0)
		return true;
	AcceptInvalidationMessages();
	return tables().segments > 0;
}

/*
 * Begin under the queue's lock, if it is wanted, with the refill's own lock in hand: that
 * one is had before the queue is told, and let go after, so that whoever sees that a refill
 * is under way can wait for it in the lock manager. Most calls find nothing to do, so they
 * look first. begin() is called in the hold that finds the refill wanted.
 */
template <typename Wanted, typename Begin>
static RefillResult
begin_refill(const QueueRef &ref, QueueLock what, bool wait, Wanted wanted, Begin begin)
{
	Queue *queue = ref.queue;
	auto look = [&](bool locked) {
		return with_lwlock(queue->lock, LW_EXCLUSIVE, [&] {
			if (!is_current(ref))
				return RefillResult::kNotNeeded;
			queue->schedule.fire(wall_now());
			RefillResult result = wanted(queue->schedule);
			if (result == RefillResult::kDone && locked)
				begin(queue->schedule);
			return result;
		});
	};
	RefillResult result = look(false);
	if (result != RefillResult::kDone)
		return result;
	if (!lock_queue(ref.queue_id, what, ExclusiveLock, wait))
		return RefillResult::kElsewhere;
	result = look(true);
	if (result != RefillResult::kDone)
		unlock_queue(ref.queue_id, what, ExclusiveLock);
	return result;
}

RefillResult
refill_window(const QueueRef &ref, bool wait)
{
	if (!segments_known())
		return RefillResult::kNotReady;

	OrderScan scan;
	int most = 0;
	RefillResult result = begin_refill(
		ref, QueueLock::kWindow, wait,
		[](const Schedule &schedule) {
			if (schedule.window_refill_active())
				return RefillResult::kElsewhere;
			return schedule.wants_window_refill() ? RefillResult::kDone : RefillResult::kNotNeeded;
		},
		[&](Schedule &schedule) {
			begin_refill_role(ref, RefillKind::kWindow);
			scan.start = schedule.begin_window_refill(wall_now());
			scan.due_line = schedule.due_line();
			scan.horizon = schedule.horizon();
			most = Min(kBatchMax, static_cast<int>(schedule.window().capacity()));
		});
	if (result != RefillResult::kDone)
		return result;

	stop_point("refill-scan");
	auto *rows = static_cast<Hint *>(palloc(most * sizeof(Hint)));
	int32 priority[kMaxSegments];
	bool first_priority[kMaxSegments];
	bool more;
	Hint end{};
	int n = merge_segments<ByKey>(
		ref.queue_id, &Segment::by_order, 3,
		[&](RowStream *stream, int i) {
			priority[i] = scan.start.priority;
			first_priority[i] = true;
			start_at(stream, scan.start);
		},
		[&](RowStream *stream, int i) {
			advance_order(stream, scan, &priority[i], &first_priority[i]);
		},
		most, rows, &more, &end);
	if (n == kIncomplete)
	{
		abandon_refill();
		unlock_queue(ref.queue_id, QueueLock::kWindow, ExclusiveLock);
		return RefillResult::kNotReady;
	}
	stop_point("refill-publish");
	publish(
		ref, rows, n, [](Schedule &schedule, const Hint &row) { schedule.merge_window_row(row); },
		[&](Schedule &schedule) {
			schedule.finish_window_refill(more ? end.key : Key::highest());
		});
	unlock_queue(ref.queue_id, QueueLock::kWindow, ExclusiveLock);
	pfree(rows);
	return RefillResult::kDone;
}

RefillResult
refill_timer(const QueueRef &ref, bool wait)
{
	if (!segments_known())
		return RefillResult::kNotReady;

	TimerKey start{};
	int most = 0;
	RefillResult result = begin_refill(
		ref, QueueLock::kTimer, wait,
		[](const Schedule &schedule) {
			if (schedule.timer_refill_active())
				return RefillResult::kElsewhere;
			return schedule.wants_timer_refill() ? RefillResult::kDone : RefillResult::kNotNeeded;
		},
		[&](Schedule &schedule) {
			begin_refill_role(ref, RefillKind::kTimer);
			start = schedule.begin_timer_refill(wall_now());
			most = Min(kBatchMax, static_cast<int>(schedule.timer().capacity()));
		});
	if (result != RefillResult::kDone)
		return result;

	stop_point("timer-refill-scan");
	auto *rows = static_cast<Hint *>(palloc(most * sizeof(Hint)));
	bool more;
	Hint end{};
	int n = merge_segments<ByRunAt>(
		ref.queue_id, &Segment::delayed, 2,
		[&](RowStream *stream, int) {
			ScanKeyData keys[2];
			ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ,
						Int32GetDatum(stream->queue_id));
			start_from(stream, &keys[1], 2, start);
			index_rescan(stream->lookup.scan, keys, 2, nullptr, 0);
		},
		[](RowStream *stream, int) { stream->has_row = next_row(stream); }, most, rows, &more,
		&end);
	if (n == kIncomplete)
	{
		abandon_refill();
		unlock_queue(ref.queue_id, QueueLock::kTimer, ExclusiveLock);
		return RefillResult::kNotReady;
	}
	publish(
		ref, rows, n, [](Schedule &schedule, const Hint &row) { schedule.merge_timer_row(row); },
		[&](Schedule &schedule) {
			schedule.finish_timer_refill(more ? end.timer_key() : TimerKey::highest());
		});
	unlock_queue(ref.queue_id, QueueLock::kTimer, ExclusiveLock);
	pfree(rows);
	return RefillResult::kDone;
}

bool
wait_for_refills(const QueueRef &ref)
{
	static constexpr QueueLock refills[] = {QueueLock::kWindow, QueueLock::kTimer};
	bool waited = false;
	for (QueueLock what : refills)
	{
		if (!lock_queue(ref.queue_id, what, ShareLock, false))
		{
			(void) lock_queue(ref.queue_id, what, ShareLock, true);
			waited = true;
		}
		unlock_queue(ref.queue_id, what, ShareLock);
	}
	return waited;
}

} // namespace pgq
