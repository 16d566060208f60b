/* Inserting new jobs; they are filed at commit. */
#pragma once

#include "catalog/rights.h"
#include "rows/insert.h"

namespace pgq {

/*
 * Look up the queue and lock it for writing until the transaction ends. So pgq_drop_queue waits for
 * this transaction, or this one for pgq_drop_queue. deed: for what the caller needs a right. Raises
 * 42704, 42501.
 */
QueueRef queue_for_enqueue(const char *name, Deed deed = Deed::kEnqueue);

/*
 * Insert the jobs, and register their hints and counts. *ids receives one id for each job, in their
 * order.
 */
void enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids);

} // namespace pgq
