/*
 * What to do where memory may lack jobs of a queue.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * A job with this run_at is being enqueued, which is due whatever the clock says later. Where such
 * jobs come to memory otherwise than by being filed, clock_mark() bounds their run_at.
 */
void raise_clock_mark(Database *db, TimestampTz run_at);
TimestampTz clock_mark(const Queue *queue);

/* A load begins. durable: the mark before it said so much. */
void begin_clock_mark(Database *db, TimestampTz durable);

/*
 * Memory may lack jobs of that queue: its slot, if it has one, is read from the
 * heap again. For a transaction whose own slot was freed meanwhile. Cannot fail.
 */
void distrust(Oid database, Oid incarnation, int32 queue_id);

/* The same for every queue of the database: rows have come that nobody has looked at. */
void distrust_all(Oid database);

/* How many jobs the queues of the database have is not known any more. */
void forget_counts(Oid database);

/* Rows of the database have been deleted by hand, and committed: in queues with fifo others are first in their groups now. */
void note_deletions(Oid database);

} // namespace pgq
