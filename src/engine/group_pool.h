/*
 * The pool of the entries of groups (core/group.h), for all queues. The pool has an entry for each
 * lease of the server. A queue takes an entry before a lease counts, and returns the entry before the
 * lease is given back, so a group with jobs in work never lacks an entry.
 *
 * The pool has max_leases further entries, for groups without a job in work whose starts still count
 * (the remembered groups). Each queue may remember a fixed number of groups. These numbers take half
 * of the further entries. The other half is common: a queue that needs more takes from it. If nothing
 * is left, the queue merges groups (core/group_rates.h).
 *
 * All functions are called under the queue's lock, except those without a queue. None can fail. A
 * spinlock protects the list of unused entries.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

Size group_pool_size();
void place_group_pool(void *memory);

/* Take an entry from the pool, unless the group has one or the queue has a spare one. Called before a lease of the group counts. */
void bring_group(Queue *queue, int64 group);

/*
 * Let the queue remember one more group, if it remembers as many as it may and the common half has an
 * entry left. Called before a group may have to be remembered.
 */
void reserve_memory(Queue *queue);

/* Let a queue that gets a slot remember its fixed number of groups. */
void init_memory(Queue *queue);

/* Return spare entries to the pool, and to the common half what the queue took and does not need. */
void return_groups(Queue *queue);

/*
 * Remove at most kHoldMax entries of a queue whose slot is being freed and whose leases have ended.
 * Return false if no entries are left.
 */
bool forget_some_groups(Queue *queue);

/* Return the number of entries of the pool. */
int max_groups();

} // namespace pgq
