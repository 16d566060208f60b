/*
 * What shared memory says of itself: for pgq_check() and the view capacity.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/* A queue's leases and waiters as they are, against what is kept about them. */
struct Audit
{
	bool current;		   /* false: the queue is gone, nothing else is set */
	int64 foreign_job;	   /* a job whose lease here is not the one of the lease table, or 0 */
	int64 claimed, leased; /* leases in state CLAIMED; the counter */
	int64 parked, parked_count;
	int64 slots, running;	   /* leases with a slot; the counter */
	int64 in_claims, claiming; /* those that are not handed out yet; the counter */
	int64 grouped, in_groups;  /* leases that count in their group; the counters of the groups */
	int64 grouped_claims, in_group_claims; /* those of them that are not handed out yet */
	int64 listed, waiting;				   /* waiters in line; the counter */
	int64 unheld, unheld_kept; /* leases in state CLAIMED by which nobody has a job; the counter */
	int64 ahead;			   /* jobs in work that wait: see leased_ahead() */
	bool counted;			   /* at that time; false: the next three say nothing */
	int64 live, waiting_jobs, dead;
	int64 reserved;
	uint32 count_serial;	 /* of that count */
	int64 in_hand;			 /* leases that were handed out and have not ended */
	int64 handed_out, ended; /* counters */
};

Audit audit_queue(const QueueRef &ref, TimestampTz now);

/* One bound of shared memory. */
struct Bound
{
	const char *name;
	int64 used;
	int64 peak; /* since the server's start */
	int64 bound;
	const char *guc;
	int64 entry_bytes; /* shared memory that one more costs, of the whole server */
};

inline constexpr int kBounds = 16;

void read_bounds(Bound (&bounds)[kBounds]);

} // namespace pgq
