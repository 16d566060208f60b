/*
 * Named locks come back to memory: after a start or a promotion, and where a restore has brought rows.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Whoever asks for a named lock comes through here: all rows of pgq_ext.held_lock that memory does not know are there when
 * it returns. Costs nothing if that has been so. Error 53400 if there is no room for them.
 */
const Tables &tables_with_locks();

/* The same without waiting for who is at a lock, or at these rows, but the first time: rows that others have just brought may be missing. */
const Tables &tables_with_known_locks();

/* Of what tables_with_known_locks() leaves out: nothing. */
bool knows_all_locks(const Database *db);

/* The same for who does not wait at all; false: somebody is at it. */
bool try_to_load_locks();

/* There are rows that memory does not know. */
void doubt_locks(Database *db);

} // namespace pgq
