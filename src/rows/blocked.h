/* The delay of a blocked job, which begins when the job is blocked no more. */
#pragma once

#include "core/key.h"
#include "pg/pg.h"

#include <algorithm>

namespace pgq {

/*
 * Return when a job becomes due that was blocked up to now. delay: the value of its column `blocked`. SQL
 * may have written any number: a negative one is no delay, and no job becomes due as late as the time of
 * blocked jobs.
 */
constexpr TimestampTz
end_of_block(int64 delay, TimestampTz now)
{
	return now + std::clamp(delay, INT64CONST(0), std::max(kBlockedRunAt - 1 - now, INT64CONST(0)));
}

} // namespace pgq
