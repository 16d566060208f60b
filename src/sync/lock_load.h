/*
 * Load named locks from their rows: after a start or a promotion, and after a restore has brought
 * rows.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Return the tables after all rows of pgq_ext.held_lock are in memory. Every caller that asks for a
 * named lock comes through here. Cheap if all rows are known already. Error 53400 if there is no
 * room for them.
 */
const Tables &tables_with_locks();

/*
 * Like tables_with_locks(), but do not wait for transactions that use the table, except for the
 * first load. Rows that another session has just brought may be missing.
 */
const Tables &tables_with_known_locks();

/* True if memory has all rows, so that tables_with_known_locks() has left out none. */
bool knows_all_locks(const Database *db);

/*
 * Like tables_with_locks(), but never wait. False: another transaction has locked the table. True
 * leaves a RowExclusiveLock on the table until the transaction ends.
 */
bool try_to_load_locks();

/*
 * Note that there are rows that memory does not know. The next call of tables_with_locks() loads
 * them.
 */
void doubt_locks(Database *db);

} // namespace pgq
