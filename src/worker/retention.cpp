#include "worker/retention.h"

#include "engine/shared.h"
#include "core/ring_policy.h"
#include "ring/records.h"
#include "worker/worker.h"

namespace pgq {

int64
apply_retention(const SteadyClock &clock)
{
	static constexpr int kAtOnce = 64; /* payloads can be large */
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!clock.trusted(wall, began))
		return clock.trusted_from();
	int expired = 0;
	worker_transaction([&] {
		if (lock_and_serve(AccessShareLock))
			expired = expire_records(wall, kAtOnce);
	});
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, expired == kAtOnce);
}

} // namespace pgq
