/*
 * Leases as they are saved at a clean shutdown, and restored after the start: load/saved_lease.h.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

struct SavedLease
{
	int32 queue_id;
	int64 token;
	Hint hint; /* saved: of its key only the job's id is */
	bool lost;
	Loss loss;
	int32 attempt;
	int64 remaining;  /* microseconds */
	int64 lease_time; /* length last asked for, in microseconds; 0: not known */
	TimestampTz claimed_at;
	TimestampTz enqueued_at; /* not saved: as the row says; 0: it was not asked */
	Prepared prepared;
	char worker[kWorkerNameMax + 1];
};

/*
 * Copy the queue's leases that are CLAIMED or LOST, at most `most`, but none that an open transaction
 * uses: what becomes of that nobody knows. Returns how many. All in one hold: at a shutdown
 * there is nobody to be kept waiting by a long one.
 */
int copy_leases(const QueueRef &ref, SavedLease *copies, int most, int64 monotonic);

/* Has it any, whatever their state? */
bool has_leases(const QueueRef &ref);

/* The lease is as it was when it was copied. False: there is no room for it, or the job has one. */
bool restore_lease(const QueueRef &ref, const SavedLease &saved, int64 monotonic, TimestampTz now);

} // namespace pgq
