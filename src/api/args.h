/*
 * Arguments of SQL functions: presence, range, and the errors of R2, R5 and R6.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Every function begins with one of these; name as in "pgq_claim()". */
void start_verb(const char *name);	/* preloaded, not parallel */
void start_write(const char *name); /* also: not read-only, not a standby */

/* Argument i, which must not be NULL: 22004 naming it. */
Datum required(FunctionCallInfo fcinfo, int i, const char *name);

inline bool
given(FunctionCallInfo fcinfo, int i)
{
	return !PG_ARGISNULL(i);
}

/* 0A000 if a value other than NULL (or the given default) was passed. */
void not_yet(bool passed, const char *name);

/* A queue's name by R6, checked: here and nowhere else. */
char *queue_name(Datum text);

/* A text as a C string of at most most bytes, cut at a character boundary. */
char *clipped(Datum text, int most);

/* Of an error text, so much is kept, and given back: the rest is not even read. */
inline constexpr int kErrorMax = 8192;
Datum clipped_error(Datum text);

/* Microseconds from now; 22023 if negative or beyond limit (microseconds; 0: a thousand years). */
int64 duration(Datum interval, const char *name, int64 limit = 0);

/* As duration, but the moment: months are calendar months counted from `from`. */
TimestampTz moment_after(TimestampTz from, Datum interval, const char *name);

/* A finite timestamp within a thousand years. */
TimestampTz finite_moment(TimestampTz value, const char *name);

/* An integer in [least, most]; 22023 otherwise. */
int32 in_range(int32 value, int32 least, int32 most, const char *name);

/* lease_time: 1 s to 7 d. */
int64 lease_time(Datum interval, const char *name);

/* max_runtime: 0, or 1 s and more. backoff_jitter: 0 to 1. */
int64 max_runtime(Datum interval, const char *name);
float8 jitter(float8 value, const char *name);

/* An array without NULLs; elements are appended to a palloc'd array. 22004 for a NULL in it, 2202E if not one-dimensional. */
int elements_of(Datum array, Oid type, const char *name, Datum **elements);

} // namespace pgq
