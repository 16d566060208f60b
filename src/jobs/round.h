/*
 * One round of a claim at one queue: pop hints and take their leases, under one hold of the
 * lock; look at their rows; settle what cannot be handed out. What stops a round, a refill
 * for example, is done before the next one (take.cpp).
 */
#pragma once

#include "engine/concurrency.h"
#include "jobs/claim.h"
#include "rows/job.h"
#include "rows/judge.h"

namespace pgq {

/* Hints popped in one round. */
inline constexpr int kRoundMax = 64;

/* A hint whose lease was taken, and then what the row says. */
struct Popped
{
	Lease *lease;
	uint64 serial;
	int64 token;
	Hint hint;
	Verdict verdict;
	bool ghost; /* there was no such row */
	JobRow row;
	bool grouped; /* its queue has rules for groups */
	/* In a queue with fifo: */
	int64 from;	 /* earlier jobs of its group have ended */
	bool behind; /* a later one has not, but ours comes after it */

	/* The row is what the hint said: the job can be handed out. */
	bool fits(const QueueRef &ref) const
	{
		return verdict == Verdict::kLive && !behind && row.queue_id() == ref.queue_id &&
			   row.key() == hint.key && row.delayed() == hint.delayed &&
			   (!grouped || row.group() == hint.group);
	}
};

/* How long a claim has found others at a refill, and no job. */
struct Patience
{
	int64 since; /* monotonic; 0: it has not had to wait */
	int idle;	 /* how often there was nobody to wait for */
};

/* Leases that this transaction ends, whose slots it may give to those that it takes. */
struct Lenders
{
	Lender *leases; /* at most kRoundMax */
	int n;
	bool asked; /* for them */
};

struct Round
{
	QueueRef ref;

	/* How it shall be. */
	int most; /* hints to pop */
	/* Only in the first one are parked jobs tried again, or many of them could keep us for ever. */
	bool first;
	/*
	 * We have just refilled the window. What has become due since can wait until we have taken
	 * from it, or a flood of timers could keep us reading for ever.
	 */
	bool refilled;

	/* What came of it. */
	Popped *popped;
	int n;
	QueueOptions options; /* of the queue, at that moment */
	uint32 options_set;	  /* the same */
	Shortage shortage;	  /* other than kNone: there is no next round */
	/* If the queue is empty: has jobs of it in hand that are due, or has just had them. */
	VirtualTransactionId mover;

	/* Of all rounds. */
	Patience patience;
	Lenders lenders;
};

enum class PopResult : uint8
{
	kPopped, /* or tried to: n may be 0 when all hints were of leased jobs */
	kRefill,
	kVisit,
	kStep,
	kWaitForRefill,
	kTokenMark, /* there are jobs, but tokens would go beyond the durable mark */
	kShort,
};

/* Pop up to `most` hints and take their leases, for which places were reserved. */
PopResult pop(Round *round);

/*
 * Look at the rows, and have the claim give those that can be handed out. Returns how many
 * cannot. What a row took of the scratch memory is freed as soon as the caller has its copy.
 */
int verify(Round *round, Claim *claim, MemoryContext scratch);

/*
 * Of what was popped last the jobs that cannot be handed out are set aside, filed back under the
 * row's values, or dropped. Cannot fail.
 */
void settle(Round *round);

} // namespace pgq
