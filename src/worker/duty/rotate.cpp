/*
 * Duty: reclaim the storage of ended jobs and of records. See ring/rotation.h for the order of the
 * steps.
 */
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

static void
look(Shift &shift, int64 now)
{
	(void) serving_transaction(AccessShareLock,
							   [&] { look_at_rings(&shift.rotation, shift.database, now); });
}

/*
 * Take the next step of the rotation of one segment. If the step fails, the rotation of other
 * segments goes on.
 */
static void
step(Shift &shift, int segment)
{
	bool raised = false;
	bool served = serving_transaction(AccessShareLock, [&] {
		raised = !survives([&] { take_step(&shift.rotation, shift.database, segment); });
	});
	end_step(&shift.rotation, shift.database, segment, served, raised);
}

int64
rotate(Shift &shift)
{
	int64 now = monotonic_now();
	TimestampTz wall = wall_now();
	bool looks =
		begin_look(&shift.rotation, now, shift.database->clock.trusted(wall, now) ? wall : 0);
	if (looks)
		look(shift, now);
	int segment = segment_in_turn(shift.rotation, now);
	if (segment >= 0)
		step(shift, segment);
	/*
	 * Report the statistics of this process at once: until the report, pg_stat_all_tables counts
	 * the removed rows as dead rows.
	 */
	if (looks || segment >= 0)
		pgstat_report_stat(true);
	if (is_failing(shift.rotation))
		keep_failing();
	return next_step(shift.rotation);
}

} // namespace pgq
