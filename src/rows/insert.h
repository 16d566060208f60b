/*
 * New jobs.
 */
#pragma once

#include "rows/job.h"

namespace pgq {

/* A row to insert. Its id and segment are set when it is. */
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

/*
 * Insert jobs with new ids, in their order: the rows page by page, then their index
 * entries. *hints: what stands for each.
 */
void insert_jobs(NewJob *jobs, int n, Hint *hints);

/* So many rows are worth handing to insert_jobs() at a time. */
inline constexpr int kInsertBatch = 256;

} // namespace pgq
