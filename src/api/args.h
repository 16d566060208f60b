/*
 * Arguments of SQL functions: whether they are there, and what they hold.
 */
#pragma once

#include "catalog/values.h"

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

/* A text as a C string of at most most bytes, cut at a character boundary. */
char *clipped(Datum text, int most);

/* Of an error text, so much is kept, and given back: the rest is not even read. */
inline constexpr int kErrorMax = 8192;
Datum clipped_error(Datum text);

/* An array without NULLs; elements are appended to a palloc'd array. 22004 for a NULL in it, 2202E if not one-dimensional. */
int elements_of(Datum array, Oid type, const char *name, Datum **elements);

} // namespace pgq
