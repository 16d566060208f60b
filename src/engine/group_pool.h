/*
 * Entries of groups. Each queue has a few of its own, so that none can keep another one from its groups; the rest are for
 * all queues together. A queue with rules for groups keeps some spare ones, and what it has too many of goes back. So
 * whatever needs one, the callbacks at commit included, has it without another lock; if there is none all the same, the
 * queue gives up one that it can spare, or reads its rows again (core/ready_jobs.h). Groups that are known only for what
has started of them have half of the common entries at most, so that no queue takes those of others for a long time.
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

/* Before entries may be needed. */
void take_spare_groups(Queue *queue);

/* After some may have come free. */
void return_spare_groups(Queue *queue);

/* Of a slot that dies, whose leases have ended: some of its entries. False: there are no more. */
bool return_some_groups(Queue *queue);

/* So many that are nobody's own, and in all. */
int common_groups();
int64 max_groups();

} // namespace pgq
