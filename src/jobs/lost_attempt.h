/*
 * The worker of a lost lease may report late why its attempt failed. If the scheduler has not
 * counted the attempt yet, the report counts the attempt.
 */
#pragma once

#include "steps/attempt.h"

namespace pgq {

/*
 * Record the worker's report of a failure for a lease that was lost by rollback or by time, if no
 * other worker has had the job since (protocol: loss-can-be-explained). The attempt is counted
 * once, with failure.error, failure.retry_in and failure.retry. Returns kGone if the lease is
 * stale.
 */
AttemptEnd fail_lost(SegmentSet &segments, int64 job_id, const Failure &failure);

} // namespace pgq
