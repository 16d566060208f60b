/*
 * Dead letters: rows of pgq_ext.dead_job.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/*
 * A job that an administrator has brought back may have left its dead letter behind: the new one replaces it. Error
 * 55P03, only without wait, if somebody is at that row. Removes one, of that queue; false: there is none.
 */
bool remove_dead_job(int64 job_id, bool wait, int32 *queue_id);

/* A dead letter made of this row, which is there until it is written. fence: token of the last lease; negative: it was lost. */
void add_dead_job(Records &records, const JobRow &row, int32 attempts, int64 fence,
				  const char *reason, bool has_error, Datum error);

} // namespace pgq
