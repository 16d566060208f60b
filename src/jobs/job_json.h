/*
 * The jobs of pgq_enqueue_many: an array of objects, whose keys are the names in the table of
 * jobs/job_spec.h. The options of a schedule: one such object, without a payload.
 */
#pragma once

#include "jobs/job_spec.h"

namespace pgq {

/* Error 22023 unless it is an array. */
Jsonb *array_of_jobs(Datum jsonb);

/* How many have no unique key: the others may not be new. */
int64 jobs_without_key(Jsonb *jobs);

/* Element i. Errors, which count from 1: 22023, 22004 without a payload, 0A000. */
JobSpec job_of_array(Jsonb *jobs, uint32 i);

/* Errors: 22023. */
JobSpec job_of_options(Jsonb *options);

} // namespace pgq
