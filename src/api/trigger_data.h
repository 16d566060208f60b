/*
 * Access to the data of a trigger function. A role that may execute the function can also use it in
 * a trigger on a table of its own, with any columns and rows.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Return the trigger data. Error 39P01 unless pgq_ext.NAME was called by a trigger of the
 * extension.
 */
const TriggerData *trigger_data(FunctionCallInfo fcinfo, const char *name);

/* Return the new row; of a DELETE, the old row. */
HeapTuple row_of(const TriggerData *data);

/*
 * Read a column by name, since the SQL objects may be of another version. False: the column is
 * missing, of another type, or NULL.
 */
bool value_of(const TriggerData *data, HeapTuple tuple, const char *column, Oid type, Datum *value);

} // namespace pgq
