/*
 * Finding the row of a job by its id for a caller with a right on its queue. For a caller without
 * the right there is no such job (protocol: no-right-no-job): the answer is the same, and there is
 * no wait by which it could tell.
 */
#pragma once

#include "catalog/rights.h"
#include "rows/write.h"

namespace pgq {

/*
 * As locate_job() with wait, but returns false if the caller has no right for `deed` on the job's
 * queue.
 */
bool locate_permitted(SegmentSet &segments, const Place &place, int64 job_id, Deed deed,
					  JobRow *row);

/*
 * Return whether the caller has the right, by a row that another transaction is writing. Does not
 * wait.
 */
bool may_at_busy(SegmentSet &segments, int64 job_id, Deed deed);

} // namespace pgq
