/*
 * New jobs: their rows are inserted, and filed at commit.
 */
#pragma once

#include "catalog/rights.h"
#include "rows/insert.h"

namespace pgq {

/*
 * The queue for writing: locked to the end of the transaction, so that pgq_drop_queue can
 * wait for us, or we for that. deed: why jobs get there. Errors: 42704, 42501.
 */
QueueRef queue_for_enqueue(const char *name, Deed deed = Deed::kEnqueue);

/* *ids: one a job, in their order. */
void enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids);

} // namespace pgq
