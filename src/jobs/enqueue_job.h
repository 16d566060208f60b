/*
 * One job, with a unique key or without.
 */
#pragma once

#include "jobs/job_spec.h"

namespace pgq {

/* The id of the job that carries the request: a new one, or that which has the key. Errors: as pgq_enqueue. */
int64 enqueue_job(const char *queue, const JobSpec &spec);

} // namespace pgq
