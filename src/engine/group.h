/*
 * Which leases count in the groups of a queue (options group_concurrency, fifo, fair, group_rate_limit).
 * core/groups.h says what becomes of a job whose group has no room.
 *
 * A lease counts in the group of its job from the hold in which a claim takes it until the job is
 * set aside, or the lease is given back, lost or ended. While a lease counts, the group has an entry. A
 * queue without rules for groups counts no leases. When a queue gets rules, claims take no job until
 * the leases of the jobs in work have been counted.
 *
 * All functions are called under the queue's lock. None can fail.
 */
#pragma once

#include "engine/group_pool.h"
#include "engine/rate_limit.h"

namespace pgq {

/*
 * Neither a restore nor logical replication checks that options fit together (check_together()), so
 * options may combine fair with group_rate_limit. Then the limit holds, and groups take no turns.
 */
inline GroupRules
group_rules_of(const QueueOptions &options)
{
	bool rated = options.group_rate_limit > 0;
	return {.limit = options.group_concurrency,
			.fifo = options.fifo,
			.fair = options.fair && !rated,
			.rate = options.group_rate_limit,
			.period = rated ? options.rate_period : 0};
}

inline const GroupRules &
rules_of(const Queue *queue)
{
	return queue->schedule.groups().rules();
}

inline bool
has_group_rules(const Queue *queue)
{
	return rules_of(queue).any();
}

/* Count a lease in the group of its job. For an older lease (count_running()), the group may lack room. */
inline void
count_in_group(Lease *lease)
{
	if (lease->hint.group == 0 || !rules_of(lease->queue).count())
		return;
	bring_group(lease->queue, lease->hint.group);
	lease->queue->schedule.took(lease->hint, lease->state == LeaseState::kClaiming);
	lease->group = lease->hint.group;
}

/* Count a lease that is older than the rules, or was restored after a start of the server. */
void count_running(Lease *lease);

/* Note that the job of the lease is handed out. */
inline void
note_group_start(Lease *lease)
{
	bool counted = lease->group != 0;
	if (counted || (lease->hint.group != 0 && rules_of(lease->queue).count()))
		lease->queue->schedule.groups().note_start(counted ? lease->group : lease->hint.group,
												   counted);
}

/* Stop counting a lease. Called before the state of the lease changes. */
inline void
leave_group(Lease *lease)
{
	if (lease->group == 0)
		return;
	reserve_memory(lease->queue);
	lease->queue->schedule.release_group(lease->group, lease->state == LeaseState::kClaiming);
	return_groups(lease->queue);
	lease->group = 0;
}

/* Change the rules. Called before the caller stores the options. */
inline void
change_group_rules(Queue *queue, const QueueOptions &options)
{
	GroupRules rules = group_rules_of(options);
	if (rules == rules_of(queue))
		return;
	queue->schedule.change_group_rules(rules, monotonic_now());
	queue->uncounted = rules.count();
	queue->counting++;
}

/*
 * Initialize the rates of the groups of a queue that gets a slot. Call this after the rules were set.
 * Earlier starts of the groups are unknown, as are those of the whole queue (rate_limit.h).
 */
inline void
init_group_rates(Queue *queue)
{
	GroupRates &rates = queue->schedule.groups().rates();
	rates.pass(monotonic_now());
	if (rates.on())
		rates.assume_most(queue->options.rate_period, unknown_starts_end());
	init_memory(queue);
}

/* Note that the queue was just created, so that none of its jobs has started. */
inline void
no_group_starts(Queue *queue)
{
	GroupRates &rates = queue->schedule.groups().rates();
	if (rates.on())
		rates.assume_none(queue->options.rate_period, monotonic_now());
}

/* Count at most kHoldMax leases that are older than the rules. Return false if some are left. */
bool count_some(Queue *queue);

} // namespace pgq
