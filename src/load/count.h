/* Counting the rows of a queue, to initialize the counts in memory (engine/count.h). */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Count the queue's jobs and dead letters, unless the counts are known. If another process is
 * counting, wait for it in the lock manager, where the deadlock detector sees the wait.
 *
 * The rows are counted with one snapshot, taken after all segments are locked. Otherwise rows could
 * be missed that were moved and whose old segment was then truncated. Changes of this transaction
 * itself do not count, since its commit adds them. Jobs of transactions that were prepared before
 * the start count towards the depth at once, because no room was taken for them. When such a
 * transaction ends, the queue is counted anew (settle_watch()).
 */
void count_jobs(const QueueRef &ref);

/*
 * Like count_jobs(), for a caller that must not wait and has looked at the tables already. Returns
 * false if another process is counting.
 */
bool count_jobs_now(const QueueRef &ref);

/*
 * Return whether a count would take long, judging by the size of the segments. Locks them for a
 * moment.
 */
bool rows_are_many();

/* Forget the counts and count anew. */
void recount_jobs(const QueueRef &ref);

/*
 * Read the waiting jobs of the next part of the seconds (core/due_seconds.h), if that part is due.
 * Returns false if another process is counting.
 */
bool read_next_part(const QueueRef &ref);

/*
 * Counts of rows in the tables at this moment, to be compared with the counts in memory. waiting:
 * jobs that wait for a run_at after `now`.
 */
struct LiveRows
{
	int64 live;
	int64 dead;
	int64 waiting;
};
LiveRows count_rows_again(const QueueRef &ref, TimestampTz now);

} // namespace pgq
