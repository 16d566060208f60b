/*
 * The leases of the jobs that a handler's worker has in hand: when their attempts begin to count,
 * and how they end outside of transactions (protocol: unbegun-is-uncounted). These functions change
 * memory only, and cannot fail.
 */
#pragma once

#include "handlers/call.h"

namespace pgq {

/*
 * A call of n jobs begins: from now on the attempts count. call: its number
 * (begin_handler_call()). Gives those jobs back that have ended or are being cancelled, and returns
 * how many jobs are left: they come first now.
 */
int begin_handled(HandledJob *first, int n, uint64 call);

/*
 * The call of n jobs was undone, and counts for none of them. Gives back and returns as
 * begin_handled() does.
 */
int stop_handled(HandledJob *first, int n);

/* Give the job back uncounted. */
void give_back_handled(HandledJob *job);

/* Make the lease of the job lost, so that the scheduler counts its attempt. */
void lose_handled(const HandledJob &job);

/*
 * End the leases of the jobs that have not ended, when the worker exits or may not run the handler
 * any more. If a call with the job has begun, its lease is lost, so that the scheduler counts the
 * attempt. Otherwise the job is given back, and no attempt is counted.
 */
void leave_handled(const HandledJobs &jobs);

} // namespace pgq
