/*
 * Checks of tables whose rows the library reads or forms by column position: number of columns,
 * types, NOT NULL. The owner of the extension, who need not be a superuser, can alter tables and
 * types. Without the checks, that owner could pass any number off as the address of a value.
 *
 * Types are compared by OID, so a domain differs from its base type. Types of the server cannot be
 * altered.
 */
#pragma once

#include "core/column.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Raise error 55000 unless the table is a heap with exactly these columns in this order. After
 * waiting for a lock of the table, call it again, as open_segment() and look_at_tables() do.
 */
void check_columns(Relation rel, const Column *columns, int n);

/*
 * Raise error 55000 unless the row type pgq_ext.NAME, of which desc is, begins with these
 * attributes.
 */
void check_row_type(TupleDesc desc, const char *name, const Column *columns, int n);

/* Raise error 55000 unless the column of an SQL result has that type. */
void check_result(TupleDesc desc, int column, Oid type);

/* Raise error 55000 because the column is NULL. */
[[noreturn]] void complain_null(TupleDesc desc, int column);

} // namespace pgq
