/*
 * Claiming jobs.
 *
 * A claim takes leases before it reads rows (protocol: hints-prove-nothing). First, the claim pops
 * hints and takes the leases of their jobs under the queue's lock. Then it verifies the rows
 * without the lock. Then it settles, under the lock again, the jobs that cannot be handed out. The
 * last step of the claim hands out the other jobs. An error or a cancel before this step puts all
 * jobs back uncounted. After this step, a job that comes back has lost an attempt (protocol:
 * returned-is-counted).
 */
#pragma once

#include "engine/lease.h"
#include "rows/job.h"

namespace pgq {

struct ClaimOptions
{
	int max_jobs;
	int64 wait;		  /* longest wait for a job, in microseconds */
	int64 lease_time; /* microseconds; 0: the lease_time of the queue */
	const char *worker;
	bool session_bound = false;
	/*
	 * The caller is a handler's worker. The worker ends the leases itself when its process exits,
	 * and says when it begins to work on a job (Lease::unbegun).
	 */
	bool ends_them_itself = false;
	/*
	 * Take no further job if the payloads and headers of all jobs together would be larger than
	 * this; 0: no limit. The first job is taken even if it alone is larger.
	 */
	Size most_bytes = 0;
	bool for_more =
		false; /* the call has acknowledged jobs, so a shortage of leases raises no error */
	bool stop_if_short =
		false; /* a shortage raises no error, and ends the wait: Claim::fell_short */
};

/* Why a claim has got fewer jobs of a queue than requested. */
enum class StopReason : uint8
{
	kNone,
	kEmpty, /* no job is ready */
	kFull,	/* concurrency or rate_limit allows no more jobs now; treated as kEmpty */
	kHeld,	/* the queue is paused, or is being purged or dropped; treated as kEmpty */
	/* The claim raises an error for the following reasons if it has got no job. */
	kLeases,  /* no lease is left (pgq_ext.max_leases) */
	kLocked,  /* other transactions have locked the rows of too many jobs */
	kDropped, /* the queue was dropped */
};

/* A job that hand_out_all() will hand out, unless the last check of the job fails there. */
struct Ready
{
	QueueRef ref;
	Lease *lease;
	uint64 serial;
	int64 token;
	HandOut hand_out;
	/*
	 * The time at which the lease begins, by both clocks: when verify() read the row or, if much
	 * time has passed since then, when the job is handed out.
	 */
	int64 monotonic;
	TimestampTz now;
	uint32 options_set;		/* Round::options_set of the round that took the lease */
	TimestampTz expires_at; /* time at which the job expires; DT_NOEND: never */
	bool handed_out;

	TimestampTz lease_expires_at() const { return now + hand_out.lease_time; }
};

struct Claim
{
	const ClaimOptions *options;
	Ready *ready; /* array with room for max_jobs entries */
	int n;
	int looked_at;	 /* number of queues searched so far, from the start of the list */
	int64 end;		 /* monotonic end of the wait for a job; 0: the claim has not waited */
	bool fell_short; /* the last search has got no job because of a shortage (stop_if_short) */

	/*
	 * Passes a job that is going to be handed out to the caller, with `result` as the first
	 * argument. The function copies the row, whose segment is unlocked afterwards
	 * (protocol: detoast-then-unlock).
	 */
	void (*give)(void *result, const QueueRef &ref, const QueueOptions &options, const JobRow &row,
				 const Ready &ready);
	void *result;
};

} // namespace pgq
