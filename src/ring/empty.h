/* Emptying a table that is locked with AccessExclusiveLock. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Cut the files of the table and of its TOAST table to zero length, and the files of their indexes
 * to the metapage. The cut takes effect at once, and a rollback does not undo the cut. So the table
 * must not have a live row. Writes nothing to the catalog.
 */
void cut_files(Relation rel);

/*
 * Give the table new files, as TRUNCATE does. Takes effect at commit, and writes about ten new row
 * versions to pg_class.
 */
void exchange_files(Relation rel);

/*
 * Return whether cut_files() can be used: all indexes are btrees, and the table's relfrozenxid is
 * not old. (Only new files get a young relfrozenxid, so that no VACUUM has to freeze the table.)
 */
bool can_be_cut(Relation rel);

} // namespace pgq
