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

} // namespace pgq
