#include "load/refill.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "load/attach.h"
#include "load/row_run.h"
#include "pg/stop_point.h"
#include "txn/refill_role.h"

namespace pgq {

/* Rows read in one refill. */
static constexpr int kBatchMax = 1024;

/* ---- what is refilled ---- */

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

/* One refill, from its beginning to its end. */
template <typename Kind> struct Round
{
	QueueRef ref;
	typename Kind::Scan scan; /* where it begins */
	int most;				  /* rows that it reads */
	RowRun run;
	int published; /* rows that are in the schedule */
};

} // namespace

/* ---- beginning ---- */

namespace {

enum class Need : uint8
{
	kNone, /* also when the queue is gone */
	kElsewhere,
	kRefill,
};

} // namespace

/* Is a refill wanted? If so, and if its lock is in hand, it begins in the same hold. */
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
 * The refill's own lock is had before the queue is told, and let go after, so that whoever sees
 * that a refill is under way can wait for it in the lock manager. Most calls find nothing to do, so
 * they look first.
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

/* False: the job is leased. Its lease remembers the row, if it has news, and files it at its end. */
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
 * Put rows into the schedule, as many as one hold may; the last of them ends the refill. False: that
 * is done, or the queue is gone.
 *
 * Most rows were told of when they were committed, so the next waiter is woken and no more: if he
 * takes a job he wakes the one behind him. But of those that became due while only the table knew
 * them nobody has been told yet: a waiter for each, and a NOTIFY.
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

/* ---- the two refills ---- */

/*
 * The list of segments can be one transaction behind: the first pgq_create_queue
 * runs its commit callbacks before its invalidations are sent. A queue always has
 * segments, so an empty list says that we have to look again.
 */
bool
segments_known()
{
	if (tables().has_segments)
		return true;
	AcceptInvalidationMessages();
	return tables().has_segments;
}

/* Begin, which takes the cursor away; read, with nothing locked; publish in short holds. */
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
	bool complete = read_rows(round.scan, ref.queue_id, round.most, &round.run);
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
