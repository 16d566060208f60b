/*
 * By which leases jobs count as leased, for views, and which are set aside. All of it under the queue's lock.
 */
#pragma once

#include "engine/lease_entry.h"

namespace pgq {

struct Queue;

/* Of a CLAIMED one: is it lost as soon as nobody uses it, or is its job's row gone? Then no job counts as leased by it. */
inline bool
is_unheld(const Lease *lease)
{
	return lease->doomed || lease->rows_gone.here > 0;
}

/* A lease of the queue is CLAIMED from here on. */
void begin_claimed(Lease *lease);

/* The row of its job, which is CLAIMED, is as the hint says: it may wait for its time after all. */
void note_wait(Lease *lease, const Hint &hint);

/* The row of the lease's job was deleted or moved by SQL, or has come back. */
void lack_row(Lease *lease, const RowsGone &gone);

/*
 * Jobs that are leased, though their rows wait for a second that is yet to come: the clock was set back, or somebody
 * has changed the row by hand.
 */
int64 leased_ahead(const Queue &queue, TimestampTz now);

/* From here to its end nobody works by the lease: it counts as one of that kind (share.h). */
void set_lease_aside(Lease *lease, AsideShare *kind);

/* Note that claims want this held job: it is due, and first in the queue. */
void note_wanted(Lease *lease, const Hint &hint);

} // namespace pgq
