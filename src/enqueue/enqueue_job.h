/* Enqueuing one job, with or without a unique key. */
#pragma once

#include "enqueue/job_spec.h"
#include "steps/depth.h"

namespace pgq {

/*
 * Enqueue a job. Returns the id of the new job, or of the existing job with the same unique key.
 * Raises the errors of pgq_enqueue.
 */
int64 enqueue_job(const char *queue, const JobSpec &spec);

/*
 * Enqueue a job of a topic into the queue with this id, without a check of rights. Returns false if there
 * is no such queue. *job_id: as of enqueue_job(), or 0 if room is kTakeOrSkip and the queue is full.
 */
bool publish_job(int32 queue_id, const JobSpec &spec, Room room, QueueRef *ref, int64 *job_id);

} // namespace pgq
