/*
 * Held jobs. A transaction that enqueues a job which is there already, by its unique key, relies on that job: it must
 * not be handed out before the transaction has ended, or what the transaction has seen, or written, to go with the
 * job is met by nobody. So it holds the job. The lease is HELD: nobody's, like a parked one, and any number of
 * transactions up to kHoldersMax are its holders, each once, however often it enqueues the job. The last one to go
 * files the job back. A holder that changes the job is its user, too, and then the only holder (README.md, "Held
 * jobs").
 *
 * Under the queue's lock. Nothing here fails.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* A lease that was just taken becomes HELD by this transaction. */
void begin_hold(Lease *lease);

/* False: it has as many holders as it can have. */
bool add_holder(Lease *lease);

bool is_holder(const Lease *lease, const VirtualTransactionId &vxid);

/* A holder other than this transaction, or NULL. */
const VirtualTransactionId *other_holder(const Lease *lease);

/* That transaction holds it no more. True: nobody does, and it is to be given back. */
bool drop_holder(Lease *lease, const VirtualTransactionId &vxid);

/* Return whether claims have wanted the held job for at least that long (microseconds). */
inline bool
is_wanted(const Lease *lease, int64 monotonic, int64 for_long)
{
	return lease->wanted != 0 && monotonic - lease->wanted >= for_long;
}

} // namespace pgq
