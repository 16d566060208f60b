/*
 * How many jobs of a group are in work at a time, in which order, and whether groups take turns (options
 * group_concurrency, fifo and fair): which leases count. core/groups.h says what becomes of the others.
 *
 * A lease that a claim takes counts from then on, until it is put aside, given back, lost or ended, as its slot does. In
 * queues without rules for groups nothing is counted: when they get rules, claims wait until what runs has been counted.
 *
 * Under the queue's lock. Nothing here fails.
 */
#pragma once

#include "engine/group_pool.h"

namespace pgq {

inline GroupRules
group_rules_of(const QueueOptions &options)
{
	return {.limit = options.group_concurrency, .fifo = options.fifo, .fair = options.fair};
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
	lease->queue->schedule.took(lease->hint);
	if (rules_of(lease->queue).count())
		lease->group = lease->hint.group;
}

/* Of a lease that has come otherwise. If there is no entry left it is not counted: late, not never, since it ends. */
inline void
count_running(Lease *lease)
{
	Queue *queue = lease->queue;
	if (lease->group == 0 && lease->slot && lease->hint.group != 0 && rules_of(queue).count() &&
		queue->schedule.count_running(lease->hint))
		lease->group = lease->hint.group;
}

inline void
leave_group(Lease *lease)
{
	if (lease->group != 0)
		lease->queue->schedule.release_group(lease->group);
	lease->group = 0;
}

/* A lease of a job of the group has ended, whether it counted or not. moved: its row was, and so is filed by that. */
inline void
note_group_end(Queue *queue, const Hint &hint, bool moved)
{
	if (hint.group == 0 || !rules_of(queue).count())
		return;
	if (moved)
		queue->schedule.left(hint);
	else
		queue->schedule.look_at_group(hint.group);
}

/* Before the options become these. */
inline void
change_group_rules(Queue *queue, const QueueOptions &options)
{
	GroupRules rules = group_rules_of(options);
	if (rules == rules_of(queue))
		return;
	queue->schedule.change_group_rules(rules);
	queue->uncounted = rules.count();
	queue->counting++;
}

/* Those that ran when the rules came, some of them. False: there are more. */
bool count_some(Queue *queue);

} // namespace pgq
