/*
 * What the triggers of pgq_ext.job and pgq_ext.dead_job do for children (README of dependencies/): rows
 * of their parents come and go by SQL statements, of the extension or of a user.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/*
 * Note the end of a parent, or that a job has come back. alone: this session has locked the segment
 * exclusively; then a row that comes is not looked at.
 */
void note_parent(const TriggerData *data, RingName ring, bool alone);

/*
 * Called before an INSERT or UPDATE of a job's row by SQL: return the row with a run_at that agrees with
 * its column `blocked`. Raises 55000 if the run_at of a blocked job is changed, and 0A000 if the number of
 * parents is changed.
 */
HeapTuple fit_blocked(const TriggerData *data, HeapTuple row);

} // namespace pgq
