/*
 * The count of a queue's jobs with which its depth begins (engine/depth.h).
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Count the queue's jobs, if nobody knows how many there are, or there may be fewer; whoever is just doing that is waited
 * for, where the deadlock detector sees it.
 *
 * What counts is as one snapshot has it that is taken after all segments are locked (one that is
 * truncated after its rows were moved would be missed otherwise), and without what this transaction
 * has done itself, which its own commit will add. Jobs of transactions that were prepared before
 * the start count at once, since nobody has taken room for them; when such a one ends there is a new
 * count (settle_watch).
 */
void count_depth(const QueueRef &ref);

/* The same number, for who wants to compare. */
int64 live_rows(const QueueRef &ref);

} // namespace pgq
