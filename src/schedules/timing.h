/* The timing of a schedule: the parsed arguments cron and timezone of pgq_schedule. */
#pragma once

#include "core/cron.h"
#include "pg/zone.h"

namespace pgq {

struct Timing
{
	Cron cron;
	const pg_tz *zone;
};

/*
 * Parse the two arguments. cron: fields, a word like @daily, or "every" and an interval. Raises
 * 22023, 22007.
 */
Timing timing_of(const char *cron, const char *timezone);

/* Return the first tick after that moment; DT_NOEND if there is none in the next 40 years. */
TimestampTz tick_after(const Timing &timing, TimestampTz moment);

/* Like tick_after(), but raises 22023 if there is no tick. */
TimestampTz first_tick_after(const Timing &timing, TimestampTz moment);

/* Return the newest ticks in [from, until], at most `most`, sorted from old to new. */
Backlog missed_ticks(const Timing &timing, TimestampTz from, TimestampTz until, TimestampTz *ticks,
					 int most);

} // namespace pgq
