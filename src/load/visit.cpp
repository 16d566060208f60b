#include "load/groups.h"

#include "catalog/queue_lock.h"
#include "engine/hold.h"
#include "load/row_run.h"
#include "pg/stop_point.h"
#include "rows/head.h"
#include "txn/refill_role.h"

namespace pgq {

int
pick_free_rows(QueueHold &hold, GroupRows *rows, int wanted)
{
	int n = 0;
	int i = 0;
	for (; i < rows->n && n < wanted; i++)
	{
		Hint row = rows->rows[i];
		Lease *lease = holder_of(hold.queue(), row.key.job_id);
		if (lease == nullptr)
			rows->rows[n++] = row;
		else
		{
			note_missed(hold.queue(), lease, row);
			hold.schedule().note_met(row);
		}
	}
	if (i < rows->n)
		rows->next = rows->rows[i].key;
	return n;
}

bool
read_head_of(SegmentSet &segments, const QueueRef &ref, int64 group, int64 floor, GroupRows *rows)
{
	*rows = {.rows = static_cast<Hint *>(palloc(sizeof(Hint))),
			 .n = 0,
			 .next = Key::highest(),
			 .head = PG_INT64_MAX};
	if (find_head(segments, ref.queue_id, group, floor, PG_INT64_MAX, rows->rows))
	{
		rows->n = 1;
		rows->head = rows->rows[0].key.job_id;
	}
	return look_at_tables().has_segments;
}

namespace {

/* The visits that a process makes in one call. */
struct Visits
{
	QueueRef ref;
	Visit of[kVisitsMax];
	int n;
	bool fifo;
	OrderScan scan; /* used for one group after the other */
	SegmentSet *segments;
};

} // namespace

static bool
begin_visits(Visits &visits)
{
	(void) change_queue(visits.ref, [&](QueueHold &hold) {
		Schedule &schedule = hold.schedule();
		schedule.fire(wall_now());
		schedule.clear_way();
		if (!schedule.wants_visit())
			return;
		begin_refill_role(visits.ref, RefillKind::kGroups);
		visits.n = schedule.begin_visits(visits.of, kVisitsMax);
		visits.fifo = schedule.rules().fifo;
		visits.scan.due_line = schedule.due_line();
		visits.scan.horizon = schedule.horizon();
	});
	return visits.n > 0;
}

/*
 * Read the rows of a visit, in a queue without fifo or for jobs without a group. The rows of jobs
 * without a group have no index of their own, so the scan for such rows skips rows with a group, up to
 * a bound. Return false if segments are missing.
 */
static bool
read_limited(Visits &visits, const Visit &visit, GroupRows *rows)
{
	RowRun run;
	visits.scan.start = visit.from;
	visits.scan.group = visit.group;
	visits.scan.ungrouped = visit.group == 0;
	int wanted = Min(visit.room, kJobsOfGroupMax) + kBeyond;
	bool complete = read_rows(*visits.segments, visits.scan, visits.ref.queue_id, wanted, &run);
	*rows = {.rows = run.rows,
			 .n = run.n,
			 .next = run.more ? run.left_out.key : Key::highest(),
			 .head = PG_INT64_MAX};
	return complete;
}

static void
publish_visit(const Visits &visits, const Visit &visit, GroupRows *rows)
{
	(void) change_queue(visits.ref, [&](QueueHold &hold) {
		int n = pick_free_rows(hold, rows, Min(visit.room, kJobsOfGroupMax));
		hold.schedule().finish_visit(visit, rows->rows, n, rows->next, rows->head);
		hold.pass_on();
	});
}

/*
 * Read the rows of one visit, and end the visit. Return false, without ending the visit, if
 * segments are missing.
 */
static bool
visit_one(Visits &visits, const Visit &visit)
{
	GroupRows rows;
	bool complete = visits.fifo && visit.group != 0 ? read_head_of(*visits.segments, visits.ref,
																   visit.group, visit.floor, &rows)
													: read_limited(visits, visit, &rows);
	if (complete)
	{
		stop_point("visit-publish");
		publish_visit(visits, visit, &rows);
	}
	pfree(rows.rows);
	return complete;
}

static bool
visit_all(Visits &visits)
{
	stop_point("visit-scan");
	for (int i = 0; i < visits.n; i++)
		if (!visit_one(visits, visits.of[i]))
			return false;
	return true;
}

RefillResult
visit_groups(const QueueRef &ref, bool wait, SegmentSet &segments)
{
	Visits visits{};
	visits.ref = ref;
	visits.segments = &segments;
	if (!segments_known(&segments))
		return RefillResult::kNotReady;
	if (!lock_queue(ref.queue_id, QueueLock::kGroups, ExclusiveLock, wait))
		return RefillResult::kElsewhere;
	bool begun = begin_visits(visits);
	bool complete = begun && visit_all(visits);
	if (!complete)
		segments.close();
	/* Memory still has the markers of visits that were not made or not finished. */
	abandon_refill();
	unlock_queue(ref.queue_id, QueueLock::kGroups, ExclusiveLock);
	if (!begun)
		return RefillResult::kNotNeeded;
	return complete ? RefillResult::kDone : RefillResult::kNotReady;
}

} // namespace pgq
