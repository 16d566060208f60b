/* Publishing: one job in each queue of a topic. */
#pragma once

#include "enqueue/job_spec.h"

namespace pgq {

/* A job that was published. */
struct PublishedJob
{
	const char *queue;
	int64 job_id;
};

/*
 * Enqueue a job into each queue whose bindings match the topic, in the order of the ids of the queues.
 * Each job gets the header `topic`. Returns the *n jobs. Raises PQ003 if there are none and must_route
 * is true, PQ002 if a queue is full that may not be skipped, and the errors of enqueue_job().
 */
PublishedJob *publish(const text *topic, const JobSpec &spec, bool must_route, int *n);

/* Return the topic as bytes. Raises 22023 if it is too long. */
std::string_view checked_topic(const text *topic);

} // namespace pgq
