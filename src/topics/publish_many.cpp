/*
 * pgq_publish_many. All queues are locked, and the room in them is taken, before the first job is
 * written: in the order of the ids of the queues, as all publishes do.
 */
#include "topics/publish.h"

#include "enqueue/enqueue.h"
#include "enqueue/job_json.h"
#include "enqueue/many.h"
#include "enqueue/member.h"
#include "rows/job_ids.h"
#include "topics/published_array.h"
#include "topics/topic_header.h"

#include <algorithm>

namespace pgq {

namespace {

/* A topic whose jobs a queue gets, and the binding of this queue. */
struct TopicOfQueue
{
	const Binding *binding;
	uint32 topic;
};

/* A queue that gets jobs. */
struct QueueOfCall
{
	QueueRef ref;
	/*
	 * its topics are topics[begin] up to topics[end - 1] of the call, in the order of their numbers
	 */
	uint32 begin;
	uint32 end;
	/*
	 * the first element for which a full queue has no room; UINT32_MAX: there is room. This and
	 * later elements are skipped if their jobs need room in any case, and their bindings say so.
	 */
	uint32 first_skipped;
	/* The elements, ascending, and the ids of their jobs; NULL until they are needed. */
	uint32 *elements;
	uint32 n;
	int64 *ids;
};

/* A call of pgq_publish_many. */
struct PublishCall
{
	PublishedArray array;
	TopicOfQueue *topics;
	uint32 n_topics;
	QueueOfCall *queues;
	uint32 n_queues;
	TimestampTz now;
	AddedMembers *added;
};

/* What the source of the jobs of a queue reads from. */
struct SourceOfQueue
{
	const PublishCall &call;
	const QueueOfCall &queue;
};

/* An array of dependencies that grows. */
struct DependencyList
{
	Dependency *all;
	int n;
	int size;
};

} // namespace

template <typename T>
static T *
allocate_many(Size n)
{
	return static_cast<T *>(MemoryContextAllocHuge(CurrentMemoryContext, (n + 1) * sizeof(T)));
}

/* ---- the queues ---- */

/* List the topics of all queues, sorted by the id of the queue, then by the number of the topic. */
static void
list_topics(PublishCall *call)
{
	const PublishedArray &array = call->array;
	Size n = 0;
	for (uint32 i = 0; i < array.n_topics; i++)
		n += array.topics[i].targets.n;
	if (n >= UINT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("too many topics and queues in one call"),
						errhint("Publish the jobs by several calls.")));
	call->topics = allocate_many<TopicOfQueue>(n);
	for (uint32 i = 0; i < array.n_topics; i++)
		for (int t = 0; t < array.topics[i].targets.n; t++)
			call->topics[call->n_topics++] = {&array.topics[i].targets.bindings[t], i};
	std::sort(call->topics, call->topics + n, [](const TopicOfQueue &a, const TopicOfQueue &b) {
		return a.binding->queue_id != b.binding->queue_id
				   ? a.binding->queue_id < b.binding->queue_id
				   : a.topic < b.topic;
	});
}

static bool
begins_queue(const PublishCall &call, uint32 i)
{
	return i == 0 || call.topics[i].binding->queue_id != call.topics[i - 1].binding->queue_id;
}

/* Lock the queues in the order of their ids. Leave out those that do not exist any more. */
static void
lock_queues(PublishCall *call)
{
	uint32 n = 0;
	for (uint32 i = 0; i < call->n_topics; i++)
		n += begins_queue(*call, i);
	call->queues = allocate_many<QueueOfCall>(n);
	for (uint32 begin = 0, end; begin < call->n_topics; begin = end)
	{
		QueueOfCall queue = {{}, begin, 0, UINT32_MAX, nullptr, 0, nullptr};
		for (end = begin + 1; end < call->n_topics && !begins_queue(*call, end);)
			end++;
		queue.end = end;
		if (!queue_for_publish(call->topics[begin].binding->queue_id, &queue.ref))
			continue;
		for (uint32 i = begin; i < end; i++)
			call->array.topics[call->topics[i].topic].has_queue = true;
		call->queues[call->n_queues++] = queue;
	}
}

/* Call visit(topic, binding) for each topic of the queue. */
template <typename Visit>
static void
for_topics_of(const PublishCall &call, const QueueOfCall &queue, Visit visit)
{
	for (uint32 i = queue.begin; i < queue.end; i++)
		visit(call.array.topics[call.topics[i].topic], *call.topics[i].binding);
}

/* ---- room ---- */

/*
 * Return the element number `fit` (from 0) of those that may be skipped, and whose jobs need room
 * in any case. n: their number.
 */
static uint32
find_first_skipped(const PublishCall &call, const QueueOfCall &queue, int64 n, int64 fit)
{
	auto *skippable = allocate_many<uint32>(n);
	uint32 *end = skippable;
	for_topics_of(call, queue, [&](const PublishedTopic &topic, const Binding &binding) {
		for (uint32 i = topic.begin; i < topic.end && binding.skip_if_full; i++)
			if (call.array.is_certain(call.array.order[i]))
				*end++ = call.array.order[i];
	});
	std::nth_element(skippable, skippable + fit, end);
	uint32 first = skippable[fit];
	pfree(skippable);
	return first;
}

/*
 * Take room for the jobs that need room in any case: first for those that must not be skipped, then
 * for as many of the others as there is room for, in the order of the elements. Raises PQ002.
 */
static void
take_room_in(const PublishCall &call, QueueOfCall *queue)
{
	int64 strict = 0;
	int64 skippable = 0;
	const Binding *by = nullptr;
	for_topics_of(call, *queue, [&](const PublishedTopic &topic, const Binding &binding) {
		(binding.skip_if_full ? skippable : strict) += topic.n_certain;
		if (!binding.skip_if_full && topic.n_certain > 0 && by == nullptr)
			by = &binding;
	});
	if (strict > 0)
		for_binding(*by, [&] { enter_queue(queue->ref, strict); });
	int64 fit = skippable > 0 ? enter_queue_or_skip(queue->ref, skippable) : 0;
	if (fit < skippable)
		queue->first_skipped = find_first_skipped(call, *queue, skippable, fit);
}

/* ---- the elements of a queue ---- */

static void
list_elements(const PublishCall &call, QueueOfCall *queue)
{
	const PublishedArray &array = call.array;
	uint32 n = 0;
	for_topics_of(call, *queue,
				  [&](const PublishedTopic &topic, const Binding &) { n += topic.n(); });
	queue->elements = allocate_many<uint32>(n);
	for_topics_of(call, *queue, [&](const PublishedTopic &topic, const Binding &binding) {
		for (uint32 i = topic.begin; i < topic.end; i++)
		{
			uint32 element = array.order[i];
			if (element >= queue->first_skipped && binding.skip_if_full &&
				array.is_certain(element))
				continue;
			queue->elements[queue->n++] = element;
		}
	});
	if (queue->end - queue->begin > 1)
		std::sort(queue->elements, queue->elements + queue->n);
	queue->ids = allocate_many<int64>(queue->n);
}

static JobSpec
read_published(const void *data, uint32 element)
{
	return static_cast<const SourceOfQueue *>(data)->call.array.job(element);
}

static Room
room_of_published(const void *data, uint32 element)
{
	const auto &[call, queue] = *static_cast<const SourceOfQueue *>(data);
	if (call.array.is_certain(element))
		return Room::kTaken;
	const TopicOfQueue *topic = std::lower_bound(
		call.topics + queue.begin, call.topics + queue.end, call.array.topic_of[element],
		[](const TopicOfQueue &a, uint32 wanted) { return a.topic < wanted; });
	return room_by(*topic->binding);
}

/* ---- parents ---- */

static void
add_dependencies_of(DependencyList *list, const JobSpec &spec, int64 child_id)
{
	const ParentList *parents = parents_of(spec);
	for (int i = 0; i < parents->n; i++)
	{
		if (list->n == list->size)
		{
			list->size = Max(2 * list->size, 64);
			list->all = static_cast<Dependency *>(
				repalloc_huge(list->all, list->size * sizeof(Dependency)));
		}
		list->all[list->n++] = {parents->names[i].job_id, child_id, on_parent_failure(spec),
								nullptr};
	}
}

/* Draw the ids of the jobs of the queue, and list their dependencies. */
static void
list_dependencies(const PublishCall &call, QueueOfCall *queue, DependencyList *list)
{
	list_elements(call, queue);
	draw_job_ids(queue->ids, static_cast<int>(queue->n));
	uint32 element;
	for_element(&element, [&] {
		for (uint32 i = 0; i < queue->n; i++)
		{
			element = queue->elements[i];
			if ((call.array.flags[element] & kHasParents) == 0)
				continue;
			CHECK_FOR_INTERRUPTS();
			add_dependencies_of(list, names_of_array(call.array.jobs, element, ArrayOf::kPublished),
								queue->ids[i]);
		}
	});
}

/*
 * Insert the dependencies of all jobs, and look at the parents, each once. So this transaction
 * waits for parents before it has inserted any job.
 */
static void
depend_on_all_parents(const PublishCall &call, SegmentSet &segments)
{
	DependencyList list = {allocate_many<Dependency>(0), 0, 0};
	require_batch_columns();
	for (uint32 i = 0; i < call.n_queues; i++)
		list_dependencies(call, &call.queues[i], &list);
	if (list.n > 0)
	{
		depend(list.all, list.n);
		look_at_parents(segments, list.all, list.n);
	}
	pfree(list.all);
}

/* ---- a queue ---- */

/* Error context callback: name a pattern by which jobs come to a full queue. */
static void
say_pattern_if_full(void *data)
{
	static constexpr int kFull = MAKE_SQLSTATE('P', 'Q', '0', '0', '2');
	const auto &[call, queue] = *static_cast<const SourceOfQueue *>(data);
	if (geterrcode() != kFull)
		return;
	for (uint32 i = queue.begin; i < queue.end; i++)
		if (!call.topics[i].binding->skip_if_full)
			return say_pattern(const_cast<Binding *>(call.topics[i].binding));
}

static void
put_published(PublishCall *call, const QueueOfCall &queue, PutPublished put, void *rows)
{
	text *name = name_of_target(queue.ref);
	for (uint32 i = 0; i < queue.n; i++)
		if (queue.ids[i] != 0)
		{
			call->array.flags[queue.elements[i]] |= kIsPublished;
			put(rows, {name, queue.ids[i]});
		}
}

static void
publish_to_queue(PublishCall *call, QueueOfCall *queue, PutPublished put, void *rows)
{
	SourceOfQueue source = {*call, *queue};
	ErrorContextCallback context = {error_context_stack, say_pattern_if_full, &source};
	ManyJobs jobs{};
	if (queue->elements == nullptr)
		list_elements(*call, queue);
	jobs.ref = queue->ref;
	jobs.source = {read_published, room_of_published, &source};
	jobs.elements = queue->elements;
	jobs.n = queue->n;
	jobs.ids = queue->ids;
	jobs.ids_drawn = call->array.has_parents;
	jobs.now = call->now;
	jobs.added = call->added;
	error_context_stack = &context;
	enqueue_many(jobs);
	error_context_stack = context.previous;
	put_published(call, *queue, put, rows);
	pfree(queue->elements);
	pfree(queue->ids);
}

/* ---- the call ---- */

/* Check the elements of which no queue has got a job. Raises PQ003, 22023, 22004. */
static void
check_rest(const PublishCall &call)
{
	const PublishedArray &array = call.array;
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_publish_many", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	uint32 element = 0;
	for_element(&element, [&] {
		for (; element < array.n; element++)
		{
			if ((array.flags[element] & kIsPublished) != 0)
				continue;
			CHECK_FOR_INTERRUPTS();
			check_unpublished(array.job(element), call.now);
			const PublishedTopic &topic = array.topics[array.topic_of[element]];
			if ((array.flags[element] & kMustBeRouted) != 0)
				complain_unroutable(topic.topic, topic.has_queue);
			MemoryContextReset(scratch);
		}
	});
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
}

/*
 * If jobs have parents, lock all segments in their order before the queues, as the search for a
 * unique key does.
 */
void
publish_many(Jsonb *jobs, PutPublished put, void *rows)
{
	AddedMembers added;
	PublishCall call{};
	SegmentSet segments(AccessShareLock);
	call.array = read_published_array(jobs);
	call.now = wall_now();
	call.added = &added;
	list_topics(&call);
	/* Lock the queues, and take room. */
	if (call.array.has_parents)
		(void) segments.open_all();
	lock_queues(&call);
	for (uint32 i = 0; i < call.n_queues; i++)
		take_room_in(call, &call.queues[i]);
	/* Insert dependencies, and then the jobs. */
	if (call.array.has_parents)
		depend_on_all_parents(call, segments);
	for (uint32 i = 0; i < call.n_queues; i++)
		publish_to_queue(&call, &call.queues[i], put, rows);
	if (call.array.has_parents)
		segments.close();
	added.note();
	check_rest(call);
}

} // namespace pgq
