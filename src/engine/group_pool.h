/*
 * Entries of groups, for all queues. There is one for each lease of the server, so a group that runs never lacks one: it
 * is taken before the lease counts, and given back before the lease is.
 *
 * There are as many more for groups that are only remembered for their rates. Each queue may remember a fixed number of
 * groups; half of all are common, and given to the first that asks. A queue that may remember no more merges groups
 * (core/group_rates.h).
 *
 * All functions are called under the queue's lock, and cannot fail. The pool has a spinlock.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

Size group_pool_size();
void place_group_pool(void *memory);

/* Before a lease counts: the queue has an entry for its group. */
void bring_group(Queue *queue, int64 group);

/* Before a group may have to be remembered: the queue may remember one more, if there is room. */
void reserve_memory(Queue *queue);

/* Of a queue that gets a slot. */
void init_memory(Queue *queue);

/* Give back what the queue does not need. */
void return_groups(Queue *queue);

/* Forget some groups of a slot that dies, whose leases have ended. Return false if there are none left. */
bool forget_some_groups(Queue *queue);

/* Number of entries. */
int max_groups();

} // namespace pgq
