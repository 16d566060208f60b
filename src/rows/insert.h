/* Inserting new jobs. */
#pragma once

#include "rows/job.h"

namespace pgq {

/*
 * A job row to insert. insert_jobs() sets the segment, and sets the id unless the caller has set
 * one.
 */
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
 * Insert n jobs. A job without an id gets a new one; if there are many, the caller should set their
 * ids (draw_job_ids()), which costs less. First the rows are written page by page, then their index
 * entries. hints: an array of n elements, filled with the hint of each job.
 */
void insert_jobs(NewJob *jobs, int n, Hint *hints);

/* Best number of rows for one call of insert_jobs(). Calls with more rows are no faster. */
inline constexpr int kInsertBatch = 256;

} // namespace pgq
