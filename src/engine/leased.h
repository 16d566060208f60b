/*
 * The number of jobs that count as leased in views, and leases that are set aside. Protected by the
 * queue's lock.
 */
#pragma once

#include "engine/lease_entry.h"

namespace pgq {

struct Queue;

/*
 * Return whether no job counts as leased by this CLAIMED lease: it is doomed, or the row of its job
 * is gone from the queue.
 */
inline bool
is_unheld(const Lease *lease)
{
	return lease->doomed || lease->rows_gone.here > 0;
}

/* Make the lease CLAIMED, and count it. */
void begin_claimed(Lease *lease);

/*
 * Note the present row of a CLAIMED job, by its hint: the row may have a run_at in the future after
 * all.
 */
void note_wait(Lease *lease, const Hint &hint);

/* Note that SQL has deleted or moved the row of the job, or has put it back. */
void lack_row(Lease *lease, const RowsGone &gone);

/*
 * Return the number of leased jobs whose row becomes due only in a later second: the clock was set
 * back, or SQL has changed the row.
 */
int64 leased_ahead(const Queue &queue, TimestampTz now);

/*
 * Set the lease aside until its end, charged as one of that kind (share.h). No worker works by it.
 */
void set_lease_aside(Lease *lease, AsideShare *kind);

/* Note that claims want this held job: it is due, and first in the queue. */
void note_wanted(Lease *lease, const Hint &hint);

} // namespace pgq
