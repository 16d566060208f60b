/*
 * Dead letters: rows of pgq_ext.dead_job.
 */
#pragma once

#include "rows/record.h"

namespace pgq {

/* A dead letter that was removed. */
struct RemovedLetter
{
	int32 queue_id;
	int64 batch_id; /* 0: none */
};

/*
 * Remove an old dead letter of the job, so that a new dead letter can replace it. An old dead
 * letter exists only if an administrator has inserted the job again by SQL. Returns false if the
 * job has no dead letter. *removed: what the removed dead letter was. Without wait, raises
 * 55P03 if another transaction has locked that dead letter.
 */
bool remove_dead_job(int64 job_id, bool wait, RemovedLetter *removed);

/*
 * Add a dead letter with the data of the job's row. `row` must stay in memory until the records are
 * written. fence: token of the last lease; negative if that last lease was lost.
 */
void add_dead_job(Records &records, const JobRow &row, int32 attempts, int64 fence,
				  const char *reason, bool has_error, Datum error);

} // namespace pgq
