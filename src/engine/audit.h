/*
 * Consistency figures and bounds of shared memory, for pgq_check() and the view capacity.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Leases and waiters of a queue: their numbers, counted one by one, and the counters that should
 * have the same values. If one line has a number and its counter, the number comes first.
 * pgq_check() compares the two.
 */
struct Audit
{
	bool current; /* false: the queue is gone, and no other field is set */
	/* Id of a job whose lease in this queue differs from its entry in the lease table; 0: none. */
	int64 foreign_job;
	int64 claimed, leased; /* leases in state CLAIMED, counted one by one; their counter */
	int64 parked, parked_count;
	int64 slots, running;	   /* leases with a slot, counted one by one; their counter */
	int64 in_claims, claiming; /* leases with a slot in state CLAIMING; their counter */
	/* Leases that count in a group; the sum of the groups' counters. */
	int64 grouped, in_groups;
	/* Leases that count in a group and are in state CLAIMING; the sum of the groups' counters. */
	int64 grouped_claims, in_group_claims;
	int64 listed, waiting; /* waiters in the line, counted one by one; their counter */
	/*
	 * CLAIMED leases whose jobs do not count as leased (is_unheld()), counted one by one; their
	 * counter.
	 */
	int64 unheld, unheld_kept;
	int64 ahead; /* jobs in work whose row becomes due only later; see leased_ahead() */
	/* false: the counts are not known, so live, waiting_jobs and dead are not valid. */
	bool counted;
	int64 live, waiting_jobs, dead;
	int64 reserved;
	uint32 count_serial; /* serial of the count to which live, waiting_jobs and dead belong */
	int64 in_hand;		 /* leases that were handed out and have not ended */
	/* the counter handed_out; the sum of the counters of all ways in which a lease can end */
	int64 handed_out, ended;
};

Audit audit_queue(const QueueRef &ref, TimestampTz now);

/* A bounded resource of shared memory. */
struct Bound
{
	const char *name;
	int64 used;
	int64 peak; /* highest value since the server's start */
	int64 bound;
	const char *guc;
	int64 entry_bytes; /* shared memory that one more entry costs in the whole server */
};

inline constexpr int kBounds = 16;

void read_bounds(Bound (&bounds)[kBounds]);

} // namespace pgq
