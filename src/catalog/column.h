/*
 * Checks of tables whose rows the library reads or forms by column position: number of columns,
 * types, NOT NULL. The owner of the extension can alter tables and types, and need not be a
 * superuser. Without the checks, an altered column type could make the library use a stored number
 * as an address.
 *
 * Types are compared by OID, so a domain differs from its base type. Types of the server cannot be
 * altered.
 */
#pragma once

#include "core/column.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Raise error 55000 unless the table is a heap with exactly these columns in this order. The check
 * holds as long as the caller has a lock of the table, so repeat it after each wait for such a
 * lock, as open_segment() and look_at_tables() do.
 */
void check_columns(Relation rel, const Column *columns, int n);

/* Like check_columns(), but the table may have more columns after these. */
void check_first_columns(Relation rel, const Column *columns, int n);

/*
 * Raise error 55000 unless the row type pgq_ext.NAME begins with these attributes. desc: the
 * descriptor of that type.
 */
void check_row_type(TupleDesc desc, const char *name, const Column *columns, int n);

/* Raise error 55000 unless the column of an SQL result has that type. */
void check_result(TupleDesc desc, int column, Oid type);

/* Raise error 55000, saying that the column of an SQL result is NULL. */
[[noreturn]] void complain_null(TupleDesc desc, int column);

} // namespace pgq
