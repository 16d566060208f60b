/*
 * The calls of pgq_claim, pgq_claim_any, pgq_ack_claim and pgq_ack_next. The jobs go to a receiver:
 * the rows of a set-returning function (claim.cpp), or a scan of the executor (claim_scan.cpp).
 */
#pragma once

#include "claim/call.h"

namespace pgq {

using ClaimCall = void (*)(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);

void call_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_claim_any(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_ack_claim(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);
void call_ack_next(FunctionCallInfo fcinfo, const ClaimReceiver &receiver);

} // namespace pgq
