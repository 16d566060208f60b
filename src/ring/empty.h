/* Emptying a table that is locked with AccessExclusiveLock. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Cut the files of the table, its TOAST table and indexes in place. This takes effect at once, also
 * if the transaction rolls back, so the table must not have a live row. Writes nothing to the
 * catalog.
 */
void cut_files(Relation rel);

/*
 * Give the table new files, as TRUNCATE does: effective at commit, with about ten new row versions
 * in pg_class.
 */
void exchange_files(Relation rel);

/*
 * Return whether cut_files() can be used: all indexes are btrees, and the table is not so old that
 * new files are needed.
 */
bool can_be_cut(Relation rel);

} // namespace pgq
