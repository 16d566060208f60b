/*
 * How many jobs a queue has, by those who write their rows; and room in one that has a max_depth.
 */
#pragma once

#include "engine/queue.h"
#include "rows/job.h"

namespace pgq {

/*
 * Room for so many new jobs of this transaction, and they are noted as its own: all or none. Error PQ002 if
 * there is not. The first who asks counts the queue's jobs.
 */
void enter_queue(const QueueRef &ref, int64 jobs);

/*
 * ---- what rows this transaction has written or ended. ref: a queue that is at hand, mostly the row's ----
 */

/* It has ended the row of a job, or moved it elsewhere. */
void leave_queue(const QueueRef &ref, const Standing &was);

/* It has written the row anew, which is of that queue and waits for that time, if it is delayed. */
void note_rewritten(const QueueRef &ref, const Standing &was, const Hint &now, int32 queue_id);

/* The row of a dead letter: one more, or fewer. */
void note_dead_letter_of(const QueueRef &ref, int32 queue_id, int64 n);

} // namespace pgq
