/* The array of pgq_publish_many, with its elements sorted by topic. */
#pragma once

#include "enqueue/job_spec.h"
#include "topics/target.h"

namespace pgq {

/* The elements with the same topic. */
struct PublishedTopic
{
	std::string_view topic;
	/* the elements are order[begin] up to order[end - 1], ascending */
	uint32 begin;
	uint32 end;
	/*
	 * number of elements whose job needs room in each queue. The other elements have a unique key,
	 * so they need room only if no job has the key.
	 */
	uint32 n_certain;
	Targets targets;
	/* topic_object(); 0: the topic has one element only, and job() makes the object */
	Datum header;
	bool has_queue; /* a queue of the targets exists; set by publish_many() */

	[[nodiscard]] uint32 n() const { return end - begin; }
};

/* Per element: what the array says, and what has become of it. */
enum PublishedFlag : uint8
{
	kMustBeRouted = 1,
	kHasKey = 2,
	kHasParents = 4,
	kIsPublished = 8, /* some queue has got the job */
};

/* 9 bytes for each element, besides what there is for each topic. */
struct PublishedArray
{
	Jsonb *jobs;
	uint32 n;
	bool has_parents; /* some element has parents */
	uint8 *flags;	  /* by element */
	uint32 *topic_of; /* by element: the number of its topic */
	uint32 *order;	  /* the elements, sorted by topic, then by number */
	PublishedTopic *topics;
	uint32 n_topics;

	/*
	 * Return whether the job of the element needs room in any case: with parents, or without a key.
	 */
	[[nodiscard]] bool is_certain(uint32 element) const
	{
		return (flags[element] & (kHasKey | kHasParents)) != kHasKey;
	}
	/* Decode the element. Raises 22023, 22004, 0A000. */
	[[nodiscard]] JobSpec job(uint32 element) const;
};

/*
 * Read the topics of the array, and find their queues. Raises 22023, 22004, 0A000, and 42501 for a
 * topic to which the current role may not publish. Errors name the element.
 */
PublishedArray read_published_array(Jsonb *jobs);

} // namespace pgq
