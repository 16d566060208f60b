/*
 * Consistency figures and bounds of shared memory, for pgq_check() and the view capacity.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Leases and waiters of a queue: the numbers counted one by one, and the counters that are kept
 * about them. pgq_check() compares both.
 */
struct Audit
{
	bool current; /* false: the queue is gone, and nothing else is set */
	/* A job whose lease in this queue is not the one in the lease table; 0: none. */
	int64 foreign_job;
	int64 claimed, leased; /* leases in state CLAIMED; the counter of them */
	int64 parked, parked_count;
	int64 slots, running;	   /* leases with a slot; the counter of them */
	int64 in_claims, claiming; /* leases with a slot in state CLAIMING; the counter of them */
	/* Leases that count in their group; the sum of the groups' counters. */
	int64 grouped, in_groups;
	/* Of the leases in `grouped` those in state CLAIMING; the sum of the groups' counters. */
	int64 grouped_claims, in_group_claims;
	int64 listed, waiting; /* waiters in the line; the counter of them */
	/* CLAIMED leases by which no job counts as leased, see is_unheld(); the counter of them. */
	int64 unheld, unheld_kept;
	int64 ahead; /* jobs in work whose row is not due yet; see leased_ahead() */
	/* The counts are known; false: live, waiting_jobs and dead are not valid. */
	bool counted;
	int64 live, waiting_jobs, dead;
	int64 reserved;
	uint32 count_serial;	 /* serial of the count from which live, waiting_jobs and dead come */
	int64 in_hand;			 /* leases that were handed out and have not ended */
	int64 handed_out, ended; /* the counters handed_out, and the sum of all ways to end */
};

Audit audit_queue(const QueueRef &ref, TimestampTz now);

/* One bounded resource of shared memory. */
struct Bound
{
	const char *name;
	int64 used;
	int64 peak; /* since the server's start */
	int64 bound;
	const char *guc;
	int64 entry_bytes; /* shared memory that one more entry costs in the whole server */
};

inline constexpr int kBounds = 16;

void read_bounds(Bound (&bounds)[kBounds]);

} // namespace pgq
