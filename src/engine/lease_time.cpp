#include "engine/lease_time.h"

#include "engine/lease.h"

namespace pgq {

static Lease *
lease_of_expiry(TreeNode *node)
{
	return container_of<Lease>(node, offsetof(Lease, expiry));
}

static Lease *
lease_in_line(dlist_node *node)
{
	return container_of<Lease>(node, offsetof(Lease, in_line));
}

void
start_expiring(Lease *lease)
{
	Tree::insert_equal_upper_bound(
		&lease->queue->expiry, &lease->expiry, [](TreeNode *a, TreeNode *b) {
			return lease_of_expiry(a)->deadline < lease_of_expiry(b)->deadline;
		});
}

void
stop_expiring(Lease *lease)
{
	Tree::erase(&lease->queue->expiry, &lease->expiry);
}

void
stop_waiting(Lease *lease)
{
	if (!lease->put_off)
	{
		dlist_delete(&lease->in_line);
		return;
	}
	stop_expiring(lease);
	lease->queue->failing -= lease->failures > 0;
	lease->put_off = false;
}

bool
set_deadline(Lease *lease, int64 lease_time, int64 monotonic, TimestampTz now)
{
	int64 max_runtime = lease->queue->options.max_runtime;
	int64 left = max_runtime > 0 ? lease->handed_out_at + max_runtime - monotonic : INT64_MAX;
	if (left <= 0)
		return false;
	lease_time = Min(lease_time, left);
	bool listed = can_expire(lease);
	if (listed)
		stop_expiring(lease);
	lease->deadline = monotonic + lease_time;
	lease->expires_at = now + lease_time;
	if (listed)
		start_expiring(lease);
	return true;
}

int
unpark_due(Queue *queue, int64 monotonic)
{
	int unparked = 0;
	while (unparked < kHoldMax && !dlist_is_empty(&queue->parked))
	{
		Lease *lease = lease_in_line(dlist_head_node(&queue->parked));
		if (lease->deadline > monotonic)
			break;
		give_back(lease);
		unparked++;
	}
	if (queue->recheck_at != 0 && queue->recheck_at <= monotonic)
	{
		queue->recheck_at = 0;
		queue->schedule.pull_back(queue->recheck_key, queue->recheck_timer_key);
		unparked++;
	}
	return unparked;
}

Lease *
first_lost(const Queue *queue)
{
	auto *lost = const_cast<dlist_head *>(&queue->lost);
	return dlist_is_empty(lost) ? nullptr : lease_in_line(dlist_head_node(lost));
}

int
expire_due(Queue *queue, int64 monotonic)
{
	int expired = 0;
	while (expired < kHoldMax)
	{
		TreeNode *first = Tree::begin_node(&queue->expiry);
		if (first == &queue->expiry || lease_of_expiry(first)->deadline > monotonic)
			break;
		Lease *lease = lease_of_expiry(first);
		if (lease->state == LeaseState::kClaimed)
			lose_lease(lease, Loss::kExpired, monotonic);
		else
		{
			stop_waiting(lease);
			dlist_push_tail(&queue->lost, &lease->in_line);
		}
		expired++;
	}
	return expired;
}

int64
next_lease_event(const Queue *queue)
{
	int64 next = INT64_MAX;
	const TreeNode *first = Tree::begin_node(&queue->expiry);
	if (first != &queue->expiry)
		next = lease_of_expiry(const_cast<TreeNode *>(first))->deadline;
	auto *parked = const_cast<dlist_head *>(&queue->parked);
	if (!dlist_is_empty(parked))
		next = Min(next, lease_in_line(dlist_head_node(parked))->deadline);
	if (queue->recheck_at != 0)
		next = Min(next, queue->recheck_at);
	return next;
}

} // namespace pgq
