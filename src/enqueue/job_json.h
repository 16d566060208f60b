/*
 * Decoding the jobs of pgq_enqueue_many and pgq_publish_many: an array of objects whose keys are the names
 * in the table of job_spec.h. The options of a schedule are one such object without a payload.
 */
#pragma once

#include "enqueue/job_spec.h"

#include <string_view>

namespace pgq {

/* The function whose argument an array of jobs is. */
enum class ArrayOf : uint8
{
	kEnqueued,	/* pgq_enqueue_many */
	kPublished, /* pgq_publish_many */
};

/* Return the argument as jsonb. Raises 22023 if the value is not an array. */
Jsonb *array_of_jobs(Datum jsonb);

/* Return the number of elements without a unique key. Each of these becomes a new job. */
int64 jobs_without_key(Jsonb *jobs);

/*
 * Decode element i (from 0). Error messages count elements from 1. Raises 22023, 0A000, and 22004
 * if there is no payload.
 */
JobSpec job_of_array(Jsonb *jobs, uint32 i, ArrayOf kind = ArrayOf::kEnqueued);

/*
 * Return whether an element has one of the keys after and ref. names_of_array() decodes only
 * these keys, on_parent_failure and unique_key, of element i. Raises 22023, 54000.
 */
bool has_names(const Jsonb *jobs);
JobSpec names_of_array(Jsonb *jobs, uint32 i, ArrayOf kind = ArrayOf::kEnqueued);

/* What pgq_publish_many reads of an element besides the attributes of the job. */
struct TopicOfElement
{
	std::string_view topic; /* in the memory of the array */
	bool must_route;
};

/* Raises 22004 if element i has no topic, and 22023. */
TopicOfElement topic_of_array(Jsonb *jobs, uint32 i);

/* Return whether an element has the key unique_key, or the key after. */
bool have_unique_keys(const Jsonb *jobs);
bool have_parents(const Jsonb *jobs);

/* Return whether element i has a unique key. */
bool has_unique_key(Jsonb *jobs, uint32 i);

/* Decode the options of a schedule. Raises 22023. */
JobSpec job_of_options(Jsonb *options);

/*
 * Decode a callback of a batch: an object as in an array of jobs, with the queue besides. name: the
 * name of the callback, for messages. Raises 22023, and 22004 if there is no queue or payload.
 */
JobSpec job_of_callback(const Jsonb *callback, const char *name, char **queue);

} // namespace pgq
