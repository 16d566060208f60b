/*
 * Publishing: one job in each queue of a topic. A full queue is left out if all of its bindings
 * that match the topic say so (when_full 'skip').
 */
#pragma once

#include "engine/queue.h"
#include "enqueue/job_spec.h"

#include <string_view>

namespace pgq {

/* A job that was published. */
struct PublishedJob
{
	text *queue; /* the name */
	int64 job_id;
};

/* Return the topic as bytes. Raises 22023 if it is too long. */
std::string_view checked_topic(const text *topic);
std::string_view checked_topic(std::string_view topic);

/*
 * Enqueue a job into each queue whose bindings match the topic, in the order of the ids of the
 * queues. Each job gets the header `topic`. Returns the *n jobs. Raises PQ003 if there are none and
 * must_route is true, PQ002 if a queue is full that may not be skipped, 42501 if the current role
 * may not publish to the topic, and the errors of enqueue_job().
 */
PublishedJob *publish(const text *topic, const JobSpec &spec, bool must_route, int *n);

/*
 * Publish the jobs of pgq_publish_many: elements as of pgq_enqueue_many, each with a topic. In the
 * order of the ids of the queues, enqueue all jobs of a queue together, and call put() for each job
 * that the queue has got, in the order of the elements. Raises the errors of publish() and
 * pgq_enqueue_many. Errors name the element, except for PQ002, which names the queue and the
 * pattern.
 */
using PutPublished = void (*)(void *rows, const PublishedJob &job);
void publish_many(Jsonb *jobs, PutPublished put, void *rows);

} // namespace pgq
