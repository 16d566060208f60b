#include "engine/group.h"

namespace pgq {

/* Those that have not been counted are in front. */
static Lease *
next_uncounted(Queue *queue)
{
	if (!queue->uncounted || dlist_is_empty(&queue->leases))
		return nullptr;
	Lease *lease = container_of<Lease>(queue->leases.head.next, offsetof(Lease, in_queue));
	return lease->counted == queue->counting ? nullptr : lease;
}

bool
count_running(Lease *lease)
{
	Queue *queue = lease->queue;
	/* A lease that has lent its slot gets it back if the transaction that ends the job aborts. */
	bool runs = lease->slot || lease->borrower != nullptr;
	bool counts = lease->group == 0 && runs && lease->hint.group != 0 && rules_of(queue).count();
	bool claiming = lease->state == LeaseState::kClaiming;
	bool counted = !counts || queue->schedule.count_running(lease->hint, claiming);
	if (counts && counted)
		lease->group = lease->hint.group;
	lease->counted = counted ? queue->counting : queue->counting - 1;
	queue->uncounted |= !counted;
	dlist_delete(&lease->in_queue);
	counted ? dlist_push_tail(&queue->leases, &lease->in_queue)
			: dlist_push_head(&queue->leases, &lease->in_queue);
	return counted;
}

Counted
count_some(Queue *queue)
{
	Lease *lease = next_uncounted(queue);
	for (int i = 0; i < kHoldMax && lease != nullptr; i++)
	{
		if (!count_running(lease))
			return Counted::kNoEntry;
		lease = next_uncounted(queue);
	}
	queue->uncounted = lease != nullptr;
	return queue->uncounted ? Counted::kSome : Counted::kAll;
}

} // namespace pgq
