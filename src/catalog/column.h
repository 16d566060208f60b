/*
 * Checks of tables whose rows the library reads or forms by column position: number of columns,
 * types, NOT NULL. The owner of the extension can alter tables and types, and need not be a
 * superuser. Without the checks, that owner could make the library use any number as an address.
 *
 * Types are compared by OID, so a domain differs from its base type. Types of the server cannot be
 * altered.
 */
#pragma once

#include "core/column.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Raise error 55000 unless the table is a heap with exactly these columns in this order. Call again
 * after each wait for a lock of the table, as open_segment() and look_at_tables() do.
 */
void check_columns(Relation rel, const Column *columns, int n);

/*
 * Raise error 55000 unless the row type pgq_ext.NAME begins with these attributes. desc: the
 * descriptor of that type.
 */
void check_row_type(TupleDesc desc, const char *name, const Column *columns, int n);

/* Raise error 55000 unless the column of an SQL result has that type. */
void check_result(TupleDesc desc, int column, Oid type);

/* Raise error 55000, which says that the column is NULL. */
[[noreturn]] void complain_null(TupleDesc desc, int column);

} // namespace pgq
