/* The header `topic` of published jobs. */
#pragma once

#include "enqueue/job_spec.h"

#include <string_view>

namespace pgq {

/* Return the JSON object {"topic": topic}. */
Datum topic_object(std::string_view topic);

/*
 * Set the header `topic`, which replaces a header of that name that the caller has given. object:
 * the result of topic_object(). Raises 22023 if the headers are no JSON object.
 */
void set_topic_header(JobSpec *spec, Datum object);

/*
 * Check a job that no queue gets, so that a wrong value is an error even if no queue is bound.
 * Raises 22023.
 */
void check_unpublished(const JobSpec &spec, TimestampTz now);

} // namespace pgq
