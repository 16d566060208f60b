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
expire_batch(Sweep *sweep, TimestampTz then)
{
	int64 ids[kBatch];
	int n = lock_overdue(then, kBatch, sweep, ids);
	bool short_of_resources = false;
	for (int i = 0; i < n && !short_of_resources; i++)
		(void) survives([&] { (void) expire_job(ids[i], then); }, &short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return n == kBatch && !short_of_resources;
}

int64
expire(Shift &shift)
{
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!shift.clock.trusted(wall, began))
		return shift.clock.trusted_from();
	bool more = false;
	(void) serving_transaction(RowExclusiveLock, [&] {
		commit_lazily();
		more = expire_batch(&shift.overdue, wall);
	});
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, more);
}

} // namespace pgq
