/*
 * Deadlines of leases, and the tree of leases that time can end. All functions are called under the
 * queue's lock.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Return whether the lease is handed out and no open transaction uses it
 * (protocol: used-is-pinned).
 */
inline bool
can_expire(const Lease *lease)
{
	return lease->state == LeaseState::kClaimed && lease->pins == 0;
}

/*
 * start_expiring() adds the lease to the expiry tree, which is ordered by deadline; stop_expiring()
 * removes the lease.
 */
void start_expiring(Lease *lease);
void stop_expiring(Lease *lease);

/* Remove a LOST lease from the list of lost leases, or from the expiry tree if it was put off. */
void stop_waiting(Lease *lease);

/*
 * Return the lease with the earliest deadline in the expiry tree, if this deadline has passed;
 * otherwise NULL.
 */
Lease *first_due(const Queue *queue, int64 monotonic);

/* Return the first PARKED lease, if its deadline has passed; otherwise NULL. */
Lease *first_to_unpark(const Queue *queue, int64 monotonic);

/*
 * Extend the deadline to lease_time from now, but not beyond the queue's max_runtime. A deadline
 * that is already later stays. Return false, without a change, if max_runtime is used up.
 */
bool extend_deadline(Lease *lease, int64 lease_time, int64 monotonic, TimestampTz now);

/* Return the lease that has been lost for longest and is not put off; NULL: none. */
Lease *first_lost(const Queue *queue);

/*
 * Return the next time (monotonic) at which a lease expires, is unparked, or is no longer put off,
 * or at which rows are to be read again; INT64_MAX: none.
 */
int64 next_lease_event(const Queue *queue);

} // namespace pgq
