#include "engine/copies.h"

#include "engine/hold.h"
#include "pg/virtual_xid.h"

namespace pgq {

static void
copy_lease(LeaseCopy *copy, const Lease *lease)
{
	copy->job_id = lease->key.job_id;
	copy->token = token_of(lease);
	copy->queue_id = lease->queue->queue_id;
	copy->state = lease->doomed ? LeaseState::kLost : lease->state;
	copy->attempt = lease->attempt;
	copy->pid = lease->pid;
	copy->claimed_at = lease->claimed_at;
	copy->expires_at = lease->expires_at;
	copy->pinned = lease->pins > 0;
	copy->session_bound = lease->session_bound;
	copy->ends_here = lease->ending && is_me(lease->user);
	copy->moving = is_moving(lease);
	copy->changing = lease->state == LeaseState::kClaiming && lease->uses > 0;
	if (lease->state == LeaseState::kHeld)
	{
		/*
		 * Use a structured binding, since the names of the members depend on the version of the
		 * server.
		 */
		const auto &[process, transaction] = lease->holder[0];
		snprintf(copy->worker, sizeof(copy->worker), "%d/%u", process, transaction);
	}
	else
		memcpy(copy->worker, lease->worker, sizeof(copy->worker));
}

int
copy_leases(const QueueRef &ref, LeaseCopy *copies, int most)
{
	int n = 0;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const dlist_node *head = &queue.leases.head;
		for (dlist_node *node = head->next; node != head && n < most; node = node->next)
			copy_lease(&copies[n++], container_of<Lease>(node, offsetof(Lease, in_queue)));
	});
	return n;
}

bool
copy_lease_of(const Database *db, int64 job_id, LeaseCopy *copy)
{
	return look_at_lease(db, job_id, [&](const Lease &lease) { copy_lease(copy, &lease); });
}

static void
note_late(const Lease &lease, int64 monotonic, LateLeases *late)
{
	int64 by = monotonic - lease.deadline;
	bool held = lease.state == LeaseState::kClaimed || lease.state == LeaseState::kClaiming;
	bool lost = lease.state == LeaseState::kLost || lease.state == LeaseState::kReaping;
	if (by < 0 || lease.deadline == 0)
		return;
	if (lost || (lease.state == LeaseState::kClaimed && lease.pins == 0))
	{
		late->lost++;
		late->lost_by = Max(late->lost_by, by);
	}
	else if (held && lease.pins > 0)
	{
		late->open++;
		if (late->open == 1 || by > late->open_by)
			late->open_pid = lease.pid;
		late->open_by = Max(late->open_by, by);
	}
}

void
copy_late_leases(const QueueRef &ref, int64 monotonic, LateLeases *late)
{
	*late = {};
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const dlist_node *head = &queue.leases.head;
		for (dlist_node *node = head->next; node != head; node = node->next)
			note_late(*container_of<Lease>(node, offsetof(Lease, in_queue)), monotonic, late);
	});
}

Schedule::Ahead
copy_ahead_of(const QueueRef &ref, const Hint &hint, uint32 most)
{
	Schedule::Ahead ahead = {0, true};
	(void) look_at_queue(ref,
						 [&](const Queue &queue) { ahead = queue.schedule.ahead_of(hint, most); });
	return ahead;
}

bool
is_group_full(const QueueRef &ref, int64 group)
{
	bool full = false;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const Groups &groups = queue.schedule.groups();
		const Group *entry = group != 0 ? groups.find(group) : nullptr;
		full = entry != nullptr && entry->running >= groups.rules().most();
	});
	return full;
}

bool
copy_queue(const QueueRef &ref, QueueCopy *copy)
{
	TimestampTz now = wall_now();
	return look_at_queue(ref, [&](const Queue &queue) {
		const JobCount &count = queue.count;
		copy->counted = count.state == JobCount::kKnown;
		copy->timed = !wants_count(count, now);
		copy->queue_id = queue.queue_id;
		memcpy(copy->name, queue.name, sizeof(copy->name));
		copy->leased = queue.leased - queue.unheld;
		copy->live = count.live;
		copy->dead = count.dead;
		copy->blocked = count.blocked;
		copy->scheduled = copy->timed ? waiting_of(count, now) - leased_ahead(queue, now) : 0;
		copy->waiting = queue.waiting;
		copy->running = queue.running;
		copy->next_start = queue.next_start;
		copy->depth = copy->counted && queue.options.max_depth > 0 ? depth_of(count) : -1;
		copy->last_claim_at = queue.last_claim_at;
		copy->loaded_at = queue.loaded_at;
	});
}

bool
copy_stats(const QueueRef &ref, StatsCopy *copy)
{
	return look_at_queue(ref, [&](const Queue &queue) {
		copy->queue_id = queue.queue_id;
		copy->loaded_at = queue.loaded_at;
		copy->counters = queue.counters;
		for (int i = 0; i < kCalls; i++)
			copy->calls[i] = value_of(queue.calls[i]);
		copy->last_skip_at = static_cast<TimestampTz>(value_of(queue.last_skip_at));
		copy->latency = queue.latency;
	});
}

int
copy_groups(const QueueRef &ref, int64 after, GroupCopy *copies, int most, int64 *others)
{
	int n = 0;
	*others = INT64_MAX;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const Groups &groups = queue.schedule.groups();
		const GroupRates &rates = groups.rates();
		if (!rates.on())
			return;
		*others = rates.others_next_start();
		for (const Group *next = groups.next_after(after); next != nullptr && n < most;
			 next = groups.next_after(next->id))
		{
			Group group = *next;
			copies[n++] = {group.id,
						   rates.room(&group) == 0 ? rates.next_start(&group) : INT64_MAX};
		}
	});
	return n;
}

bool
copy_name(const QueueRef &ref, char (&name)[kQueueNameMax + 1])
{
	return look_at_queue(ref, [&](const Queue &queue) { memcpy(name, queue.name, sizeof(name)); });
}

bool
copy_duties(const QueueRef &ref, DutyStatus (&notes)[kQueueDutyStatuses])
{
	return look_at_queue(ref,
						 [&](const Queue &queue) { memcpy(notes, queue.duties, sizeof(notes)); });
}

void
copy_duties(const Database *db, DutyStatus (&notes)[kDutyStatuses])
{
	with_lwlock(shared->registry_lock, LW_SHARED,
				[&] { memcpy(notes, db->duties, sizeof(notes)); });
}

/* Visits all leases in one hold, which is acceptable because the function is rarely called. */
int
users_of(const QueueRef &ref, VirtualTransactionId *users, int most)
{
	int n = 0;
	(void) look_at_queue(ref, [&](const Queue &queue) {
		const dlist_node *head = &queue.leases.head;
		for (dlist_node *node = head->next; node != head; node = node->next)
		{
			VirtualTransactionId user = container_of<Lease>(node, offsetof(Lease, in_queue))->user;
			bool known = !VirtualTransactionIdIsValid(user) || is_me(user);
			for (int i = 0; i < n && !known; i++)
				known = VirtualTransactionIdEquals(user, users[i]);
			if (!known && n < most)
				users[n++] = user;
		}
	});
	return n;
}

void
copy_segment_error(const Database *db, int number, char (&error)[sizeof(SegmentStatus::error)])
{
	with_lwlock(shared->registry_lock, LW_SHARED,
				[&] { memcpy(error, db->segments[number].error, sizeof(error)); });
}

} // namespace pgq
