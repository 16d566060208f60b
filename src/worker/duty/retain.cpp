/*
 * Retention: dead letters are deleted when their queue's keep_dead has passed, by a clock that has
 * stood its ground. What they leave in their segment goes when that is truncated.
 */
#include "core/ring_policy.h"
#include "ring/records.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

int64
retain(Shift &shift)
{
	static constexpr int kAtOnce = 64; /* payloads can be large */
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!shift.clock.trusted(wall, began))
		return shift.clock.trusted_from();
	int expired = 0;
	(void) serving_transaction(AccessShareLock, [&] { expired = expire_records(wall, kAtOnce); });
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, expired == kAtOnce);
}

} // namespace pgq
