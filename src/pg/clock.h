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
	instr_time now;
	INSTR_TIME_SET_CURRENT(now);
	return static_cast<int64>(INSTR_TIME_GET_MICROSEC(now));
}

} // namespace pgq
