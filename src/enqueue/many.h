/*
 * Enqueuing many jobs of one call into one queue: all elements of the call, or some of them.
 */
#pragma once

#include "enqueue/job_spec.h"
#include "enqueue/unique_key.h"
#include "pg/clock.h"

namespace pgq {

/*
 * The jobs of a call. Each job is decoded when it is needed, and again for each queue, so that a
 * call needs no memory for decoded jobs. Elements count from 0.
 */
struct JobSource
{
	JobSpec (*read)(const void *data, uint32 element);
	/* Return how a job with a unique key takes its room. NULL: Room::kTake for all. */
	Room (*room)(const void *data, uint32 element);
	const void *data;
};

/* The jobs of a call for one queue. The caller has locked the queue. */
struct ManyJobs
{
	QueueRef ref;
	JobSource source;
	/* numbers of the elements, ascending; NULL: the elements from 0 to n - 1 */
	const uint32 *elements;
	uint32 n;
	/*
	 * Ids, in the order of the elements. Before the call, if ids_drawn: the ids for the new jobs.
	 * After it: the id of the new job, or of the job that has the unique key; 0: the job was
	 * skipped.
	 */
	int64 *ids;
	bool ids_drawn; /* the caller has drawn the ids */
	TimestampTz now;
	AddedMembers *added;

	uint32 element(uint32 i) const { return elements != nullptr ? elements[i] : i; }
};

/*
 * Enqueue the jobs: first those without a unique key, in the order of the elements, then the others
 * in the order of the hashes of their keys, so that two calls with the same keys cannot deadlock.
 * The caller has taken room for the jobs without a key. Errors name the element of `jobs`. Raises
 * the errors of enqueue_jobs() and enqueue_keyed().
 */
void enqueue_many(const ManyJobs &jobs);

/*
 * Error context callback: name the element of the array. element: a pointer to its number, an
 * uint32.
 */
void say_element(void *element);

/* Call body() with an error context that names the element. */
template <typename Body>
void
for_element(uint32 *element, Body body)
{
	ErrorContextCallback context = {error_context_stack, say_element, element};
	error_context_stack = &context;
	body();
	error_context_stack = context.previous;
}

} // namespace pgq
