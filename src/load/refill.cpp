#include "load/refill.h"

#include "catalog/queue_lock.h"
#include "catalog/shape.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "load/row_run.h"
#include "pg/stop_point.h"
#include "txn/refill_role.h"

namespace pgq {

/* Most rows that one refill reads. */
static constexpr int kBatchMax = 1024;

/* ---- the two kinds of refills ---- */

namespace {

struct WindowRefill
{
	using Scan = OrderScan;
	static constexpr RefillKind kKind = RefillKind::kWindow;
	static constexpr QueueLock kLock = QueueLock::kWindow;
	static constexpr const char *kScanPoint = "refill-scan";
	static constexpr const char *kPublishPoint = "refill-publish";

	static bool active(const Schedule &s) { return s.window_refill_active(); }
	static bool wanted(const Schedule &s) { return s.wants_window_refill(); }
	static uint32 capacity(const Schedule &s) { return s.window().capacity(); }
	static Scan begin(Schedule &s)
	{
		Key start = s.begin_window_refill(wall_now());
		return {start, s.due_line(), s.horizon(), 0, false};
	}
	static void merge(Schedule &s, const Hint &row) { s.merge_window_row(row); }
	static void finish(Schedule &s, const Hint *left_out)
	{
		s.finish_window_refill(left_out != nullptr ? left_out->key : Key::highest());
	}
};

struct TimerRefill
{
	using Scan = DelayedScan;
	static constexpr RefillKind kKind = RefillKind::kTimer;
	static constexpr QueueLock kLock = QueueLock::kTimer;
	static constexpr const char *kScanPoint = "timer-refill-scan";
	static constexpr const char *kPublishPoint = "timer-refill-publish";

	static bool active(const Schedule &s) { return s.timer_refill_active(); }
	static bool wanted(const Schedule &s) { return s.wants_timer_refill(); }
	static uint32 capacity(const Schedule &s) { return s.timer().capacity(); }
	static Scan begin(Schedule &s) { return {s.begin_timer_refill(wall_now())}; }
	static void merge(Schedule &s, const Hint &row) { s.merge_timer_row(row); }
	static void finish(Schedule &s, const Hint *left_out)
	{
		s.finish_timer_refill(left_out != nullptr ? left_out->timer_key() : TimerKey::highest());
	}
};

/* The state of one refill, from look() to the last publish_some(). */
template <typename Kind> struct Round
{
	QueueRef ref;
	typename Kind::Scan scan; /* the place at which the scan begins */
	int most;				  /* upper bound of the rows to read */
	RowRun run;
	int published; /* rows merged into the schedule so far */
};

} // namespace

/* ---- beginning ---- */

namespace {

enum class Need : uint8
{
	kNone,		/* no refill is wanted, or the queue is gone */
	kElsewhere, /* another process is refilling already */
	kRefill,
};

} // namespace
/*
 * Find out whether a refill is wanted (kRefill), or is under way already (kElsewhere). With
 * `begin`, also begin a wanted refill under the same hold of the queue's lock; the caller must then
 * have the heavyweight lock of the refill.
 */
template <typename Kind>
static Need
look(Round<Kind> &round, bool begin)
{
	Need need = Need::kNone;
	(void) change_queue(round.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		schedule.fire(wall_now());
		if (Kind::active(schedule))
			need = Need::kElsewhere;
		else if (Kind::wanted(schedule))
			need = Need::kRefill;
		if (need != Need::kRefill || !begin)
			return;
		begin_refill_role(round.ref, Kind::kKind);
		round.scan = Kind::begin(schedule);
		round.most = Min(kBatchMax, static_cast<int>(Kind::capacity(schedule)));
	});
	return need;
}

/*
 * Begin a refill. The heavyweight lock of the refill is taken before the queue shows that a refill
 * is under way, and is released after the refill has ended. So a process that sees the refill can
 * wait for it in the lock manager. Most calls find that no refill is wanted, so call look() once
 * before taking the lock.
 */
template <typename Kind>
static Need
begin_round(Round<Kind> &round, bool wait)
{
	Need need = look(round, false);
	if (need != Need::kRefill)
		return need;
	if (!lock_queue(round.ref.queue_id, Kind::kLock, ExclusiveLock, wait))
		return Need::kElsewhere;
	need = look(round, true);
	if (need != Need::kRefill)
		unlock_queue(round.ref.queue_id, Kind::kLock, ExclusiveLock);
	return need;
}

/* ---- publishing ---- */

/*
 * Merge a row into the schedule. Returns false if the job has a lease. If the hint of that lease
 * differs from the hint of the row, the lease remembers the row's hint, which is filed when the
 * lease ends.
 */
template <typename Kind>
static bool
merge_row(QueueHold &hold, const Hint &row)
{
	Lease *lease = holder_of(hold.queue(), row.key.job_id);
	if (lease == nullptr)
		Kind::merge(hold.schedule(), row);
	else
	{
		note_missed(hold.queue(), lease, row);
		hold.schedule().note_met(row);
	}
	return lease == nullptr;
}

/*
 * Merge as many rows as one hold of the queue's lock may handle. The hold that merges the last row
 * finishes the refill. Returns false when all rows are merged, or if the queue is gone.
 *
 * For most rows, a waiter was woken when the row was committed. So this function wakes only the
 * next waiter; if that waiter takes a job, it wakes the waiter behind it. But for rows that became
 * due while memory did not have them, no waiter was woken. For each such row this function wakes a
 * waiter, and notes a NOTIFY.
 */
template <typename Kind>
static bool
publish_some(Round<Kind> &round)
{
	bool more = false;
	(void) change_queue(round.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		int merged = 0;
		int end = Min(round.run.n, round.published + kHoldMax);
		while (round.published < end)
			merged += merge_row<Kind>(hold, round.run.rows[round.published++]);
		more = round.published < round.run.n;
		if (!more)
			Kind::finish(schedule, round.run.more ? &round.run.left_out : nullptr);
		if (merged > 0 && schedule.take_handed_over())
			hold.may_be_ready(merged);
		else
			hold.pass_on();
	});
	return more;
}

/* ---- the refill ---- */

/*
 * Return whether the segments are known, with all their indexes. A database with a queue always has
 * segments. But a restore creates their indexes last. And after the first pgq_create_queue the list
 * of segments can be outdated: the commit callbacks of a transaction run before the server sends
 * the invalidations of that transaction. So if something is missing, process invalidations and look
 * again.
 */
bool
segments_known(SegmentSet *opened)
{
	if (opened != nullptr && !shapes_known())
		opened->close();
	if (has_whole_segments())
		return true;
	AcceptInvalidationMessages();
	return has_whole_segments();
}

/* Return false if segments are missing. */
template <typename Kind>
static bool
read(Round<Kind> &round)
{
	SegmentSet segments(AccessShareLock);
	bool complete = read_rows(segments, round.scan, round.ref.queue_id, round.most, &round.run);
	segments.close();
	return complete;
}

/*
 * Steps: begin, which marks the refill as under way, so that no other refill starts, and notes the
 * place of the cursor; read rows with no lock of the queue held; publish the rows in several short
 * holds of the queue's lock.
 */
template <typename Kind>
static RefillResult
refill(const QueueRef &ref, bool wait)
{
	if (!segments_known())
		return RefillResult::kNotReady;
	Round<Kind> round{};
	round.ref = ref;
	Need need = begin_round(round, wait);
	if (need != Need::kRefill)
		return need == Need::kNone ? RefillResult::kNotNeeded : RefillResult::kElsewhere;

	stop_point(Kind::kScanPoint);
	bool complete = read(round);
	if (complete)
	{
		stop_point(Kind::kPublishPoint);
		while (publish_some(round))
			;
		end_refill_role();
	}
	else
		abandon_refill();
	unlock_queue(ref.queue_id, Kind::kLock, ExclusiveLock);
	pfree(round.run.rows);
	return complete ? RefillResult::kDone : RefillResult::kNotReady;
}

RefillResult
refill_window(const QueueRef &ref, bool wait)
{
	return refill<WindowRefill>(ref, wait);
}

RefillResult
refill_timer(const QueueRef &ref, bool wait)
{
	return refill<TimerRefill>(ref, wait);
}

bool
wait_for_refills(const QueueRef &ref)
{
	static constexpr QueueLock refills[] = {QueueLock::kWindow, QueueLock::kTimer,
											QueueLock::kGroups};
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
