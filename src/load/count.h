/*
 * Counting the rows of a queue, to set the counts in shared memory (engine/count.h).
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Count the queue's jobs and dead letters, unless memory knows the counts. If another process is
 * counting, wait for that process in the lock manager, where the deadlock detector sees the wait.
 *
 * The rows are counted with one snapshot, taken after all segments are locked. With an earlier
 * snapshot, the count could miss rows that were moved and whose old segment was then truncated.
 * Changes of this transaction itself do not count, since its commit adds them to the counts. Jobs
 * of a transaction that was prepared before the start of the server count towards the depth at
 * once, since the stop of the server has erased the room that their enqueue had reserved in memory.
 * When such a transaction ends, the queue is counted again (settle_transaction()).
 */
void count_jobs(const QueueRef &ref);

/*
 * Like count_jobs(), for a caller that must not wait and has already called look_at_tables().
 * Returns false if another process is counting.
 */
bool count_jobs_now(const QueueRef &ref);

/*
 * Return whether a count would take long, judging by the size of the segments. Locks the segments
 * for a moment.
 */
bool rows_are_many();

/* Forget the counts of the queue and count its rows again. */
void recount_jobs(const QueueRef &ref);

/*
 * Read the next part of the seconds (core/due_seconds.h): for each of these seconds, count the
 * scheduled jobs that become due in it. Does nothing if the part is not needed yet. Returns false
 * if another process is counting.
 */
bool read_next_part(const QueueRef &ref);

/*
 * Number of rows in the tables at this moment, to be compared with the counts in memory. waiting:
 * jobs with a run_at after `now`, without the blocked ones.
 */
struct LiveRows
{
	int64 live;
	int64 dead;
	int64 waiting;
	int64 blocked;
};
LiveRows count_rows_again(const QueueRef &ref, TimestampTz now);

} // namespace pgq
