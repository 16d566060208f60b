/*
 * Loading named locks from their rows: after a start or a promotion, and after a restore has
 * inserted rows.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Load all rows of pgq_ext.held_lock into memory, and return what tables() returns. Every caller
 * that asks for a named lock calls this first. Cheap if memory has all rows already. Raises 53400
 * if there are not enough entries.
 */
const Tables &tables_with_locks();

/*
 * Like tables_with_locks(), but wait for other transactions that use the table at the first load
 * only. After a later load, memory may lack rows that another session has just inserted.
 */
const Tables &tables_with_known_locks();

/*
 * Return whether memory has all rows. If not, tables_with_known_locks() may have left out some
 * rows.
 */
bool knows_all_locks(const Database *db);

/*
 * Like tables_with_locks(), but never wait. Returns false if another transaction has locked the
 * table. If true, this transaction has a RowExclusiveLock on the table until it ends.
 */
bool try_to_load_locks();

/*
 * Note that there are rows that memory does not have. The next call of tables_with_locks() loads
 * them.
 */
void doubt_locks(Database *db);

} // namespace pgq
