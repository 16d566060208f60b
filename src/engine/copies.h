/*
 * What shared memory knows, copied out under its locks: for views, checks and the workers.
 */
#pragma once

#include "engine/lease.h"

namespace pgq {

/* What a row of pgq_ext.lease shows. */
struct LeaseCopy
{
	int64 job_id;
	int64 token;
	int32 queue_id;
	LeaseState state;
	int32 attempt;
	int pid; /* 0: of before a restart */
	TimestampTz claimed_at;
	TimestampTz expires_at;
	bool pinned;
	bool session_bound;
	bool moving;
	bool changing; /* nobody had the job when it was taken */
	char worker[kWorkerNameMax +
				1]; /* of a HELD one: a transaction that holds it, as pg_locks names it */
};

/* At most `most` leases of the queue, in one hold: a view for people may hold it a little longer. Returns how many. */
int copy_leases(const QueueRef &ref, LeaseCopy *copies, int most);

struct QueueCopy
{
	int32 queue_id;
	char name[kQueueNameMax + 1];
	int leased;		 /* by a lease that counts */
	bool counted;	 /* false: live and dead say nothing */
	bool timed;		 /* false: scheduled says nothing */
	int64 live;		 /* jobs */
	int64 scheduled; /* those of them that wait for their time, now, and nobody has in hand */
	int64 dead;		 /* dead letters */
	int waiting;
	int running;
	int64 next_start;		   /* monotonic; INT64_MAX: no job waits for the rate */
	int64 depth;			   /* -1: nobody has counted */
	TimestampTz last_claim_at; /* 0: none since it was loaded */
	TimestampTz loaded_at;
};

/* What a queue has counted. */
struct StatsCopy
{
	int32 queue_id;
	TimestampTz loaded_at;
	QueueCounters counters;
	uint64 calls[kCalls];
	QueueLatency latency;

	uint64 of(Call call) const { return calls[static_cast<int>(call)]; }
};

/* Leases of a queue whose time is over. */
struct LateLeases
{
	int lost;	   /* the scheduler has not counted them yet */
	int64 lost_by; /* microseconds: the latest one */
	int open;	   /* open transactions keep them */
	int64 open_by;
	int open_pid; /* 0: no session has it */
};

/* All in one hold, as copy_leases(). */
void copy_late_leases(const QueueRef &ref, int64 monotonic, LateLeases *late);

/* Are as many of the group in work as may be, as far as memory knows? */
bool is_group_full(const QueueRef &ref, int64 group);

/* How many jobs the queue hands out before that one, which is ready: ReadyJobs::ahead_of(). */
Schedule::Ahead copy_ahead_of(const QueueRef &ref, const Hint &hint, uint32 most);

/* A group whose rate is counted. */
struct GroupCopy
{
	int64 id;
	int64 next_start; /* monotonic; INT64_MAX: now, or when a claim has ended */
};

/*
 * At most `most` groups of the queue, in the order of their ids, from the first one beyond `after` on. Returns how many.
 * others: when one of those that it has not may start.
 */
int copy_groups(const QueueRef &ref, int64 after, GroupCopy *copies, int most, int64 *others);

/* As everywhere here false: the slot is another's by now. */
bool copy_queue(const QueueRef &ref, QueueCopy *copy);
bool copy_stats(const QueueRef &ref, StatsCopy *copy);
bool copy_name(const QueueRef &ref, char (&name)[kQueueNameMax + 1]);
bool copy_duties(const QueueRef &ref, DutyNote (&notes)[kQueueDutyNotes]);
void copy_duties(const Database *db, DutyNote (&notes)[kDutyNotes]);

/* The error of the segment's last step; "": none. */
void copy_segment_error(const Database *db, int number, char (&error)[sizeof(SegmentNotes::error)]);

} // namespace pgq
