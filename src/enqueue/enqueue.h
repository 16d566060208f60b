/* Inserting new jobs. Their hints are filed at commit. */
#pragma once

#include "catalog/rights.h"
#include "rows/insert.h"

namespace pgq {

class AddedMembers;

/*
 * Look up the queue, and lock it for writing until the transaction ends, so that this transaction
 * and pgq_drop_queue wait for each other. permission: what the caller wants to do, which decides the
 * right that the caller needs. Raises 42704, 42501.
 */
QueueRef queue_for_enqueue(const char *name, Permission permission = Permission::kEnqueue);

/*
 * Like queue_for_enqueue(), by the id of the queue and without a check of rights. Returns false if
 * there is no such queue.
 */
bool queue_for_publish(int32 queue_id, QueueRef *ref);

/*
 * Insert the jobs, and register hints and counts for them. ids: receives one id for each job, in
 * the order of the jobs; null if the caller has set the ids of all jobs. added: receives the members
 * of batches, and the caller writes their notes; null if this call is to write them.
 */
void enqueue_jobs(const QueueRef &ref, NewJob *jobs, int n, int64 *ids,
				  AddedMembers *added = nullptr);

/* Like enqueue_jobs(), for jobs of several queues: jobs[i] belongs to the queue refs[i]. */
void enqueue_jobs_of_queues(const QueueRef *refs, NewJob *jobs, int n, int64 *ids);

} // namespace pgq
