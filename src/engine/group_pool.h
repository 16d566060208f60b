/*
 * Entries of groups. Each queue has a few of its own; the rest are common to all queues. What queues put aside leaves as
 * many of these as there can be leases to groups with jobs in work: when the others are used up, with what queues keep
 * spare, a queue with fair leaves rows for another sweep instead of putting their groups aside, and in other queues groups
 * that wait lose their entries. Groups that are known only for what has started of them have as many at most.
 *
 * A queue with rules for groups keeps some spare entries, and gives back what it has too many of at the end of each hold.
 * So whatever needs an entry, the callbacks at commit included, has it without another lock. If there is none all the
 * same, the queue gives up one that it can spare, or reads its rows again (core/ready_jobs.h).
 *
 * The queue's lock is held around each call; the pool's own is a spinlock.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/* Of each queue. */
inline constexpr int kOwnGroups = 8;

Size group_pool_size();
void place_group_pool(void *memory);

/* Before entries may be needed; and before groups of so many jobs may get some to run. */
void take_spare_groups(Queue *queue);
void take_spare_groups_to_run(Queue *queue, int n);

/* After some may have come free. */
void return_spare_groups(Queue *queue);

/* Of a slot that dies, whose leases have ended: some of its entries. False: there are no more. */
bool return_some_groups(Queue *queue);

/* So many that are nobody's own, and in all. */
int common_groups();
int64 max_groups();

} // namespace pgq
