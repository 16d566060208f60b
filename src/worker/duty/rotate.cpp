/*
 * Duty: reclaim the storage of ended jobs and of records. See ring/rotation.h for the order of the
 * steps.
 */
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

static void
look(SchedulerState &scheduler, int64 now)
{
	(void) serving_transaction(
		AccessShareLock, [&] { look_at_rings(&scheduler.rotation, scheduler.database, now); });
}

/*
 * Take the next step of the rotation of one segment. If the step fails, the rotation of other
 * segments goes on.
 */
static void
step(SchedulerState &scheduler, int segment)
{
	bool raised = false;
	bool served = serving_transaction(AccessShareLock, [&] {
		raised = !survives([&] { take_step(&scheduler.rotation, scheduler.database, segment); });
	});
	end_step(&scheduler.rotation, scheduler.database, segment, served, raised);
}

int64
rotate(SchedulerState &scheduler)
{
	int64 now = monotonic_now();
	TimestampTz wall = wall_now();
	bool looks = begin_look(&scheduler.rotation, now,
							scheduler.database->clock.trusted(wall, now) ? wall : 0);
	if (looks)
		look(scheduler, now);
	int segment = segment_in_turn(scheduler.rotation, now);
	if (segment >= 0)
		step(scheduler, segment);
	/*
	 * Report the statistics of this process at once: until the report, pg_stat_all_tables counts
	 * the removed rows as dead rows.
	 */
	if (looks || segment >= 0)
		pgstat_report_stat(true);
	if (is_failing(scheduler.rotation))
		keep_failing();
	return next_step(scheduler.rotation);
}

} // namespace pgq
