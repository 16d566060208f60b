/*
 * The number of jobs that count as leased in views, and leases that are set aside. All functions
 * are called under the queue's lock.
 */
#pragma once

#include "engine/lease_entry.h"

namespace pgq {

struct Queue;

/*
 * Return whether views leave the job of this CLAIMED lease out of the leased jobs, because the
 * lease is doomed or the job has no row in the queue any more.
 */
inline bool
is_unheld(const Lease *lease)
{
	return lease->doomed || lease->rows_gone.here > 0;
}

/* Make the lease CLAIMED, and count it in the numbers of the queue's leases. */
void begin_claimed(Lease *lease);

/*
 * Note when the row of a CLAIMED job becomes due, as its hint says: SQL may have set another
 * run_at.
 */
void note_wait(Lease *lease, const Hint &hint);

/* Note that SQL has deleted or moved the row of the job, or has put it back. */
void lack_row(Lease *lease, const RowsGone &gone);

/*
 * Return the number of leased jobs whose row becomes due only in a later second, because the clock
 * was set back or SQL has changed the row.
 */
int64 leased_ahead(const Queue &queue, TimestampTz now);

/* Set the lease aside until its end: no worker has it. kind: the account to charge (lease_quota.h). */
void set_lease_aside(Lease *lease, AsideQuota *kind);

/* Note that claims have found this held job due and first in the queue. */
void note_wanted(Lease *lease, const Hint &hint);

} // namespace pgq
