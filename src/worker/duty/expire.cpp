/*
 * Duty: end jobs that were not handed out before their time (expires_in) was over. For a minute
 * after a start of the server, or after the clock was set, the duty does nothing
 * (core/steady_clock.h).
 */
#include "core/ring_policy.h"
#include "jobs/expiry.h"
#include "ring/segment.h"
#include "worker/scheduler_state.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kExpiredMax = 64;

/*
 * Lock jobs whose expires_in is over, from the position of the sweep on, and return their number.
 * If a segment cannot be read, go on with the next segment.
 */
static int
lock_batch(SchedulerState &scheduler, TimestampTz then, int64 *ids)
{
	auto &state = scheduler.expiry;
	const Tables &t = look_at_tables();
	int n = 0;
	for (; state.segment < kMaxSegments && n < kExpiredMax; state.segment++)
	{
		const Segment *segment = t.find(state.segment);
		int most = kExpiredMax - n;
		int locked = 0;
		if (segment == nullptr || is_bare(*segment))
			continue;
		if (!survives([&] { locked = lock_overdue(*segment, then, most, &state.sweep, ids + n); }))
			state.failed = true;
		n += locked;
		if (locked == most)
			return n;
		state.sweep = {};
	}
	return n;
}

/*
 * Expire one batch of jobs. If a job cannot be expired, go on with the other jobs. Return whether
 * there may be more jobs to expire.
 */
static bool
expire_batch(SchedulerState &scheduler, TimestampTz then)
{
	int64 ids[kExpiredMax];
	auto &state = scheduler.expiry;
	int n = lock_batch(scheduler, then, ids);
	bool more = state.segment < kMaxSegments;
	if (!more)
		state.segment = 0;
	bool short_of_resources = false;
	for (int i = 0; i < n && !short_of_resources; i++)
		state.failed |= !survives([&] { (void) expire_job(ids[i], then); }, &short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return more;
}

/* Report the duty as failing until a whole sweep has succeeded. */
static void
tell_of_failures(SchedulerState &scheduler, bool more)
{
	auto &state = scheduler.expiry;
	state.failing = state.failed || (more && state.failing);
	if (state.failing)
		keep_failing();
	if (!more)
		state.failed = false;
}

int64
expire(SchedulerState &scheduler)
{
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!scheduler.database->clock.trusted(wall, began))
		return scheduler.database->clock.trusted_from();
	bool more = false;
	bool served = serving_transaction(RowExclusiveLock, [&] {
		commit_lazily();
		more = expire_batch(scheduler, wall);
	});
	/* A batch that could not run leaves the sweep unfinished. */
	tell_of_failures(scheduler, more || !served);
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, more);
}

} // namespace pgq
