/*
 * Deleting dependencies of children that are gone, and outcomes that no child needs. The scheduler
 * does this, in steps. The caller has locked the segments (protocol: counted-by-snapshot).
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Delete dependencies of the next children after *last (a job id) that one snapshot sees neither as a
 * job nor as a dead letter. Rows that other transactions have locked stay. Sets *last to the last
 * child that was looked at; to 0 at the end of the table. Returns the number of children that were
 * looked at.
 */
int delete_dependencies(int64 *last);

/*
 * Delete outcomes of the next jobs after *last that have no child. Each outcome is deleted first, and
 * then the question is asked, as at the end of a job (README.md, "Garbage"): if there may be a child,
 * the deletion is undone. Sets *last as above.
 */
void delete_outcomes(int64 *last);

} // namespace pgq
