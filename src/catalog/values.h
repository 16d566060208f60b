/*
 * What a value may be that somebody has passed to a function or written to a table: names, ranges,
 * durations. One that may not be raises 22023, naming it, and says what may be.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* The name of a queue, or of what else has a name, checked: here and nowhere else. */
char *queue_name(Datum text);
char *checked_name(Datum text, const char *of);

/* Microseconds, with days of 24 hours and months of 30 days; 22023 if negative or beyond limit (microseconds; 0: a thousand years). */
int64 duration(Datum interval, const char *name, int64 limit = 0);

/* As duration, but the moment, by the calendar of the session's time zone. */
TimestampTz moment_after(TimestampTz from, Datum interval, const char *name);

/* A finite timestamp within a thousand years. */
TimestampTz finite_moment(TimestampTz value, const char *name);

/* A key: 1 to 255 bytes. Detoasted. */
Datum key_value(Datum text, const char *name);

/* An integer in [least, most]; 22023 otherwise. */
int32 in_range(int32 value, int32 least, int32 most, const char *name);

/* The same of a bigint, 0 or more. */
int64 not_negative(int64 value, const char *name);

/* lease_time: 1 s to 7 d. */
int64 lease_time(Datum interval, const char *name);

/* rate_period, ttl: 1 s and more. */
int64 one_second_or_more(Datum interval, const char *name);

/* period of a run or a rate: 1 s and more, without months, which differ in length. */
int64 exact_period(Datum interval, const char *name);

/* max_runtime: 0, or 1 s and more. backoff_jitter: 0 to 1. */
int64 max_runtime(Datum interval, const char *name);
float8 jitter(float8 value, const char *name);

} // namespace pgq
