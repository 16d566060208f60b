/*
 * Finished jobs: rows of pgq_ext.finished_job.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/*
 * Add a record of the finished job. worker and result (jsonb) may be NULL. `row` must stay in
 * memory until the records are written.
 */
void add_finished_job(Records &records, const JobRow &row, const char *outcome, const char *worker,
					  const Datum *result);

} // namespace pgq
