#include "worker/retention.h"

#include "engine/shared.h"
#include "ring/records.h"
#include "worker/worker.h"

namespace pgq {

int64
apply_retention(const SteadyClock &clock)
{
	static constexpr int64 kInterval = 5 * USECS_PER_SEC;
	static constexpr int kAtOnce = 64; /* payloads can be large */
	/* At most a tenth of the scheduler's time: what was deleted under an old snapshot is read again each time. */
	static constexpr int kRest = 10;
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!clock.trusted(wall, began))
		return clock.trusted_from();
	int expired = 0;
	worker_transaction([&] {
		if (lock_and_serve(AccessShareLock))
			expired = expire_dead_jobs(wall, kAtOnce);
	});
	int64 now = monotonic_now();
	int64 rest = kRest * (now - began);
	return now + (expired == kAtOnce ? rest : Max(kInterval, rest));
}

} // namespace pgq
