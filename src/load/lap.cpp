#include "load/groups.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "load/row_run.h"
#include "pg/stop_point.h"
#include "txn/refill_role.h"

#include <algorithm>

namespace pgq {

namespace {

/* A step of the lap. */
struct Step
{
	QueueRef ref;
	SegmentSet *segments;
	LapStep lap;
	bool fifo;
	GroupScan scan;
	/* first due rows of the queue, not above the lap's priority; read unless has_row_of_lap() */
	RowRun first;
	GroupRun run;
	GroupRows of[kVisitsMax];
};

} // namespace

static bool
begin_step(Step &step)
{
	bool begun = false;
	(void) change_queue(step.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		schedule.fire(wall_now());
		begun = schedule.wants_step();
		if (!begun)
			return;
		begin_refill_role(step.ref, RefillKind::kLap);
		step.lap = schedule.begin_step();
		step.fifo = schedule.rules().fifo;
		step.scan.due_line = schedule.due_line();
		step.scan.horizon = schedule.horizon();
	});
	return begun;
}

/* Return whether a group of the step has a row of the lap's priority or of a higher one. */
static bool
has_row_of_lap(const Step &step)
{
	return std::any_of(
		step.run.groups, step.run.groups + step.run.n,
		[&](const RowsOfGroup &group) { return group.rows[0].key.priority >= step.lap.priority; });
}

/* Read step.first. Return false if segments are missing. */
static bool
read_first(Step &step)
{
	OrderScan scan{};
	scan.start = {step.lap.priority, PG_INT64_MIN, PG_INT64_MIN};
	scan.due_line = step.scan.due_line;
	scan.horizon = step.scan.horizon;
	return read_rows(*step.segments, scan, step.ref.queue_id, kVisitsMax, &step.first);
}

/*
 * Return the highest priority of a due row without a lease, but at most the lap's priority. Returns
 * Lap::kNone if no row is due. If all rows of step.first have leases, the result may be too high.
 * Called under the queue's lock.
 */
static int64
highest_priority(QueueHold &hold, const Step &step)
{
	if (has_row_of_lap(step))
		return step.lap.priority;
	if (step.first.n == 0)
		return Lap::kNone;
	int64 last = step.first.rows[step.first.n - 1].key.priority;
	GroupRows rows = {
		.rows = step.first.rows, .n = step.first.n, .next = Key::highest(), .head = PG_INT64_MAX};
	return pick_free_rows(hold, &rows, 1) > 0 ? rows.rows[0].key.priority : last;
}

/* Read the groups of the step. Return false if segments are missing. */
static bool
read_step(Step &step)
{
	stop_point("lap-scan");
	step.scan.from = step.lap.from;
	step.scan.to = step.lap.to;
	step.scan.one_each = step.fifo;
	int wanted = step.fifo ? 1 : Min(step.lap.room, kJobsOfGroupMax) + kBeyond;
	if (!read_groups(*step.segments, step.scan, step.ref.queue_id, kVisitsMax, wanted, &step.run) ||
		(!has_row_of_lap(step) && !read_first(step)))
		return false;
	for (int i = 0; i < step.run.n; i++)
	{
		RowsOfGroup &group = step.run.groups[i];
		step.of[i] = {.rows = group.rows, .n = group.n, .next = group.next, .head = PG_INT64_MAX};
		if (step.fifo &&
			!read_head_of(*step.segments, step.ref, group.group, PG_INT64_MIN, &step.of[i]))
			return false;
	}
	return true;
}

static void
publish_step(Step &step)
{
	(void) change_queue(step.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		bool valid = schedule.look_at_step(&step.lap, highest_priority(hold, step));
		int i = 0;
		for (int looked_at = 0; i < step.run.n && valid; i++)
		{
			/* The next step reads the groups for which this hold has no time. */
			looked_at += step.of[i].n;
			if (looked_at > kHoldMax)
				break;
			int64 group = step.run.groups[i].group;
			GroupRows &rows = step.of[i];
			/*
			 * If the group has no room, pick its first row all the same: the key of this row
			 * becomes the group's cursor.
			 */
			int wanted = Min(step.lap.room, schedule.groups().room(group));
			int n = pick_free_rows(hold, &rows, Min(Max(wanted, 1), kJobsOfGroupMax));
			valid = schedule.take_group(step.lap, group, rows.rows, n, rows.next);
		}
		if (valid && i == step.run.n && !step.run.more)
			schedule.take_rest(step.lap);
		hold.pass_on();
	});
}

RefillResult
step_of_lap(const QueueRef &ref, bool wait, SegmentSet &segments)
{
	Step step{};
	step.ref = ref;
	step.segments = &segments;
	if (!segments_known(&segments))
		return RefillResult::kNotReady;
	if (!lock_queue(ref.queue_id, QueueLock::kWindow, ExclusiveLock, wait))
		return RefillResult::kElsewhere;
	bool begun = begin_step(step);
	bool complete = begun && read_step(step);
	if (!complete)
		segments.close();
	else
	{
		stop_point("lap-publish");
		publish_step(step);
	}
	abandon_refill();
	unlock_queue(ref.queue_id, QueueLock::kWindow, ExclusiveLock);
	if (!begun)
		return RefillResult::kNotNeeded;
	return complete ? RefillResult::kDone : RefillResult::kNotReady;
}

} // namespace pgq
