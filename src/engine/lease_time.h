/*
 * Which leases time can end: the tree of deadlines. Only for this folder: lease.h is what others
 * see. Under the queue's lock.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* Is it handed out, and no open transaction uses it (R4)? */
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

} // namespace pgq
