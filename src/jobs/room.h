/*
 * Room in a queue that has a max_depth.
 */
#pragma once

#include "engine/queue.h"

namespace pgq {

/*
 * Room for so many new jobs of this transaction, and they are noted as its own: all or none. Error PQ002 if
 * there is not. The first who asks counts the queue's jobs.
 */
void enter_queue(const QueueRef &ref, int64 jobs);

/* This transaction has ended the row of a job, or moved it elsewhere. ref: a queue that is at hand, mostly the row's. */
void leave_queue(const QueueRef &ref, int32 queue_id);

} // namespace pgq
