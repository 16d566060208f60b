#include "engine/lease_copy.h"

namespace pgq {

static bool
is_to_be_saved(const Lease *lease)
{
	int prepared_pins = lease->prepared.claimed + lease->prepared.ended;
	return lease->state == LeaseState::kLost ||
		   (lease->state == LeaseState::kClaimed && lease->pins == prepared_pins);
}

int
copy_leases(const Queue *queue, SavedLease *copies, int most, int64 monotonic)
{
	int n = 0;
	const dlist_node *head = &queue->leases.head;
	for (dlist_node *node = head->next; node != head && n < most; node = node->next)
	{
		Lease *lease = container_of<Lease>(node, offsetof(Lease, in_queue));
		if (!is_to_be_saved(lease))
			continue;
		SavedLease &copy = copies[n++];
		copy.queue_id = queue->queue_id;
		copy.token = static_cast<int64>(pg_atomic_read_u64(&lease->token));
		copy.hint = lease->hint;
		copy.lost = lease->state == LeaseState::kLost;
		copy.loss = lease->loss;
		copy.attempt = lease->attempt;
		copy.remaining = Max(0, lease->deadline - monotonic);
		copy.claimed_at = lease->claimed_at;
		copy.prepared = lease->prepared;
		memcpy(copy.worker, lease->worker, sizeof(copy.worker));
	}
	return n;
}

/* Who wants the lease waits for that transaction, which has no session any more. */
static void
give_to_prepared(Lease *lease, const Prepared &prepared)
{
	VirtualTransactionId recovered = virtual_xid_of_prepared(prepared.xid);
	if (prepared.claimed)
		lease->claimer = recovered;
	if (prepared.ended)
		lease->ender = recovered;
	lease->pins = prepared.claimed + prepared.ended;
	prepare_lease(lease, prepared.xid);
	lease->prepared = prepared;
}

bool
restore_lease(Queue *queue, const SavedLease &saved, int64 monotonic, TimestampTz now)
{
	Lease *lease;
	if (take_lease(queue, saved.hint, &lease) != TakeResult::kTaken)
		return false;
	pg_atomic_write_u64(&lease->token, static_cast<uint64>(saved.token));
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->pid = 0;
	lease->attempt = saved.attempt;
	lease->claimed_at = saved.claimed_at;
	/* No monotonic clock goes through a restart. */
	lease->handed_out_at = monotonic - Max(0, now - saved.claimed_at);
	strlcpy(lease->worker, saved.worker, sizeof(lease->worker));
	lease->deadline = monotonic + saved.remaining;
	lease->expires_at = now + saved.remaining;
	lease->state = LeaseState::kClaimed;
	queue->leased++;
	queue->counters.handed_out++;
	if (saved.lost)
		lose_lease(lease, saved.loss, monotonic);
	else if (TransactionIdIsValid(saved.prepared.xid))
		give_to_prepared(lease, saved.prepared);
	else
		unpin_lease(lease);
	return true;
}

} // namespace pgq
