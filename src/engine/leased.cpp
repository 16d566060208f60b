#include "engine/leased.h"

#include "engine/queue.h"

namespace pgq {

void
note_wait(Lease *lease, const Hint &hint)
{
	Queue *queue = lease->queue;
	lease->waits_until = hint.delayed ? DueSeconds::second_of(hint.key.run_at) : PG_INT64_MIN;
	queue->latest_wait = Max(queue->latest_wait, lease->waits_until);
}

void
begin_claimed(Lease *lease)
{
	Queue *queue = lease->queue;
	lease->state = LeaseState::kClaimed;
	if (queue->leased++ == 0)
		queue->latest_wait = PG_INT64_MIN;
	queue->unheld += is_unheld(lease);
	note_wait(lease, lease->hint);
}

void
lack_row(Lease *lease, const RowsGone &gone)
{
	bool claimed = lease->state == LeaseState::kClaimed;
	lease->queue->unheld -= claimed && is_unheld(lease);
	lease->rows_gone.add(gone);
	lease->queue->unheld += claimed && is_unheld(lease);
}

void
set_lease_aside(Lease *lease, AsideQuota *kind)
{
	Assert(lease->aside == nullptr && !lease->of_reserve);
	lease->aside = kind;
	lease->aside_common = charge_aside(&lease->queue->database->share, kind);
}

int64
leased_ahead(const Queue &queue, TimestampTz now)
{
	int64 second = DueSeconds::second_of(now);
	int64 n = 0;
	if (queue.latest_wait <= second)
		return 0;
	const dlist_node *head = &queue.leases.head;
	for (dlist_node *node = head->next; node != head; node = node->next)
	{
		const auto *lease = container_of<Lease>(node, offsetof(Lease, in_queue));
		n += lease->state == LeaseState::kClaimed && !is_unheld(lease) &&
			 lease->waits_until > second;
	}
	return n;
}

void
note_wanted(Lease *lease, const Hint &hint)
{
	if (lease->state == LeaseState::kHeld && lease->wanted == 0 && hint.key.run_at <= wall_now())
		lease->wanted = monotonic_now();
}

} // namespace pgq
