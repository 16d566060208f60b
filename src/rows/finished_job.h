/*
 * Finished jobs: rows of pgq_ext.finished_job.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/* outcome: a word. worker and result (jsonb): or NULL. The row is in the memory of the records. */
void add_finished_job(Records &records, const JobRow &row, const char *outcome, const char *worker,
					  const Datum *result);

} // namespace pgq
