/*
 * What the library expects of rows that it reads or forms by position: how many columns there are, their types, and which
 * may be NULL. The owner of the extension can alter tables and types, and need not be a superuser: a value that is taken for
 * one of another type is an address of that role's choice.
 *
 * Types are compared by OID, so a domain is another type than its base. Types of the server cannot be altered.
 */
#pragma once

#include "core/column.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Error 55000 unless the table is a heap with these columns, in this order, and no others. To be called again after
 * a wait for the lock of the table, as open_checked() and look_at_tables() do.
 */
void check_columns(Relation rel, const Column *columns, int n);

/* Error 55000 unless the row type pgq_ext.NAME, which desc is of, has these attributes. It may have grown at its end. */
void check_row_type(TupleDesc desc, const char *name, const Column *columns, int n);

/* Error 55000 unless the column of a result of SQL has that type. */
void check_result(TupleDesc desc, int column, Oid type);

/* Error 55000: it is NULL. */
[[noreturn]] void complain_null(TupleDesc desc, int column);

} // namespace pgq
