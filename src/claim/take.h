/* Taking jobs from one queue, a round at a time, and handing them out. */
#pragma once

#include "claim/claim.h"

namespace pgq {

/*
 * Claim jobs of this queue until the claim has max_jobs jobs, without waiting for a job. Returns
 * why there are fewer; kNone: the claim has max_jobs jobs.
 */
StopReason claim_from(const QueueRef &ref, Claim *claim);

/*
 * How the jobs of a claim have ended up. If `kept` or `renewed` is not 0, some rows that were
 * passed to the caller must be withdrawn or changed.
 */
struct HandedOut
{
	int jobs;	 /* handed-out jobs */
	int kept;	 /* jobs that were not handed out: put back, expired or deleted */
	int renewed; /* handed-out jobs whose lease begins later than give() was told */
};

/*
 * Hand out the jobs after a last check of each (protocol: last-look-at-hand-out). This is the last
 * step of a claim. Cannot fail.
 */
HandedOut hand_out_all(Claim *claim);

} // namespace pgq
