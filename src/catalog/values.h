/*
 * Checks of values that a user has passed to a function or written to a table: names, ranges,
 * durations. A bad value raises error 22023, which names the value and says what is allowed.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * queue_name() checks the name of a queue, checked_name() the name of any object. Both return the
 * name. of: the kind of object, for the error message.
 */
char *queue_name(Datum text);
char *checked_name(Datum text, const char *of);

/*
 * Return the microseconds of an interval; a day has 24 hours, a month 30 days. Raises 22023 if the
 * result is negative or above `limit` (microseconds; 0: a thousand years).
 */
int64 duration(Datum interval, const char *name, int64 limit = 0);

/* The longest time that a call may wait, in microseconds. */
inline constexpr int64 kWaitMax = 60 * USECS_PER_SEC;

/*
 * Return from + interval, by the calendar of the session's time zone. The interval is checked as in
 * duration().
 */
TimestampTz moment_after(TimestampTz from, Datum interval, const char *name);

/* Check that the time is finite, at most 1,000 years in the future and at most 10,000 years ago. */
TimestampTz finite_moment(TimestampTz value, const char *name);

/* Check a key, which must have 1 to 255 bytes, and return it detoasted. */
Datum key_value(Datum text, const char *name);

/* Check that least <= value <= most. */
int32 in_range(int32 value, int32 least, int32 most, const char *name);

/* Check that the bigint is 0 or more. */
int64 not_negative(int64 value, const char *name);

/* Check a lease_time: 1 second to 7 days. Return microseconds. */
int64 lease_time(Datum interval, const char *name);

/* Check a rate_period or ttl: at least 1 second. Return microseconds. */
int64 one_second_or_more(Datum interval, const char *name);

/*
 * Check the period of a run or a rate: at least 1 second, without months, which differ in length.
 * Return microseconds.
 */
int64 exact_period(Datum interval, const char *name);

/*
 * Check a max_runtime: 0, or at least 1 second. Return microseconds. jitter() checks a
 * backoff_jitter: 0 to 1.
 */
int64 max_runtime(Datum interval, const char *name);
float8 jitter(float8 value, const char *name);

/*
 * Cut an error text to kErrorMax bytes, the length that is stored and returned. Of a longer text,
 * only the beginning is detoasted.
 */
inline constexpr int kErrorMax = 8192;
Datum clipped_error(Datum text);

} // namespace pgq
