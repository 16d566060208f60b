/*
 * How many jobs of a group are in work at a time, in which order, whether groups take turns, and how many start in a
 * period (options group_concurrency, fifo, fair, group_rate_limit): which leases count. core/groups.h says what becomes of
 * the others.
 *
 * A lease that a claim takes counts from then on, until it is put aside, given back, lost or ended, as its slot does. In
 * queues without rules for groups nothing is counted: when they get rules, claims wait until what runs has been counted.
 *
 * Under the queue's lock. Nothing here fails.
 */
#pragma once

#include "engine/group_pool.h"
#include "engine/rate_limit.h"

namespace pgq {

inline GroupRules
group_rules_of(const QueueOptions &options)
{
	bool rated = options.group_rate_limit > 0;
	return {.limit = options.group_concurrency,
			.fifo = options.fifo,
			.fair = options.fair,
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

/* Its hint was admitted, and its lease taken. */
inline void
count_in_group(Lease *lease)
{
	if (lease->hint.group == 0 || !rules_of(lease->queue).count())
		return;
	bring_group(lease->queue, lease->hint.group);
	lease->queue->schedule.took(lease->hint, lease->state == LeaseState::kClaiming);
	lease->group = lease->hint.group;
}

/* Count a lease that no claim has just taken. */
void count_running(Lease *lease);

/* It is handed out. */
inline void
note_group_start(Lease *lease)
{
	bool counted = lease->group != 0;
	if (counted || (lease->hint.group != 0 && rules_of(lease->queue).count()))
		lease->queue->schedule.groups().note_start(counted ? lease->group : lease->hint.group,
												   counted);
}

/* It does not run any more; its state is still what it was. */
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

/* Before the options become these. */
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

/* Of a queue that comes into a slot, with its rules. What is not known is so as of the queue itself: rate_limit.h. */
inline void
init_group_rates(Queue *queue)
{
	GroupRates &rates = queue->schedule.groups().rates();
	rates.pass(monotonic_now());
	if (rates.on())
		rates.assume_most(queue->options.rate_period, unknown_starts_end());
	init_memory(queue);
}

/* Of a queue that has just been created. */
inline void
no_group_starts(Queue *queue)
{
	GroupRates &rates = queue->schedule.groups().rates();
	if (rates.on())
		rates.assume_none(queue->options.rate_period, monotonic_now());
}

/* Count leases that ran when the rules came, as many as a hold may. Return false if some are left. */
bool count_some(Queue *queue);

} // namespace pgq
