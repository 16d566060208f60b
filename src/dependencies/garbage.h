/*
 * Deleting dependencies of children that are gone, and outcomes that no child needs. The scheduler
 * does this, in steps. The caller has locked the segments (protocol: counted-by-snapshot).
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Delete the dependencies of children that have ended: of the next children after *last (a job id)
 * that one snapshot sees neither as jobs nor as dead letters. Rows that other transactions have
 * locked stay. Sets *last to the last child that was looked at, or to 0 at the end of the table.
 * Returns the number of children whose dependencies are garbage.
 */
int delete_dependencies(int64 *last);

/*
 * Delete the outcomes of the next jobs after *last that have no child. After the deletion, search
 * for children of the job, as at the end of a job (README.md, "Garbage"): if there may be a child,
 * undo the deletion. Sets *last as delete_dependencies() does.
 */
void delete_outcomes(int64 *last);

} // namespace pgq
