/*
 * Expiry: jobs whose time is over before somebody has had them are ended, by a clock that has stood
 * its ground.
 */
#include "core/ring_policy.h"
#include "jobs/expiry.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kBatch = 64;

/* One that cannot be ended does not keep the others. Returns whether there may be more. */
static bool
expire_batch(Shift &shift, TimestampTz then)
{
	int64 ids[kBatch];
	auto &state = shift.expiry;
	int n = lock_overdue(then, kBatch, &state.sweep, ids);
	bool short_of_resources = false;
	for (int i = 0; i < n && !short_of_resources; i++)
		state.failed |= !survives([&] { (void) expire_job(ids[i], then); }, &short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return n == kBatch;
}

/* Until a whole sweep has gone well. */
static void
tell_of_failures(Shift &shift, bool more)
{
	auto &state = shift.expiry;
	state.failing = state.failed || (more && state.failing);
	if (state.failing)
		keep_failing();
	if (!more)
		state.failed = false;
}

int64
expire(Shift &shift)
{
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!shift.clock.trusted(wall, began))
		return shift.clock.trusted_from();
	bool more = false;
	bool served = serving_transaction(RowExclusiveLock, [&] {
		commit_lazily();
		more = expire_batch(shift, wall);
	});
	/* What has not been tried has not gone well. */
	tell_of_failures(shift, more || !served);
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, more);
}

} // namespace pgq
