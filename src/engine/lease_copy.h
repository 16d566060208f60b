/*
 * Copies of leases, saved at a clean shutdown and restored after the start: load/saved_lease.h.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

struct SavedLease
{
	int32 queue_id;
	int64 token;
	Hint hint; /* only the job id in its key is saved */
	bool lost;
	Loss loss;
	int32 attempt;
	int64 remaining;  /* microseconds until the deadline */
	int64 lease_time; /* last requested lease time, in microseconds; 0: unknown */
	TimestampTz claimed_at;
	TimestampTz enqueued_at; /* not saved, but read from the row; 0: the row was not read */
	Prepared prepared;
	char worker[kWorkerNameMax + 1];
};

/*
 * Copy the CLAIMED and LOST leases of the queue, at most `most`, and return their number. Leases
 * that an open transaction uses are left out, since it is not known how that transaction ends. All
 * leases are copied in a single hold: at a shutdown no other process waits for the lock.
 */
int copy_leases_to_save(const QueueRef &ref, SavedLease *copies, int most, int64 monotonic);

/* Return whether the queue has a lease in any state. */
bool has_leases(const QueueRef &ref);

/* Restore a lease. Return false if no lease is free, or if the job already has a lease. */
bool restore_lease(const QueueRef &ref, const SavedLease &saved, int64 monotonic, TimestampTz now);

} // namespace pgq
