/*
 * Finished jobs: rows of pgq_ext.finished_job.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* outcome: a word. worker and result (jsonb): or NULL. */
void insert_finished_job(const JobRow &row, const char *outcome, const char *worker,
						 const Datum *result);

} // namespace pgq
