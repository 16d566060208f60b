/* Deletion of batches that are settled: no callback can come any more. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Define the setting keep_batches. Called by _PG_init. */
void batches_init();

/*
 * Delete batches that finished longer than pgq_ext.keep_batches before `now`, are not pending and have no
 * members, with their notes. Looks at a limited number of batches, from *from (finished_at) on. *from:
 * moved on, or to DT_NOBEGIN at the end of the pass. Returns whether there may be more to delete. The
 * caller has locked the tables. Call this in a subtransaction.
 */
bool delete_settled_batches(TimestampTz *from, TimestampTz now);

} // namespace pgq
