/* Invalidation: reading a queue's rows again when memory may lack jobs. */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * raise_clock_mark() raises the clock mark of the database to at least this run_at. Called at the
 * enqueue of a job that is due at once: such a job stays due even if the clock is set back later.
 * clock_mark() returns the mark, an upper bound of the run_at of all these jobs. When memory may
 * lack jobs, the horizon of the queue is raised to the mark.
 */
void raise_clock_mark(Database *db, TimestampTz run_at);
TimestampTz clock_mark(const Queue *queue);

/*
 * Initialize the clock mark when a load begins. durable: the time that the durable token mark
 * stands for.
 */
void begin_clock_mark(Database *db, TimestampTz durable);

/*
 * Invalidate the memory of the queue: its rows are read again. No effect if the queue has no slot.
 * Called at the commit of a transaction if the slot of the queue was freed while the transaction
 * ran: the queue may have a new slot, whose memory lacks the rows of the transaction. Cannot fail.
 */
void invalidate_queue(Oid database, Oid incarnation, int32 queue_id);

/*
 * Invalidate the memory of all queues of the database, because the tables may have rows that were
 * not filed.
 */
void invalidate_all(Oid database);

/* Forget the counts of all queues of the database. */
void forget_counts(Oid database);

/*
 * Note that SQL has deleted rows and committed. In queues with fifo, other jobs may be the heads of
 * their groups now.
 */
void note_deletions(Oid database);

} // namespace pgq
