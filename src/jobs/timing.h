/*
 * When a schedule runs: what pgq_schedule was told of that, understood.
 */
#pragma once

#include "core/cron.h"
#include "pg/zone.h"

namespace pgq {

struct Timing
{
	Cron cron;
	const pg_tz *zone;
};

/* cron: fields, a word as @daily, or "every" and an interval. Errors: 22023, 22007. */
Timing timing_of(const char *cron, const char *timezone);

/* The first tick after that; DT_NOEND: there is none in the next 40 years. */
TimestampTz tick_after(const Timing &timing, TimestampTz moment);

/* The same of one that shall run: error 22023 if there is none. */
TimestampTz first_tick_after(const Timing &timing, TimestampTz moment);

/* The newest ticks in [from, until], at most `most`, oldest first. */
Backlog missed_ticks(const Timing &timing, TimestampTz from, TimestampTz until, TimestampTz *ticks,
					 int most);

} // namespace pgq
