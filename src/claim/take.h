/* Taking jobs from one queue, a round at a time, and handing them out. */
#pragma once

#include "claim/claim.h"

namespace pgq {

/* Fill the claim from this queue, without waiting for jobs. */
Shortage claim_from(const QueueRef &ref, Claim *claim);

/* What has become of the jobs of a claim; what its caller was given may not be true any more. */
struct HandedOut
{
	int jobs;
	int kept;	 /* jobs that may not go out any more: they wait again */
	int renewed; /* jobs whose lease begins later than was said */
};

/* The last act of a claim: from here on its jobs are handed out (protocol: last-look-at-hand-out). Cannot fail. */
HandedOut hand_out_all(Claim *claim);

} // namespace pgq
