/* Enqueuing one job, with or without a unique key. */
#pragma once

#include "enqueue/job_spec.h"

namespace pgq {

/*
 * Enqueue a job. Returns the id of the new job, or of the existing job with the same unique key.
 * Raises the errors of pgq_enqueue.
 */
int64 enqueue_job(const char *queue, const JobSpec &spec);

} // namespace pgq
