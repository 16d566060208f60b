/*
 * New jobs.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* A row to insert. Its segment is set when it is, and its id, if that is not yet. */
struct NewJob
{
	Datum values[kJobColumns];
	bool nulls[kJobColumns];

	NewJob() { memset(nulls, true, sizeof(nulls)); }

	void set(JobColumn column, Datum value)
	{
		values[column - 1] = value;
		nulls[column - 1] = false;
	}
};

int64 new_job_id();

/* It gets one now, unless it has one. */
inline void
number_job(NewJob *job)
{
	if (job->nulls[kJobId - 1])
		job->set(kJobId, Int64GetDatum(new_job_id()));
}

/*
 * Insert jobs, with new ids in their order where they have none: the rows page by page, then their index
 * entries. *hints: what stands for each.
 */
void insert_jobs(NewJob *jobs, int n, Hint *hints);

/* So many rows are worth handing to insert_jobs() at a time. */
inline constexpr int kInsertBatch = 256;

} // namespace pgq
