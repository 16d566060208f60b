/*
 * The row of a job by its id, for who has a right in its queue. To others there is no such job
 * (protocol: no-right-no-job): the same answer, and no wait by which they could tell.
 */
#pragma once

#include "catalog/rights.h"
#include "rows/write.h"

namespace pgq {

/* As locate_job(), which waits for who is at the row, but false if the caller may not do that there. */
bool locate_permitted(SegmentSet &segments, const Place &place, int64 job_id, Deed deed,
					  JobRow *row);

/* May he, at a row that somebody else is just writing? Waits for nobody. */
bool may_at_busy(SegmentSet &segments, int64 job_id, Deed deed);

} // namespace pgq
