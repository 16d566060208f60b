/* What the dead letter or the record of a finished job says of a job that has no row in pgq_ext.job. */
#pragma once

#include "rows/dependency_row.h"
#include "rows/look_up.h"

namespace pgq {

/* Look at all versions of the dead letter. Does not wait. */
JobTrace trace_dead_letter(int64 job_id);

/* Return whether the snapshot sees a dead letter of the job. */
bool is_dead_letter_visible(int64 job_id, Snapshot snapshot);

/*
 * Return whether there is a record of the finished job, committed or written by this transaction. If
 * so, fill *outcome from the newest record, with a copy of the result.
 */
bool find_finished(int64 job_id, OutcomeRow *outcome);

} // namespace pgq
