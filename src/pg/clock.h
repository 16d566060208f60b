/* The two clocks of the server. No other file reads a clock. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the time of day: for people, and for times that must survive a restart. This clock may be
 * set forward or back.
 */
inline TimestampTz
wall_now()
{
	return GetCurrentTimestamp();
}

/*
 * Return microseconds of a clock that is never set: for durations and deadlines that end before the
 * server stops.
 */
inline int64
monotonic_now()
{
	/*
	 * Do not use the server's instr_time: since PostgreSQL 19 each session chooses its time source,
	 * but this clock is compared across sessions.
	 */
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

} // namespace pgq
