#include "engine/lease_copy.h"

#include "engine/concurrency.h"
#include "engine/group.h"
#include "engine/hold.h"

namespace pgq {

static bool
is_to_be_saved(const Lease *lease)
{
	int prepared_pins = TransactionIdIsValid(lease->prepared.claim_xid) +
						(TransactionIdIsValid(lease->prepared.use_xid) ? lease->uses : 0);
	return lease->state == LeaseState::kLost ||
		   (lease->state == LeaseState::kClaimed && lease->pins == prepared_pins);
}

/*
 * Return `will` in the form in which it is saved. A prepared transaction that has deleted the row
 * by SQL is saved as a transaction that will end the lease.
 */
static Prepared
prepared_to_save(Prepared will)
{
	bool ends = TransactionIdIsValid(will.row_xid) && will.gone.at_all > 0;
	if (!ends || (TransactionIdIsValid(will.use_xid) && will.use_xid != will.row_xid))
		return will;
	return {.claim_xid = will.claim_xid,
			.use_xid = will.row_xid,
			.ended = true,
			.how = LeaseEnd::kUncounted};
}

static SavedLease
copy_of(const Queue &queue, const Lease *lease, int64 monotonic)
{
	SavedLease copy;
	copy.queue_id = queue.queue_id;
	copy.token = token_of(lease);
	copy.hint = lease->hint;
	copy.lost = lease->state == LeaseState::kLost || lease->doomed;
	copy.loss = lease->loss;
	copy.attempt = lease->attempt;
	copy.remaining = Max(0, lease->deadline - monotonic);
	copy.lease_time = lease->lease_time;
	copy.claimed_at = lease->claimed_at;
	copy.prepared = prepared_to_save(lease->prepared);
	memcpy(copy.worker, lease->worker, sizeof(copy.worker));
	return copy;
}

int
copy_leases_to_save(const QueueRef &ref, SavedLease *copies, int most, int64 monotonic)
{
	int n = 0;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const dlist_node *head = &queue.leases.head;
		for (dlist_node *node = head->next; node != head && n < most; node = node->next)
		{
			const Lease *lease = container_of<Lease>(node, offsetof(Lease, in_queue));
			if (is_to_be_saved(lease))
				copies[n++] = copy_of(queue, lease, monotonic);
		}
	});
	return n;
}

bool
has_leases(const QueueRef &ref)
{
	bool any = false;
	(void) look_at_queue(
		ref, [&](const Queue &queue) { any = queue.leases.head.next != &queue.leases.head; });
	return any;
}

/*
 * Note in a restored lease which prepared transaction has claimed the lease and which one uses it.
 * Other transactions wait for these two.
 */
static void
give_to_prepared(Lease *lease, const Prepared &prepared)
{
	if (TransactionIdIsValid(prepared.use_xid))
		use_lease(lease, virtual_xid_of_prepared(prepared.use_xid), prepared.ended);
	/*
	 * take_lease() has pinned the lease. If there is a prepared claim, this pin now belongs to it.
	 */
	if (TransactionIdIsValid(prepared.claim_xid))
		lease->claimer = virtual_xid_of_prepared(prepared.claim_xid);
	else
		unpin_lease(lease);
	lease->revoked = prepared.cancels();
	set_prepared(lease, prepared);
}

/*
 * Fill in a lease that this process has just taken. The lease becomes CLAIMED, with the saved
 * values.
 */
static void
fill_lease(Lease *lease, const SavedLease &saved, int64 monotonic, TimestampTz now)
{
	pg_atomic_write_u64(&lease->token, static_cast<uint64>(saved.token));
	SetInvalidVirtualTransactionId(lease->claimer);
	lease->pid = 0;
	lease->attempt = saved.attempt;
	lease->claimed_at = saved.claimed_at;
	lease->times.enqueued_at = saved.enqueued_at;
	/*
	 * Monotonic times are not valid after a restart, so compute handed_out_at from the wall clock.
	 */
	lease->handed_out_at = monotonic - Max(0, now - saved.claimed_at);
	strlcpy(lease->worker, saved.worker, sizeof(lease->worker));
	lease->lease_time = saved.lease_time > 0 ? saved.lease_time : lease->queue->options.lease_time;
	lease->deadline = monotonic + saved.remaining;
	lease->expires_at = now + saved.remaining;
	begin_claimed(lease);
	occupy_slot(lease);
	count_running(lease);
	lease->queue->counters.handed_out++;
}

bool
restore_lease(const QueueRef &ref, const SavedLease &saved, int64 monotonic, TimestampTz now)
{
	bool restored = false;
	(void) change_queue(ref, [&](QueueHold &hold) {
		Lease *lease;
		restored = take_lease(hold.queue(), saved.hint, &lease) == TakeResult::kTaken;
		if (!restored)
			return;
		fill_lease(lease, saved, monotonic, now);
		give_to_prepared(lease, saved.prepared);
		if (saved.lost)
			hold.doom(lease, saved.loss, monotonic);
	});
	return restored;
}

} // namespace pgq
