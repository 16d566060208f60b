/*
 * Taking everything out of a table that is locked against everybody.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * In place, at once, whatever becomes of the transaction; nothing is written to the catalog. So no
 * row may live there. TOAST table and indexes included, as below.
 */
void cut_files(Relation rel);

/* As TRUNCATE does: new files, at commit, and ten rows of pg_class. */
void exchange_files(Relation rel);

/* Are there only indexes that can be emptied in place, and is there no need of new files? */
bool can_be_cut(Relation rel);

} // namespace pgq
