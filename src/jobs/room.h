/*
 * Room in queues with max_depth, and the counts of a queue's rows, for the code that writes them.
 */
#pragma once

#include "engine/queue.h"
#include "rows/job.h"

namespace pgq {

/*
 * Take room for new jobs, and count them as this transaction's own: all or none. Raises PQ002 if
 * the queue is full. Counts the queue's jobs if that count is not known.
 */
void enter_queue(const QueueRef &ref, int64 jobs);

/*
 * ---- Noting rows that this transaction has written or ended. ref: a queue that the caller has,
 * mostly that of the row ----
 */

/* The row of a job has ended, or was moved to another queue. was: its columns before. */
void leave_queue(const QueueRef &ref, const Standing &was);

/* The row of a job was rewritten: it was filed under `was`, and is now of queue_id, under `now`. */
void note_rewritten(const QueueRef &ref, const Standing &was, const Hint &now, int32 queue_id);

/* Dead letters of the queue were added (n > 0) or removed. */
void note_dead_letter_of(const QueueRef &ref, int32 queue_id, int64 n);

} // namespace pgq
