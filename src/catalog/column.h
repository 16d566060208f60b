/*
 * The columns that the library expects of a table.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Columns are read by their position. Error 55000 unless the table has these, in this order, and no others. */
struct Column
{
	const char *name;
	Oid type;
};
void check_columns(Relation rel, const Column *columns, int n);

} // namespace pgq
