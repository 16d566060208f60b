/* Access to the arguments of SQL functions, with checks. */
#pragma once

#include "catalog/values.h"

namespace pgq {

/*
 * Every SQL function begins with start_verb() or start_write(). name: the function as in
 * "pgq_claim()", for the error message.
 */
void start_verb(const char *name); /* checks: library preloaded, no parallel worker, no standby */
void
start_write(const char *name); /* checks of start_verb(), and the transaction is not read-only */

/* Return argument i. Raises 22004, naming the argument, if it is NULL. */
Datum required(FunctionCallInfo fcinfo, int i, const char *name);

inline bool
given(FunctionCallInfo fcinfo, int i)
{
	return !PG_ARGISNULL(i);
}

/* Return the text as a C string of at most `most` bytes, cut at a character boundary. */
char *clipped(Datum text, int most);

/*
 * Deconstruct an array into a palloc'd array of elements, and return their number. Raises 22004 if
 * an element is NULL, 2202E if the array has more than one dimension.
 */
int elements_of(Datum array, Oid type, const char *name, Datum **elements);

} // namespace pgq
