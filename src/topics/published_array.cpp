#include "topics/published_array.h"

#include "enqueue/job_json.h"
#include "enqueue/many.h"
#include "topics/publish.h"
#include "topics/topic_header.h"

#include <algorithm>

namespace pgq {

namespace {

/* An element while the array is sorted. */
struct SortedElement
{
	const char *topic;
	uint32 length;
	uint32 element;

	[[nodiscard]] std::string_view view() const { return {topic, length}; }
};

} // namespace

template <typename T>
static T *
allocate_for(Size n)
{
	return static_cast<T *>(MemoryContextAllocHuge(CurrentMemoryContext, (n + 1) * sizeof(T)));
}

/* ---- elements ---- */

/* Return the flags of the element for its key and parents. */
static uint8
flags_of_names(Jsonb *jobs, uint32 element, bool keys, bool parents)
{
	uint8 flags = 0;
	if (keys && has_unique_key(jobs, element))
		flags |= kHasKey;
	if (parents && parents_of(names_of_array(jobs, element, ArrayOf::kPublished)) != nullptr)
		flags |= kHasParents;
	return flags;
}

/* Read the topics and flags of all elements. Memory that decoding needs is freed in between. */
static void
read_elements(PublishedArray *array, SortedElement *sorted)
{
	/* Ask first whether any element has these keys: most arrays have none. */
	bool keys = have_unique_keys(array->jobs);
	bool parents = have_parents(array->jobs);
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_publish_many", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	uint32 element = 0;
	/* Read the elements. Errors name the element. */
	for_element(&element, [&] {
		for (; element < array->n; element++)
		{
			TopicOfElement of = topic_of_array(array->jobs, element);
			std::string_view topic = checked_topic(of.topic);
			sorted[element] = {topic.data(), static_cast<uint32>(topic.size()), element};
			array->flags[element] = flags_of_names(array->jobs, element, keys, parents) |
									(of.must_route ? kMustBeRouted : 0);
			array->has_parents = array->has_parents || (array->flags[element] & kHasParents) != 0;
			if (element % 256 == 255)
			{
				CHECK_FOR_INTERRUPTS();
				MemoryContextReset(scratch);
			}
		}
	});
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
}

/* ---- topics ---- */

static bool
is_before(const SortedElement &a, const SortedElement &b)
{
	int order = a.view().compare(b.view());
	return order != 0 ? order < 0 : a.element < b.element;
}

/* Make a topic of each run of equal topics. */
static void
group_by_topic(PublishedArray *array, const SortedElement *sorted)
{
	uint32 n_topics = 0;
	for (uint32 i = 0; i < array->n; i++)
		n_topics += i == 0 || sorted[i].view() != sorted[i - 1].view();
	array->topics = allocate_for<PublishedTopic>(n_topics);
	for (uint32 i = 0; i < array->n; i++)
	{
		uint32 element = sorted[i].element;
		if (i == 0 || sorted[i].view() != sorted[i - 1].view())
			array->topics[array->n_topics++] = {sorted[i].view(), i, i, 0, {}, 0, false};
		PublishedTopic *topic = &array->topics[array->n_topics - 1];
		topic->end = i + 1;
		topic->n_certain += array->is_certain(element);
		array->order[i] = element;
		array->topic_of[element] = array->n_topics - 1;
	}
}

/* Find the queues of each topic. */
static void
route_topics(PublishedArray *array)
{
	Targets last = {};
	for (uint32 i = 0; i < array->n_topics; i++)
	{
		PublishedTopic *topic = &array->topics[i];
		uint32 element = array->order[topic->begin];
		CHECK_FOR_INTERRUPTS();
		for_element(&element, [&] {
			Route route = route_to_publish(topic->topic);
			topic->targets = last = copy_targets(route, last);
			free_route(route);
		});
		if (topic->n() > 1)
			topic->header = topic_object(topic->topic);
	}
}

PublishedArray
read_published_array(Jsonb *jobs)
{
	PublishedArray array{};
	array.jobs = jobs;
	array.n = JsonContainerSize(&jobs->root);
	array.flags = allocate_for<uint8>(array.n);
	array.topic_of = allocate_for<uint32>(array.n);
	array.order = allocate_for<uint32>(array.n);
	auto *sorted = allocate_for<SortedElement>(array.n);
	read_elements(&array, sorted);
	std::sort(sorted, sorted + array.n, is_before);
	group_by_topic(&array, sorted);
	pfree(sorted);
	route_topics(&array);
	return array;
}

JobSpec
PublishedArray::job(uint32 element) const
{
	const PublishedTopic &topic = topics[topic_of[element]];
	JobSpec spec = job_of_array(jobs, element, ArrayOf::kPublished);
	set_topic_header(&spec, topic.header != 0 ? topic.header : topic_object(topic.topic));
	return spec;
}

} // namespace pgq
