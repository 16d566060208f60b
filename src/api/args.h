/* Access to the arguments of SQL functions, with checks. */
#pragma once

#include "catalog/values.h"

namespace pgq {

/* Every function begins with one of these checks. name: as in "pgq_claim()", for the error. */
void start_verb(const char *name);	/* preloaded, no parallel worker, no standby */
void start_write(const char *name); /* also: the transaction is not read-only */

/* Return argument i. Error 22004, naming it, if it is NULL. */
Datum required(FunctionCallInfo fcinfo, int i, const char *name);

inline bool
given(FunctionCallInfo fcinfo, int i)
{
	return !PG_ARGISNULL(i);
}

/* Return the text as a C string of at most `most` bytes, cut at a character boundary. */
char *clipped(Datum text, int most);

/* Clip an error text to the bytes that are stored and returned. The rest is not even detoasted. */
inline constexpr int kErrorMax = 8192;
Datum clipped_error(Datum text);

/*
 * Deconstruct an array into a palloc'd array of elements, and return their number. Errors: 22004,
 * an element is NULL; 2202E, more than one dimension.
 */
int elements_of(Datum array, Oid type, const char *name, Datum **elements);

} // namespace pgq
