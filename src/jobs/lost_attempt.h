/*
 * Attempts that were lost, for others than the scheduler: whoever wants to change such a job counts its
 * attempt first, and its worker may say afterwards why it failed.
 */
#pragma once

#include "jobs/attempt.h"
#include "jobs/waiting.h"

namespace pgq {

/* The attempt of a lost lease that was taken (waiting.h) is counted, as the scheduler would. */
void count_lost(SegmentSet &segments, const TakenLease &taken, const JobRow &row);

/*
 * The worker's answer to a lease that was lost, by a rollback or by time, while nobody has had the job since
 * (protocol: loss-can-be-explained): failure.error, failure.retry_in and failure.retry are those of that
 * attempt, which is counted once. kGone: the lease is stale.
 */
AttemptEnd fail_lost(SegmentSet &segments, int64 job_id, const Failure &failure);

} // namespace pgq
