/*
 * The columns that the library expects of a table.
 */
#pragma once

#include "core/column.h"
#include "pg/pg.h"

namespace pgq {

/* Error 55000 unless the table has these, in this order, and no others. */
void check_columns(Relation rel, const Column *columns, int n);

} // namespace pgq
