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

/* Error 42501: it may have waited, and a right been revoked meanwhile (protocol: revoked-is-seen). */
void require_rights(const QueueRef *refs, char *const *names, int n);

/* Fill the claim from this queue, without waiting for jobs. */
Shortage claim_from(const QueueRef &ref, Claim *claim);

/*
 * Claim from the queues in their order, waiting for the first job as long as the
 * options say. Errors: 42704 dropped, 53400 no lease left and nothing claimed.
 */
void claim_jobs(const QueueRef *refs, char *const *names, int n, Claim *claim);

/* When it is known what it gets: which of the queues had nothing for it. */
void note_empty(const QueueRef *refs, const Claim &claim);

/* What has become of the jobs of a claim; what its caller was given may not be true any more. */
struct HandedOut
{
	int jobs;
	int kept;	 /* jobs that may not go out any more: they wait again */
	int renewed; /* jobs whose lease begins later than was said */
};

/* The last act of a claim: from here on its jobs are handed out (protocol: last-look-at-hand-out). Cannot fail. */
HandedOut hand_out_all(Claim *claim);

} // namespace pgq
