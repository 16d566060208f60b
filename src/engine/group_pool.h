/*
 * The pool of the entries of groups (core/group.h), for all queues. The pool has an entry for each
 * lease of the server. A queue takes an entry before a lease counts, and returns the entry before the
 * lease is given back, so a group with jobs in work never lacks an entry.
 *
 * The pool has max_leases further entries, for groups without a job in work whose starts still count
 * (the remembered groups). One half of these is divided among the queues: each queue may remember a
 * fixed number of groups. The other half is common: a queue that remembers more groups takes further
 * entries from the common half. If none is left, the queue merges groups (core/group_rates.h).
 *
 * Entries that were never used come last, and so the pool takes no page of memory that it does not need: a server whose queues have no
 * limits of groups uses only the first page.
 *
 * All functions with a parameter of type Queue are called under the queue's lock. None can fail. A
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
 * If the queue remembers as many groups as it may, let it take one more entry from the common half, if
 * one is left. Called before a group may have to be remembered.
 */
void reserve_memory(Queue *queue);

/* Let a queue that gets a slot remember its fixed number of groups. */
void init_memory(Queue *queue);

/* Return spare entries to the pool, and give entries that the queue does not need back to the common half. */
void return_groups(Queue *queue);

/*
 * Remove at most kHoldMax entries of a queue whose slot is being freed and whose leases have ended.
 * Return false if no entries are left.
 */
bool forget_some_groups(Queue *queue);

/* Return the number of entries of the pool. */
int max_groups();

} // namespace pgq
