/*
 * What time does to leases: deadlines, and the tree of those that it can end. Under the queue's lock.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* Is it handed out, and no open transaction uses it (protocol: used-is-pinned)? */
inline bool
can_expire(const Lease *lease)
{
	return lease->state == LeaseState::kClaimed && lease->pins == 0;
}

/* Into the tree by its deadline, and out of it. */
void start_expiring(Lease *lease);
void stop_expiring(Lease *lease);

/* Of a LOST lease: out of the line, or of the tree. */
void stop_waiting(Lease *lease);

/* Of those in the tree the first one whose deadline has passed, or NULL. */
Lease *first_due(const Queue *queue, int64 monotonic);

/* The PARKED one whose time has come, or NULL. */
Lease *first_to_unpark(const Queue *queue, int64 monotonic);

/*
 * Note the length asked for, and let the lease end that long from now, capped by the queue's max_runtime; an end that is
 * later already stays. False, and no change: max_runtime is used up.
 */
bool extend_deadline(Lease *lease, int64 lease_time, int64 monotonic, TimestampTz now);

/* The lease that was lost first, of those that were not put off, or NULL. */
Lease *first_lost(const Queue *queue);

/* Deadline of the next parked or expiring lease, or one put off; INT64_MAX: none. */
int64 next_lease_event(const Queue *queue);

} // namespace pgq
