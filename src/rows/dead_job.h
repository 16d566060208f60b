/*
 * Dead letters: rows of pgq_ext.dead_job.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/*
 * Remove a dead letter of the job, which it may still have if an administrator has brought the job
 * back: a new dead letter replaces it. Returns false if there is none; *queue_id is the queue of
 * the removed one. Without wait, raises 55P03 if another transaction has locked that row.
 */
bool remove_dead_job(int64 job_id, bool wait, int32 *queue_id);

/*
 * Add a dead letter made of this row, which must stay in memory until the records are written.
 * fence: token of the last lease; negative if that lease was lost.
 */
void add_dead_job(Records &records, const JobRow &row, int32 attempts, int64 fence,
				  const char *reason, bool has_error, Datum error);

} // namespace pgq
