/*
 * The calls of pgq_claim, pgq_claim_any, pgq_ack_claim and pgq_ack_next. The jobs go to a receiver:
 * the rows of a set-returning function (claim.cpp), or a scan of the executor (claim_scan.cpp).
 */
#pragma once

#include "api/claimed_job.h"
#include "claim/take.h"

namespace pgq {

/* Takes the jobs of a claim. Each function gets `result` as its first argument. */
struct ClaimReceiver
{
	/* Take a copy of a job that is going to be handed out: Claim::give. */
	decltype(Claim::give) give;
	/* Forget all jobs: none of them was handed out, and the claim begins again. */
	void (*clear)(void *result);
	/*
	 * The jobs were handed out. The entries of `ready` are in the order of the calls of give():
	 * leave out the jobs that were not handed out, and take the end of each lease from here.
	 */
	void (*end)(void *result, const Ready *ready, const HandedOut &out);
	void *result;
	MemoryContext memory; /* in which `ready` is allocated */
};

using ClaimCall = void (*)(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);

void call_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_claim_any(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_ack_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_ack_next(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);

} // namespace pgq
