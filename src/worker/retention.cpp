#include "worker/retention.h"

#include "engine/shared.h"
#include "store/dead_job.h"
#include "worker/worker.h"

namespace pgq {

int64
apply_retention(const SteadyClock &clock)
{
	static constexpr int64 kInterval = 5 * USECS_PER_SEC;
	static constexpr int64 kAfterError = 60 * USECS_PER_SEC;
	static constexpr int kAtOnce = 64; /* payloads can be large */
	/* At most a tenth of the scheduler's time: what was deleted under an old snapshot is read again each time. */
	static constexpr int kRest = 10;
	static constinit int64 next = 0;
	int64 began = monotonic_now();
	if (began < next)
		return next;
	TimestampTz wall = GetCurrentTimestamp();
	if (!clock.trusted(wall, began))
		return clock.trusted_from();
	int expired = 0;
	bool survived = true;
	worker_transaction([&] {
		if (lock_and_serve(AccessShareLock))
			survived = survives([&] { expired = expire_dead_jobs(wall, kAtOnce); });
	});
	int64 now = monotonic_now();
	if (!survived)
		next = now + kAfterError;
	else if (expired == kAtOnce)
		next = now + kRest * (now - began);
	else
		next = now + Max(kInterval, kRest * (now - began));
	return next;
}

} // namespace pgq
