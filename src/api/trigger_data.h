/*
 * How a trigger function begins. Whoever may call it can put it on a table of its own, where the rows are anything.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Why pgq_ext.NAME was called: error 39P01 unless by a trigger that the extension has made. */
const TriggerData *trigger_data(FunctionCallInfo fcinfo, const char *name);

/* The row as it will be. */
HeapTuple row_of(const TriggerData *data);

/* A column by its name: the SQL objects may be of another version. False: it is not there, of another type, or NULL. */
bool value_of(const TriggerData *data, HeapTuple tuple, const char *column, Oid type, Datum *value);

} // namespace pgq
