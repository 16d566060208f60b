/* Taking jobs from one queue, a round at a time, and handing them out. */
#pragma once

#include "claim/claim.h"

namespace pgq {

/*
 * Claim jobs of this queue until the claim has max_jobs jobs, without waiting for a job. Returns
 * why the claim has fewer jobs; kNone: it has max_jobs jobs.
 */
StopReason claim_from(const QueueRef &ref, Claim *claim);

/*
 * How many jobs of a claim were handed out. If `kept` or `renewed` is not 0, the caller must remove
 * or change some of the rows that Claim::give has copied.
 */
struct HandedOut
{
	int jobs;	 /* handed-out jobs */
	int kept;	 /* jobs that were not handed out: put back, expired or deleted */
	int renewed; /* handed-out jobs whose lease begins later than Claim::give was told */
};

/*
 * Hand out the jobs after a last check of each (protocol: last-look-at-hand-out). This is the last
 * step of a claim. Cannot fail.
 */
HandedOut hand_out_all(Claim *claim);

} // namespace pgq
