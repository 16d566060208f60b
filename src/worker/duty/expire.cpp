/*
 * Expiry: jobs whose time is over before somebody has had them are ended, by a clock that has stood
 * its ground.
 */
#include "core/ring_policy.h"
#include "jobs/expiry.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

int64
expire(Shift &shift)
{
	static constexpr int kAtOnce = 64;
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!shift.clock.trusted(wall, began))
		return shift.clock.trusted_from();
	int expired = 0;
	(void) serving_transaction(RowExclusiveLock, [&] {
		commit_lazily();
		expired = expire_jobs(wall, kAtOnce);
	});
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, expired == kAtOnce);
}

} // namespace pgq
