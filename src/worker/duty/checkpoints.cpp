/*
 * Duty: delete the checkpoints (jobs/checkpoint.h) of jobs that have ended. For a minute after a
 * start of the server, or after the clock was set, the duty does nothing (core/steady_clock.h).
 */
#include "jobs/checkpoint.h"

#include "core/ring_policy.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

/*
 * Look at the next checkpoints. If they cannot be deleted together, delete them job by job. Return
 * whether all could be deleted.
 */
static bool
clear_some(int64 *last)
{
	int64 jobs[kCheckpointsAtOnce];
	int n = find_ended_jobs(last, jobs);
	bool short_of_resources = false;
	if (n == 0 || survives([&] { delete_checkpoints(jobs, n); }, &short_of_resources))
		return true;
	for (int i = 0; i < n && !short_of_resources; i++)
		(void) survives([&] { delete_checkpoints(&jobs[i], 1); }, &short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return false;
}

int64
clear_checkpoints(SchedulerState &scheduler)
{
	static constexpr int64 kRest = USECS_PER_MINUTE; /* pause between two passes over the table */
	auto &state = scheduler.checkpoints;
	int64 began = monotonic_now();
	if (!scheduler.database->clock.trusted(wall_now(), began))
		return scheduler.database->clock.trusted_from();
	bool served = serving_transaction(AccessShareLock, [&] {
		/* Version 0.1 has no such table. */
		if (!OidIsValid(look_at_tables().job_checkpoint()))
			return;
		read_few_rows();
		commit_lazily();
		state.failed |= !clear_some(&state.last);
	});
	/* Report the duty as failing until a whole pass has succeeded. */
	bool more = state.last != 0;
	state.failing = state.failed || (more && state.failing);
	if (state.failing)
		keep_failing();
	if (!more)
		state.failed = false;
	int64 now = monotonic_now();
	if (!served)
		return now + kHousekeeping;
	return Max(now + (more ? 0 : kRest), now + rest_after_expiry(now - began, more));
}

} // namespace pgq
