/*
 * The two clocks. No other file asks the system what time it is.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* For people, and for what outlives a restart. It can be set, forward and back. */
inline TimestampTz
wall_now()
{
	return GetCurrentTimestamp();
}

/* Microseconds on a clock that is never set: how long something takes, in this run of the server. */
inline int64
monotonic_now()
{
	/* Not by the server's instr_time: since 19 each session chooses what that counts, and what we note others compare with. */
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

} // namespace pgq
