/*
 * Options of a queue, as they are used.
 */
#pragma once

#include "core/backoff.h"
#include "pg/pg.h"

#include <type_traits>

namespace pgq {

/* Limits of options; the CHECKs of pgq_ext.queue say the same. A thousand years as the server compares intervals, 12 times 30 days. */
inline constexpr int64 kLeaseTimeMin = USECS_PER_SEC;
inline constexpr int64 kLeaseTimeMax = 7 * USECS_PER_DAY;
inline constexpr int64 kThousandYears = INT64CONST(1000) * 12 * DAYS_PER_MONTH * USECS_PER_DAY;

struct QueueOptions
{
	int64 lease_time;  /* microseconds */
	int64 max_runtime; /* microseconds; 0: no limit */
	int32 max_attempts;
	BackoffOptions backoff;
	bool notify;
	bool paused;

	bool operator==(const QueueOptions &) const = default;
};
static_assert(std::is_trivially_copyable_v<QueueOptions>);

} // namespace pgq
