/*
 * The triggers of pgq_ext.job and pgq_ext.dead_job call this function for jobs that may be parents
 * (README of dependencies/): for each row that an SQL statement inserts or deletes, of the
 * extension or of a user.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Note that a parent has ended, or that a job with this id is there again. alone: this session has
 * locked the segment exclusively; then inserted rows are not looked at.
 */
void note_parent(const TriggerData *data, RingName ring, bool alone);

/*
 * Called before an INSERT or UPDATE of a job's row by SQL: return the row with a run_at that agrees with
 * its column `blocked`. Raises 55000 if the run_at of a blocked job is changed, and 0A000 if the number of
 * parents is changed.
 */
HeapTuple fit_blocked(const TriggerData *data, HeapTuple row);

} // namespace pgq
