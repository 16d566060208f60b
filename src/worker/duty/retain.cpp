/*
 * Retention: dead letters are deleted when their queue's keep_dead has passed, and unique keys are free
 * when their unique_for has, by a clock that has stood its ground. What they leave in their segment goes when that is truncated.
 */
#include "core/ring_policy.h"
#include "ring/records.h"
#include "rows/key_period.h"
#include "worker/shift.h"
#include "worker/worker.h"

namespace pgq {

static constexpr int kAtOnce = 64; /* payloads can be large */

static constexpr int kPeriodsAtOnce = 1000;

/* What cannot be read does not keep the others. Returns whether there may be more. */
static bool
expire_all(TimestampTz now)
{
	int expired = 0;
	int periods = 0;
	bool short_of_resources = false;
	for (const Segment &segment : look_at_tables().all_segments())
		if (expired < kAtOnce && !short_of_resources && OidIsValid(segment.heap))
			(void) survives([&] { expired += expire_records(segment, now, kAtOnce - expired); },
							&short_of_resources);
	if (!short_of_resources)
		(void) survives([&] { periods = end_key_periods(now, kPeriodsAtOnce); },
						&short_of_resources);
	if (short_of_resources)
		rest_after_this();
	return expired == kAtOnce || periods == kPeriodsAtOnce;
}

int64
retain(Shift &shift)
{
	int64 began = monotonic_now();
	TimestampTz wall = wall_now();
	if (!shift.database->clock.trusted(wall, began))
		return shift.database->clock.trusted_from();
	bool more = false;
	(void) serving_transaction(AccessShareLock, [&] { more = expire_all(wall); });
	int64 now = monotonic_now();
	return now + rest_after_expiry(now - began, more);
}

} // namespace pgq
