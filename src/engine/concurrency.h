/*
 * Concurrency slots: how many jobs of a queue may be in work at a time (option concurrency).
 *
 * A lease has a slot from the claim that takes the lease until the lease is set aside, given back,
 * lost or ended. The queue counts its slots, even if it has no limit. The limit is never exceeded:
 * a claim takes no lease without a slot. If no slot was free, a waiter is woken when a slot becomes
 * free, as when a job is filed (hold.h). That waiter wakes the next waiter if more jobs may start
 * (model waiters.pml with LIMIT).
 *
 * A transaction that ends a lease lends the lease's slot to its own next claim. Otherwise a worker
 * that acknowledges and claims in one transaction would find no slot at concurrency 1. If the new
 * claim is undone, the slot goes back to its lender, not to the queue. From the queue another claim
 * could take the slot; after a rollback of the ack, both jobs would run.
 *
 * All functions are called under the queue's lock. None can fail.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* A lease that may lend its slot. Only valid if the lease still has this serial, and has a slot. */
struct Lender
{
	Lease *lease;
	uint64 serial;
};

/* Return how many more jobs may be in work. */
inline int
room_to_run(const Queue *queue)
{
	int limit = queue->options.concurrency;
	return limit == 0 ? INT_MAX : Max(limit - queue->running, 0);
}

/*
 * Return whether more jobs are in work than the limit allows, because the limit was lowered. Until
 * enough of these jobs have ended, no slot may be lent.
 */
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

/*
 * Move the slot from a lease that this transaction ends to a lease that the transaction has just
 * taken.
 */
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
 * Free the slot of a lease that is not in work any more. The leases of a chain of loans may end in
 * any order. A lease that has lent its slot just leaves the chain. The lease that has the slot
 * gives it back to the lender before it in the chain, or to the queue if the lease is the first of
 * the chain.
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
