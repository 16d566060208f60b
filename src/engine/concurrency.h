/*
 * How many jobs of a queue are in work at a time (option concurrency).
 *
 * A lease that a claim takes has a slot from then on, until it is put aside, given back, lost or
 * ended; the queue counts them, whether it has a limit or not. It is never exceeded: a claim takes no
 * lease without a slot. The first slot that comes free is as good as a job filed: somebody is woken
 * (hold.h), and passes on what else there is (waiters.pml, LIMIT). A transaction that ends a lease
 * lends the slot to a claim of its own, or a worker that acknowledges and claims at once would find
 * none at concurrency 1; undone, that goes back to where it came from, never to the queue, since
 * somebody else would take it, and both would run.
 *
 * Under the queue's lock. Nothing here fails.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* A lease whose slot may be lent, if it has one, and has that serial yet. */
struct Lender
{
	Lease *lease;
	uint64 serial;
};

/* How many more may run. */
inline int
room_to_run(const Queue *queue)
{
	int limit = queue->options.concurrency;
	return limit == 0 ? INT_MAX : Max(limit - queue->running, 0);
}

/* Since the limit was lowered: until some have ended nobody may take the place of another one. */
inline bool
runs_too_many(const Queue *queue)
{
	return queue->options.concurrency != 0 && queue->running > queue->options.concurrency;
}

inline void
occupy_slot(Lease *lease)
{
	lease->slot = true;
	lease->queue->running++;
	lease->queue->claiming += lease->state == LeaseState::kClaiming;
}

/* Of a lease that this transaction ends, to one that it has just taken. */
inline void
lend_slot(Lease *lender, Lease *lease)
{
	Assert(lender->slot && !lease->slot && lender->queue == lease->queue);
	lender->slot = false;
	lender->borrower = lease;
	lease->slot = true;
	lease->queue->claiming++;
	lease->lender = lender;
}

/*
 * The lease runs no more. Those of one transaction need not go in the order of their loans: who has lent
 * the slot on leaves the chain, and the last one gives it back to whoever is left before it.
 */
inline void
free_slot(Lease *lease)
{
	Lease *lender = lease->lender;
	Lease *borrower = lease->borrower;
	if (lease->slot && lease->state == LeaseState::kClaiming)
		lease->queue->claiming--;
	if (borrower != nullptr)
		borrower->lender = lender;
	if (lender != nullptr)
		lender->borrower = borrower;
	if (lease->slot && lender != nullptr)
		lender->slot = true;
	else if (lease->slot)
		lease->queue->running--;
	lease->slot = false;
	lease->lender = lease->borrower = nullptr;
}

} // namespace pgq
