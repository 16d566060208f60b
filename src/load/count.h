/*
 * The counts of a queue's rows with which memory begins to know how many there are (engine/count.h).
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Count the queue's jobs and dead letters, if nobody knows how many there are; whoever is just doing that is waited
 * for, where the deadlock detector sees it.
 *
 * What counts is as one snapshot has it that is taken after all segments are locked (one that is
 * truncated after its rows were moved would be missed otherwise), and without what this transaction
 * has done itself, which its own commit will add. Jobs of transactions that were prepared before
 * the start count in the depth at once, since nobody has taken room for them; when such a one ends
 * there is a new count (settle_watch).
 */
void count_jobs(const QueueRef &ref);

/* The same for who waits for nobody, and knows the tables. False: somebody else is at it. */
bool count_jobs_now(const QueueRef &ref);

/* Would a count take long? By the size of the segments, which are locked. */
bool rows_are_many();

/* Forget what is known, and count. */
void recount_jobs(const QueueRef &ref);

/*
 * Of the jobs that wait, those whose second will soon be looked at are read by the second, if it is time
 * for that. False: somebody else is at it.
 */
bool read_next_part(const QueueRef &ref);

/* What the tables have just now, for who wants to compare: at that time. */
struct LiveRows
{
	int64 live;
	int64 dead;
	int64 waiting;
};
LiveRows count_rows_again(const QueueRef &ref, TimestampTz now);

} // namespace pgq
