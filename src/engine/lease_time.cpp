#include "engine/lease_time.h"

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

static void
set_deadline(Lease *lease, int64 deadline, TimestampTz expires_at)
{
	bool listed = can_expire(lease);
	if (listed)
		stop_expiring(lease);
	lease->deadline = deadline;
	lease->expires_at = expires_at;
	if (listed)
		start_expiring(lease);
}

bool
extend_deadline(Lease *lease, int64 lease_time, int64 monotonic, TimestampTz now)
{
	int64 max_runtime = lease->queue->options.max_runtime;
	int64 left = max_runtime > 0 ? lease->handed_out_at + max_runtime - monotonic : INT64_MAX;
	if (left <= 0)
		return false;
	lease->lease_time = lease_time;
	/*
	 * Compute expires_at again even if the deadline stays, since the wall clock may have been set.
	 */
	int64 deadline = Max(lease->deadline, monotonic + Min(lease_time, left));
	set_deadline(lease, deadline, now + (deadline - monotonic));
	return true;
}

Lease *
first_due(const Queue *queue, int64 monotonic)
{
	const TreeNode *first = Tree::begin_node(&queue->expiry);
	if (first == &queue->expiry)
		return nullptr;
	Lease *lease = lease_of_expiry(const_cast<TreeNode *>(first));
	return lease->deadline <= monotonic ? lease : nullptr;
}

static Lease *
first_in_line(const dlist_head &line)
{
	auto *head = const_cast<dlist_head *>(&line);
	return dlist_is_empty(head) ? nullptr : lease_in_line(dlist_head_node(head));
}

Lease *
first_to_unpark(const Queue *queue, int64 monotonic)
{
	Lease *lease = first_in_line(queue->parked);
	return lease != nullptr && lease->deadline <= monotonic ? lease : nullptr;
}

Lease *
first_lost(const Queue *queue)
{
	return first_in_line(queue->lost);
}

int64
next_lease_event(const Queue *queue)
{
	int64 next = INT64_MAX;
	if (const Lease *lease = first_due(queue, INT64_MAX))
		next = lease->deadline;
	if (const Lease *lease = first_to_unpark(queue, INT64_MAX))
		next = Min(next, lease->deadline);
	if (queue->recheck_at != 0)
		next = Min(next, queue->recheck_at);
	return next;
}

} // namespace pgq
