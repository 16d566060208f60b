/*
 * Lost attempts that are not counted by the scheduler. A call that changes such a job counts the
 * attempt first. The worker of the lost lease may also report late why it failed.
 */
#pragma once

#include "steps/attempt.h"
#include "steps/waiting.h"

namespace pgq {

/*
 * Count the attempt of a lost lease that this transaction has taken (waiting.h), as the scheduler
 * would.
 */
void count_lost(SegmentSet &segments, const TakenLease &taken, const JobRow &row);

/*
 * Record the worker's report of a failure for a lease that was lost by rollback or by time, if no
 * other worker has had the job since (protocol: loss-can-be-explained). The attempt is counted
 * once, with failure.error, failure.retry_in and failure.retry. Returns kGone if the lease is
 * stale.
 */
AttemptEnd fail_lost(SegmentSet &segments, int64 job_id, const Failure &failure);

} // namespace pgq
