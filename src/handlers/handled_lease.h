/*
 * The leases of the jobs that a handler's worker has in hand: when their attempts begin to count,
 * and how they end outside of transactions (protocol: unbegun-is-uncounted). These functions change
 * memory only, and cannot fail.
 */
#pragma once

#include "handlers/call.h"

namespace pgq {

/*
 * Note that a call of n jobs begins: from now on the attempts count. call: number of the call
 * (begin_handler_call()). Jobs that have ended or are being cancelled are given back. The jobs that
 * are left are moved to the front of the array. Returns their number.
 */
int begin_handled(HandledJob *first, int n, uint64 call);

/*
 * Note that the call of n jobs was undone: it counts as an attempt of none of them. Gives jobs
 * back, and returns the number of the others, as begin_handled() does.
 */
int stop_handled(HandledJob *first, int n);

/* Give the job back uncounted. */
void give_back_handled(HandledJob *job);

/* Make the lease of the job lost, so that the scheduler counts the attempt. */
void lose_handled(const HandledJob &job);

/*
 * End the leases of the jobs that have not ended, when the worker exits or may not run the handler
 * any more. If a call with the job has begun, its lease is lost, so that the scheduler counts the
 * attempt. Otherwise the job is given back, and no attempt is counted.
 */
void leave_handled(const HandledJobs &jobs);

} // namespace pgq
