#include "engine/group.h"

namespace pgq {

/*
 * Return a lease that was not counted since the rules changed; NULL: there is none. Such leases are at
 * the front of the list, since count_running() moves a lease to its end.
 */
static Lease *
next_uncounted(Queue *queue)
{
	if (!queue->uncounted || dlist_is_empty(&queue->leases))
		return nullptr;
	Lease *lease = container_of<Lease>(queue->leases.head.next, offsetof(Lease, in_queue));
	return lease->counted == queue->counting ? nullptr : lease;
}

void
count_running(Lease *lease)
{
	Queue *queue = lease->queue;
	/*
	 * A lease that has lent its slot counts too: it gets the slot back if the transaction that ends
	 * the job aborts.
	 */
	if (lease->group == 0 && (lease->slot || lease->borrower != nullptr))
		count_in_group(lease);
	lease->counted = queue->counting;
	dlist_delete(&lease->in_queue);
	dlist_push_tail(&queue->leases, &lease->in_queue);
}

bool
count_some(Queue *queue)
{
	Lease *lease = next_uncounted(queue);
	for (int i = 0; i < kHoldMax && lease != nullptr; i++)
	{
		count_running(lease);
		lease = next_uncounted(queue);
	}
	queue->uncounted = lease != nullptr;
	return !queue->uncounted;
}

} // namespace pgq
