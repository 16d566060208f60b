/*
 * New jobs: their rows are inserted, and filed at commit.
 */
#pragma once

#include "rows/insert.h"

namespace pgq {

/*
 * The queue for writing: locked to the end of the transaction, so that pgq_drop_queue can
 * wait for us, or we for that. Error 42704.
 */
QueueRef queue_for_enqueue(const char *name);

/* *ids: one a job, in their order. */
void enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids);

} // namespace pgq
