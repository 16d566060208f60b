/*
 * Claiming jobs.
 *
 * A claim takes leases first and looks at the rows then (protocol: hints-prove-nothing): pop hints
 * and take their leases under the queue's lock, verify the rows without it, settle under the lock
 * again what cannot be handed out. The rest is handed out when all is done: until then an error
 * or a cancel puts everything back uncounted, after it a job that comes back is a lost attempt
 * (protocol: returned-is-counted).
 */
#pragma once

#include "engine/lease.h"
#include "rows/job.h"

namespace pgq {

struct ClaimOptions
{
	int max_jobs;
	int64 wait;
	int64 lease_time; /* 0: the queue's */
	const char *worker;
	bool session_bound = false;
	bool for_more =
		false; /* it has done something already: that there are no leases undoes it not */
};

/* What stopped a claim before it had all it wanted. */
enum class Shortage : uint8
{
	kNone,
	kEmpty, /* no job is ready */
	kFull,	/* as many run, or have started, as may: as good as empty */
	kHeld,	/* the queue is paused, purged or dropped: the same */
	/* Errors, if nothing could be claimed because of them: */
	kLeases,  /* pgq_ext.max_leases */
	kEntries, /* of groups: the same */
	kLocked,  /* too many of its jobs are locked by other transactions */
	kDropped, /* the queue is gone */
};

/* A job that will be handed out when the call returns, if it may be then. */
struct Ready
{
	QueueRef ref;
	Lease *lease;
	uint64 serial;
	int64 token;
	HandOut hand_out;
	/* When its lease begins: at the look, or at the hand-out if there was a wait between them. */
	int64 monotonic;
	TimestampTz now;
	uint32 options_set;		/* of the queue, when the lease was taken */
	TimestampTz expires_at; /* the job itself (expires_in); DT_NOEND: never */
	bool handed_out;

	TimestampTz lease_expires_at() const { return now + hand_out.lease_time; }
};

struct Claim
{
	const ClaimOptions *options;
	Ready *ready; /* room for max_jobs */
	int n;
	int looked_at; /* queues, of those that it claims from the first ones */
	int64 end;	   /* monotonic: of its wait for jobs; 0: it has not begun */

	/* Give the caller a job that is going to be handed out; its row is copied before the segment is unlocked
	 * (protocol: detoast-then-unlock). */
	void (*give)(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
				 const Ready &ready);
	void *result;
};

} // namespace pgq
