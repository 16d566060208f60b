/*
 * Access to the data of a trigger function, with checks. The checks are needed because any role
 * that may execute a function of the extension can use it in a trigger on its own table, which may
 * have any columns and rows.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the trigger data. Raises 39P01 unless a trigger of the extension has called the function;
 * name: the function pgq_ext.NAME.
 */
const TriggerData *trigger_data(FunctionCallInfo fcinfo, const char *name);

/* Return the new row of the trigger; for a DELETE, the old row. */
HeapTuple row_of(const TriggerData *data);

/*
 * Read a column by its name, since the SQL objects may be of another version. Returns false if the
 * column is missing, has another type, or is NULL.
 */
bool value_of(const TriggerData *data, HeapTuple tuple, const char *column, Oid type, Datum *value);

} // namespace pgq
