/*
 * A whole claim: search the queues, wait, hand out, and pass the jobs to a receiver. The receiver
 * is the result of a function (api/claim.cpp), a scan of the executor (api/claim_scan.cpp), or a
 * worker of a handler (handlers/call.cpp).
 */
#pragma once

#include "claim/claimed_job.h"
#include "claim/take.h"

namespace pgq {

/* The functions that receive the jobs of a claim. Each gets `result` as its first argument. */
struct ClaimReceiver
{
	/* Take a copy of a job that is going to be handed out: Claim::give. */
	decltype(Claim::give) give;
	/* Forget all jobs: none of them was handed out, and the claim begins again. */
	void (*clear)(void *result);
	/*
	 * Called when the jobs were handed out. The entries of `ready` are in the order of the calls of
	 * give(). Leave out the jobs that `out` does not count as handed out, and take the end of each
	 * lease from its entry.
	 */
	void (*end)(void *result, const Ready *ready, const HandedOut &out);
	void *result;
	MemoryContext memory; /* in which `ready` is allocated */
};

/*
 * Claim from the n queues, on which the caller has checked the right of the current role. Returns
 * how many jobs were handed out. Raises the errors of claim_jobs().
 */
int claim_for(const ClaimReceiver &receiver, const ClaimOptions &options, const QueueRef *refs,
			  char *const *names, int n);

} // namespace pgq
