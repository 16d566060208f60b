/*
 * Finding the row of a job by its id, for a caller that needs a right on the job's queue. A caller
 * without the right gets the same answer as if the job did not exist, and no wait that could show
 * the difference (protocol: no-right-no-job).
 */
#pragma once

#include "catalog/rights.h"
#include "rows/write.h"

namespace pgq {

/*
 * Locate the row as locate_job() does with wait. Returns false also if the caller has no right for
 * `permission` on the job's queue.
 */
bool locate_permitted(SegmentSet &segments, const Place &place, int64 job_id, Permission permission,
					  JobRow *row);

/*
 * Return whether the caller has the right for `permission` on the queue of a job whose row another
 * transaction is writing. Returns true also if the row is not found, for example because it is
 * being moved: the caller checks the right again when it has found the row. Does not wait.
 */
bool may_at_busy(SegmentSet &segments, int64 job_id, Permission permission);

} // namespace pgq
