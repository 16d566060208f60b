/*
 * Invalidation: reading a queue's rows again when memory may lack jobs.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Raise the clock mark of the database to this run_at, for a job that is being enqueued and is due
 * whatever the clock says later. clock_mark() bounds the run_at of such jobs where they come to
 * memory without being filed.
 */
void raise_clock_mark(Database *db, TimestampTz run_at);
TimestampTz clock_mark(const Queue *queue);

/*
 * Set the clock mark at the begin of a load. durable: the time that the durable token mark stands
 * for.
 */
void begin_clock_mark(Database *db, TimestampTz durable);

/*
 * Read the rows of the queue again, since memory may lack jobs; no effect if the queue has no slot.
 * Called for a transaction whose slot was freed before its end. Cannot fail.
 */
void distrust(Oid database, Oid incarnation, int32 queue_id);

/* Do the same for every queue of the database, when rows have come that were not filed. */
void distrust_all(Oid database);

/* Forget the counts of all queues of the database. */
void forget_counts(Oid database);

/*
 * Note that rows were deleted by SQL, and committed. In queues with fifo other jobs may be the
 * heads of their groups now.
 */
void note_deletions(Oid database);

} // namespace pgq
