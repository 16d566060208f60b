#include "engine/lease_expiry.h"

namespace pgq {

int
unpark_due(Queue *queue, int64 monotonic)
{
	int unparked = 0;
	Lease *lease;
	for (; unparked < kHoldMax && (lease = first_to_unpark(queue, monotonic)) != nullptr;
		 unparked++)
		give_back(lease);
	if (queue->recheck_at != 0 && queue->recheck_at <= monotonic)
	{
		queue->recheck_at = 0;
		queue->schedule.pull_back(queue->recheck);
		unparked++;
	}
	return unparked;
}

int
expire_due(Queue *queue, int64 monotonic)
{
	int ready = 0;
	Lease *lease;
	for (int i = 0; i < kHoldMax && (lease = first_due(queue, monotonic)) != nullptr; i++)
		if (lease->state != LeaseState::kClaimed)
		{
			stop_waiting(lease);
			dlist_push_tail(&queue->lost, &lease->in_line);
		}
		else if (lease->unbegun)
		{
			queue->counters.uncounted++;
			ready += give_back(lease);
		}
		else
			lose_lease(lease, Loss::kExpired, monotonic);
	return ready;
}

} // namespace pgq
