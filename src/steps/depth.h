/*
 * Functions for code that writes rows of jobs or dead letters: they take room in queues with
 * max_depth, and keep the counts of the queues' rows up to date.
 */
#pragma once

#include "engine/queue.h"
#include "rows/job.h"

namespace pgq {

/*
 * Take room for new jobs: for all or for none. Count them as jobs of this transaction. Raises PQ002
 * if the queue is full. Counts the jobs of the queue first, if their number is not known.
 */
void enter_queue(const QueueRef &ref, int64 jobs);

/*
 * ---- Noting rows that this transaction has written or ended. ref: a queue whose slot the caller
 * already knows, usually the queue of the row ----
 */

/*
 * Note that the row of a job has ended or was moved to another queue. was: the scheduling columns
 * before that.
 */
void leave_queue(const QueueRef &ref, const SchedulingColumns &was);

/*
 * Note that the row of a job was rewritten. was: the scheduling columns before that; now: the new
 * hint; queue_id: the queue of the new row.
 */
void note_rewritten(const QueueRef &ref, const SchedulingColumns &was, const Hint &now,
					int32 queue_id);

/* Note that dead letters of the queue were added (n > 0) or removed (n < 0). */
void note_dead_letter_of(const QueueRef &ref, int32 queue_id, int64 n);

} // namespace pgq
