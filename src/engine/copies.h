/*
 * Copies of shared memory, made under its locks, for views, checks and workers.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* A lease as a row of the view pgq_ext.lease. */
struct LeaseCopy
{
	int64 job_id;
	int64 token;
	int32 queue_id;
	LeaseState state;
	int32 attempt;
	int pid; /* 0: the lease is from before a restart */
	TimestampTz claimed_at;
	TimestampTz expires_at;
	bool pinned;
	bool session_bound;
	bool moving;
	bool ends_here; /* this transaction ends the lease when it commits */
	bool changing;	/* a transaction has taken the lease of a waiting job to change it */
	/* label of the worker; in state HELD: virtual transaction id of a holder, as in pg_locks */
	char worker[kWorkerNameMax + 1];
};

/*
 * Copy at most `most` leases of the queue in a single hold, and return their number. The lock may
 * be held a little longer than elsewhere, since the copy is for a view that a person reads.
 */
int copy_leases(const QueueRef &ref, LeaseCopy *copies, int most);

/* Copy the lease of the job. Returns false if the job has no lease. */
bool copy_lease_of(const Database *db, int64 job_id, LeaseCopy *copy);

struct QueueCopy
{
	int32 queue_id;
	char name[kQueueNameMax + 1];
	int leased;		 /* jobs of CLAIMED leases for which is_unheld() is false */
	bool counted;	 /* false: live, blocked and dead are not valid */
	bool timed;		 /* false: scheduled is not valid */
	int64 live;		 /* live jobs */
	int64 scheduled; /* live jobs that wait for their run_at and are neither in work nor blocked */
	int64 blocked;	 /* live jobs that wait for the end of other jobs */
	int64 dead;		 /* dead letters */
	int waiting;
	int running;
	/* When the rate limit lets one more job start (monotonic); see Queue::next_start. */
	int64 next_start;
	int64 depth;			   /* -1: not known, or the queue has no max_depth */
	TimestampTz last_claim_at; /* 0: no claim since the queue was loaded */
	TimestampTz loaded_at;
};

/* Statistics of a queue. */
struct StatsCopy
{
	int32 queue_id;
	TimestampTz loaded_at;
	QueueCounters counters;
	uint64 calls[kCalls];
	TimestampTz last_skip_at; /* 0: no publish has left a job out */
	QueueLatency latency;

	uint64 of(Call call) const { return calls[static_cast<int>(call)]; }
};

/* Leases of a queue whose deadline has passed, for the view health. */
struct LateLeases
{
	int lost;	   /* lost leases whose attempt is not counted in the row yet */
	int64 lost_by; /* microseconds since the deadline of the most overdue lost lease */
	int open;	   /* leases that open transactions keep from expiring */
	int64 open_by; /* microseconds since the deadline of the most overdue open lease */
	int open_pid;  /* process whose transaction keeps the most overdue open lease; 0: no session */
};

/* Look for late leases in a single hold, as copy_leases() does. */
void copy_late_leases(const QueueRef &ref, int64 monotonic, LateLeases *late);

/* Return whether the group has as many jobs in work as its rules allow, according to memory. */
bool is_group_full(const QueueRef &ref, int64 group);

/* Return how many jobs the queue hands out before this ready job; see ReadyJobs::ahead_of(). */
Schedule::Ahead copy_ahead_of(const QueueRef &ref, const Hint &hint, uint32 most);

/* A group with a count of starts (group_rate_limit). */
struct GroupCopy
{
	int64 id;
	/*
	 * When the rate limit lets one more job of the group start (monotonic). INT64_MAX: a job may
	 * start now, or as soon as a claim in progress has ended, so no time is known.
	 */
	int64 next_start;
};

/*
 * Copy at most `most` groups of the queue, in the order of their ids, beginning after the id
 * `after`. Return their number. *others: when a job of a group without an entry may start (as
 * GroupCopy::next_start).
 */
int copy_groups(const QueueRef &ref, int64 after, GroupCopy *copies, int most, int64 *others);

/* The functions with a QueueRef return false if the slot belongs to another queue by now. */
bool copy_queue(const QueueRef &ref, QueueCopy *copy);
bool copy_stats(const QueueRef &ref, StatsCopy *copy);
bool copy_name(const QueueRef &ref, char (&name)[kQueueNameMax + 1]);
bool copy_duties(const QueueRef &ref, DutyStatus (&notes)[kQueueDutyStatuses]);
void copy_duties(const Database *db, DutyStatus (&notes)[kDutyStatuses]);

/* Copy the error of the last step of rotation for the segment; "" if that step has not failed. */
void copy_segment_error(const Database *db, int number,
						char (&error)[sizeof(SegmentStatus::error)]);

} // namespace pgq
