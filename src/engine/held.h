/*
 * Held jobs. A transaction whose enqueue has met a job by its unique key relies on that job. If the
 * job were handed out before the transaction ends, the worker would not see the rows that the
 * transaction has written for the job. So the transaction holds the job until the transaction ends.
 *
 * The lease of a held job is HELD. Like a PARKED lease, a HELD lease belongs to no worker. Up to
 * kHoldersMax transactions are its holders. Each holder is listed once, even if it meets the job
 * several times. When the last holder ends, the job is filed again. A holder that changes the job
 * is also the user of the lease, and then its only holder (leases.md, "Held jobs").
 *
 * All functions are called under the queue's lock. None can fail.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* Turn a lease that was just taken into a HELD lease, with this transaction as its holder. */
void begin_hold(Lease *lease);

/* Add this transaction to the holders. Return false if there are kHoldersMax holders already. */
bool add_holder(Lease *lease);

bool is_holder(const Lease *lease, const VirtualTransactionId &vxid);

/* Return a holder other than this transaction; NULL: none. */
const VirtualTransactionId *other_holder(const Lease *lease);

/* Remove a holder. Return true if no holder is left; the caller must then give the job back. */
bool drop_holder(Lease *lease, const VirtualTransactionId &vxid);

/*
 * Return whether claims have found the held job due for at least for_long microseconds
 * (note_wanted()).
 */
inline bool
is_wanted(const Lease *lease, int64 monotonic, int64 for_long)
{
	return lease->wanted != 0 && monotonic - lease->wanted >= for_long;
}

} // namespace pgq
