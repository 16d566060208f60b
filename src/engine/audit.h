/*
 * Consistency figures and bounds of shared memory, for pgq_check() and the view capacity.
 */
#pragma once

#include "engine/registry.h"

namespace pgq {

/*
 * Leases and waiters of a queue: how many there are, counted one by one, and the number that memory
 * keeps of them. If one line has both numbers, the counted one comes first. pgq_check() compares
 * the two.
 */
struct Audit
{
	bool current; /* false: the queue is gone, and no other field is set */
	/* Id of a job whose lease in this queue differs from its entry in the lease table; 0: none. */
	int64 foreign_job;
	/* leases in state CLAIMED: the counted number, and the number that memory keeps */
	int64 claimed, leased;
	int64 parked, parked_count;
	/* leases with a slot: the counted number, and the number that memory keeps */
	int64 slots, running;
	/* leases with a slot in state CLAIMING: the counted number, and the kept number */
	int64 in_claims, claiming;
	/*
	 * Leases that count in a group: the counted number, and the sum of the numbers that the groups
	 * keep.
	 */
	int64 grouped, in_groups;
	/*
	 * Leases that count in a group and are in state CLAIMING: the counted number, and the sum of
	 * the numbers that the groups keep.
	 */
	int64 grouped_claims, in_group_claims;
	/* waiters in the line: the counted number, and the number that memory keeps */
	int64 listed, waiting;
	/*
	 * CLAIMED leases whose jobs the views do not show as leased (is_unheld()): the counted number,
	 * and the number that memory keeps.
	 */
	int64 unheld, unheld_kept;
	int64 ahead; /* jobs in work whose row becomes due only later; see leased_ahead() */
	/* false: the counts are not known, so live, waiting_jobs, blocked_jobs and dead are not valid. */
	bool counted;
	int64 live, waiting_jobs, blocked_jobs, dead;
	int64 reserved;
	uint32
		count_serial; /* serial of the count to which live, waiting_jobs, blocked_jobs and dead belong */
	int64 in_hand; /* leases that were handed out and have not ended */
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

inline constexpr int kBounds = 18;

void read_bounds(Bound (&bounds)[kBounds]);

} // namespace pgq
