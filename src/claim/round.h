/*
 * A round: one pass of a claim over one queue. A round pops hints and takes the leases of their
 * jobs in one hold of the queue's lock (pop()), reads the rows of these jobs (verify()), and
 * settles the jobs that cannot be handed out (requeue_rejected()). Between two rounds take.cpp does
 * what the next round needs, for example a refill.
 */
#pragma once

#include "claim/claim.h"
#include "engine/concurrency.h"
#include "rows/job.h"
#include "rows/segment_set.h"
#include "rows/visibility.h"

namespace pgq {

/* Upper bound of the number of hints that one round pops. */
inline constexpr int kRoundMax = 64;

/* A hint that was popped and the lease of its job, which pop() has taken. verify() adds the row. */
struct Candidate
{
	Lease *lease;
	uint64 serial;
	int64 token;
	Hint hint;
	/*
	 * Only with fair: the turn that the group got when this job was popped. Needed to undo the turn
	 * if the job is not handed out.
	 */
	Turns::Given turn;
	Visibility visibility;
	bool ghost; /* verify() has found no live row of the job */
	JobRow row;
	bool grouped; /* the queue of the lease has rules for groups */
	/*
	 * Only for fifo: the id from which the search for the head of the group starts. Jobs of the
	 * group with smaller ids have ended or are not committed yet.
	 */
	int64 from;
	/* Only for fifo: an earlier job of the group is live, so this job must not be handed out. */
	bool behind;
	bool left; /* The claim is full, so the job goes back as it was. */

	/*
	 * Return whether the job can be handed out: its row is live, agrees with the hint, and is in
	 * the queue of the lease, and no earlier job of the group is live.
	 */
	bool fits(const QueueRef &ref) const
	{
		return visibility == Visibility::kLive && !behind && !left &&
			   row.queue_id() == ref.queue_id && row.key() == hint.key &&
			   row.delayed() == hint.delayed && (!grouped || row.group() == hint.group);
	}
};

/*
 * The time for which a claim has made no progress: it has found neither a job nor a refill of
 * another process for which it could wait.
 */
struct RefillWait
{
	/*
	 * Monotonic time at which the claim began to make no progress, moved forward by the length of
	 * each wait for a refill. 0: the last round did not call wait_for_refill().
	 */
	int64 since;
	int idle; /* number of calls of wait_for_refill() that found no refill to wait for */
};

/*
 * Leases that this transaction ends. Each may lend its slot to a lease that the claim takes
 * (engine/concurrency.h).
 */
struct Lenders
{
	Lender *leases; /* NULL, or room for kRoundMax entries */
	int n;
	bool asked; /* own_ends() was called to fill `leases` */
};

struct Round
{
	QueueRef ref;

	/* Set before the round. */
	int most; /* upper bound of the number of hints to pop */
	/*
	 * This is the first round of the claim at this queue. Only the first round files jobs again
	 * that were set aside; otherwise many such jobs could keep the claim going without end.
	 */
	bool first;
	/*
	 * The claim has just refilled the window. This round moves no hints from the timer into the
	 * window before it pops; otherwise a flood of jobs that become due could make the claim refill
	 * without end.
	 */
	bool refilled;

	/* Result of the round. */
	Candidate *popped;
	int n;
	QueueOptions options; /* options of the queue when the leases were taken */
	uint32 options_set;	  /* how often the queue's options had been set when `options` was copied */
	StopReason shortage;  /* why there is no next round; kNone: the claim may go on */
	/*
	 * For kEmpty: the last transaction that moved rows of due jobs of the queue to another segment;
	 * invalid: none. That transaction may have ended already.
	 */
	VirtualTransactionId mover;

	/* State that each round of the claim at this queue hands on to the next round. */
	RefillWait patience;
	Size bytes;			/* of the jobs taken so far; only with ClaimOptions::most_bytes */
	bool full;			/* the claim takes no further job, because of most_bytes */
	int turns_returned; /* number of turns that groups have kept: requeue_rejected() */
	Lenders lenders;
	/*
	 * Open only from a visit or a step (load/groups.h) to the end of verify(): never during a wait.
	 */
	SegmentSet segments{AccessShareLock};
};

} // namespace pgq
