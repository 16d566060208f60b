/*
 * Held jobs. A transaction whose enqueue has met a job by its unique key relies on that job. The
 * job must not be handed out before the transaction has ended: otherwise the worker would not see
 * what the transaction has written to go with the job. So the transaction holds the job.
 *
 * The lease of the job is then HELD. Like a PARKED lease it belongs to no worker. Up to kHoldersMax
 * transactions are its holders, each listed once, however often it meets the job. When the last
 * holder goes, the job is filed again. A holder that changes the job is also the user of the lease,
 * and then its only holder (README.md, "Held jobs").
 *
 * All functions are called under the queue's lock. None can fail.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* Turn a lease that was just taken into a HELD one, with this transaction as its holder. */
void begin_hold(Lease *lease);

/* Add this transaction to the holders. Return false if there are kHoldersMax already. */
bool add_holder(Lease *lease);

bool is_holder(const Lease *lease, const VirtualTransactionId &vxid);

/* Return a holder other than this transaction; NULL: none. */
const VirtualTransactionId *other_holder(const Lease *lease);

/* Remove a holder. Return true if it was the last one; the caller must then give the job back. */
bool drop_holder(Lease *lease, const VirtualTransactionId &vxid);

/* Return whether claims have wanted the held job for at least that long (microseconds). */
inline bool
is_wanted(const Lease *lease, int64 monotonic, int64 for_long)
{
	return lease->wanted != 0 && monotonic - lease->wanted >= for_long;
}

} // namespace pgq
