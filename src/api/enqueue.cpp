/*
 * pgq_enqueue and pgq_enqueue_many.
 */
#include "enqueue/enqueue.h"
#include "api/args.h"
#include "api/job_arguments.h"
#include "api/result_rows.h"
#include "enqueue/enqueue_job.h"
#include "enqueue/job_graph.h"
#include "enqueue/member.h"
#include "enqueue/unique_key.h"
#include "rows/job_ids.h"
#include "rows/unique_key.h"
#include "steps/depth.h"

#include <algorithm>

namespace pgq {

/* ---- arrays ---- */

namespace {
/* An element of the array of jobs, with a unique key. */
struct KeyedElement
{
	uint32 element;
	int64 hash;
};

struct Enqueuing
{
	QueueRef ref;
	Jsonb *array;
	TimestampTz now;
	MemoryContext caller;
	/*
	 * Ids, by number of the element: first the id that is drawn for the element, then the id of the
	 * job with which the request was answered.
	 */
	int64 *ids;
	const JobGraph *graph;
	SegmentSet *segments; /* open segments, for looks at parents; NULL: none needed */
	KeyedElement *keyed;
	uint32 n_keyed;
	AddedMembers added;

	uint32 total() const { return JsonContainerSize(&array->root); }
};

} // namespace
/* Error context callback: name the element of the array. */
static void
say_element(void *index)
{
	errcontext("element %u of jobs", *static_cast<uint32 *>(index) + 1);
}

template <typename Body>
static void
for_elements(uint32 *element, Body body)
{
	ErrorContextCallback context = {error_context_stack, say_element, element};
	error_context_stack = &context;
	body();
	error_context_stack = context.previous;
}

/*
 * Add an element with a unique key to `keyed`. Such elements are enqueued after all elements
 * without a unique key.
 */
static void
put_aside(Enqueuing *enqueuing, uint32 element, const KeyRules &rules)
{
	if (enqueuing->keyed == nullptr)
		enqueuing->keyed = static_cast<KeyedElement *>(
			MemoryContextAllocHuge(enqueuing->caller, enqueuing->total() * sizeof(KeyedElement)));
	enqueuing->keyed[enqueuing->n_keyed++] = {element,
											  hash_of_key(enqueuing->ref.queue_id, rules.key)};
}

/*
 * Read the next kInsertBatch elements, from *next on, and put the jobs without a unique key into
 * batch. elements[i]: the number of the element of batch[i]. Draw ids for all elements that were
 * read, in the order of the array, unless the graph has drawn them. Return the number of jobs in
 * batch.
 */
static int
read_batch(Enqueuing *enqueuing, uint32 *next, NewJob *batch, uint32 *elements)
{
	int n = 0;
	uint32 first = *next;
	uint32 end = Min(enqueuing->total(), first + kInsertBatch);
	CHECK_FOR_INTERRUPTS();
	for_elements(next, [&] {
		for (; *next < end; (*next)++)
		{
			JobSpec spec = job_of_array(enqueuing->array, *next);
			KeyRules rules = key_rules(spec, enqueuing->now);
			if (rules.key != nullptr)
			{
				put_aside(enqueuing, *next, rules);
				continue;
			}
			elements[n] = *next;
			batch[n++] = job_of(enqueuing->ref.queue_id, spec, enqueuing->now);
		}
	});
	if (!enqueuing->graph->has_children())
		draw_job_ids(&enqueuing->ids[first], static_cast<int>(end - first));
	for (int i = 0; i < n; i++)
		batch[i].set(kJobId, Int64GetDatum(enqueuing->ids[elements[i]]));
	return n;
}

static void
enqueue_plain(Enqueuing *enqueuing, MemoryContext scratch)
{
	NewJob batch[kInsertBatch];
	uint32 elements[kInsertBatch];
	uint32 next = 0;
	while (next < enqueuing->total())
	{
		int n = read_batch(enqueuing, &next, batch, elements);
		if (n > 0)
			enqueue_jobs(enqueuing->ref, batch, n, nullptr, &enqueuing->added);
		MemoryContextReset(scratch);
	}
}

static KeyedRequest
request_of(const Enqueuing &enqueuing, const KeyedElement &keyed)
{
	JobSpec spec = job_of_array(enqueuing.array, keyed.element);
	KeyedRequest request =
		keyed_request(enqueuing.ref.queue_id, spec, key_rules(spec, enqueuing.now), enqueuing.now);
	request.job.set(kJobId, Int64GetDatum(enqueuing.ids[keyed.element]));
	return request;
}

/*
 * Build requests for elements that can be enqueued together, from `first` on: at most kKeysAtOnce
 * elements, all with different keys. Return the number of requests.
 */
static int
read_group(const Enqueuing &enqueuing, const KeyedElement *first, KeyedRequest *requests)
{
	const KeyedElement *end = enqueuing.keyed + enqueuing.n_keyed;
	int n = 0;
	while (n < kKeysAtOnce && first + n < end && (n == 0 || first[n].hash != first[n - 1].hash))
	{
		uint32 element = first[n].element;
		for_elements(&element, [&] { requests[n] = request_of(enqueuing, first[n]); });
		n++;
	}
	return n;
}

static void
enqueue_group(Enqueuing &enqueuing, SegmentSet &segments, const KeyedElement *group,
			  KeyedRequest *requests, int n)
{
	int64 ids[kKeysAtOnce];
	bool fresh = enqueue_fresh(enqueuing.ref, segments, requests, n, ids, &enqueuing.added);
	for (int i = 0; i < n; i++)
	{
		uint32 element = group[i].element;
		if (!fresh)
			for_elements(&element, [&] {
				ids[i] = enqueue_keyed(enqueuing.ref, segments, &requests[i], &enqueuing.added);
			});
		enqueuing.ids[element] = ids[i];
	}
}

/*
 * Enqueue the elements with a unique key in the order of the hashes of their keys, so that two
 * calls with the same keys cannot deadlock. If two elements have the same key, the second element
 * meets the job of the first.
 */
static void
enqueue_those_with_key(Enqueuing &enqueuing, MemoryContext scratch)
{
	KeyedElement *keyed = enqueuing.keyed;
	KeyedRequest requests[kKeysAtOnce];
	SegmentSet segments(AccessShareLock);
	std::sort(keyed, keyed + enqueuing.n_keyed, [](const KeyedElement &a, const KeyedElement &b) {
		return a.hash != b.hash ? a.hash < b.hash : a.element < b.element;
	});
	for (uint32 done = 0; done < enqueuing.n_keyed;)
	{
		CHECK_FOR_INTERRUPTS();
		int n = read_group(enqueuing, keyed + done, requests);
		enqueue_group(enqueuing, segments, keyed + done, requests, n);
		done += n;
		MemoryContextReset(scratch);
	}
	segments.close();
}

/* Insert dependencies, and look at the parents that are jobs of other calls. */
static void
depend_on_others(const Enqueuing &enqueuing)
{
	int n;
	Dependency *dependencies = enqueuing.graph->dependencies(enqueuing.ids, false, &n);
	if (n > 0)
	{
		depend(dependencies, n);
		look_at_parents(*enqueuing.segments, dependencies, n);
	}
	pfree(dependencies);
}

/*
 * Insert dependencies on jobs of this call. A parent with a unique key may be a job that was there
 * before: look at it. drawn: the ids that were drawn.
 */
static void
depend_on_each_other(const Enqueuing &enqueuing, const int64 *drawn)
{
	int n;
	Dependency *dependencies = enqueuing.graph->dependencies(enqueuing.ids, true, &n);
	if (n > 0)
		depend(dependencies, n);
	pfree(dependencies);
	enqueuing.graph->visit_parents([&](uint32 parent) {
		if (enqueuing.ids[parent] != drawn[parent])
			look_at_parent(*enqueuing.segments, enqueuing.ids[parent]);
	});
}

static int64 *
copy_of_ids(const Enqueuing &enqueuing)
{
	Size bytes = enqueuing.total() * sizeof(int64);
	auto *copy = static_cast<int64 *>(MemoryContextAllocHuge(CurrentMemoryContext, bytes));
	memcpy(copy, enqueuing.ids, bytes);
	return copy;
}

static void
enqueue_jobs_of(Enqueuing *enqueuing)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pgq_enqueue_many", 0,
												  256 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	MemoryContextSwitchTo(scratch);
	enqueue_plain(enqueuing, scratch);
	if (enqueuing->n_keyed > 0)
		enqueue_those_with_key(*enqueuing, scratch);
	MemoryContextSwitchTo(enqueuing->caller);
	MemoryContextDelete(scratch);
}

/*
 * Insert the dependencies on jobs of other calls first, so that this transaction waits before it
 * has inserted any new job. Insert the dependencies on jobs of this call last, when the ids of
 * these jobs are known.
 */
static void
enqueue_graph(Enqueuing *enqueuing)
{
	require_batch_columns();
	enqueuing->graph->draw_ids(enqueuing->ids);
	int64 *drawn = copy_of_ids(*enqueuing);
	depend_on_others(*enqueuing);
	enqueue_jobs_of(enqueuing);
	depend_on_each_other(*enqueuing, drawn);
	pfree(drawn);
	enqueuing->segments->close();
}

static void
enqueue_array(const QueueRef &ref, Jsonb *array, const JobGraph &graph, SegmentSet *segments,
			  ResultRows *result)
{
	Enqueuing enqueuing{};
	enqueuing.ref = ref;
	enqueuing.array = array;
	enqueuing.graph = &graph;
	enqueuing.segments = segments;
	enqueuing.now = wall_now();
	enqueuing.caller = CurrentMemoryContext;
	enqueuing.ids = static_cast<int64 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (enqueuing.total() + 1) * sizeof(int64)));
	if (graph.has_children())
		enqueue_graph(&enqueuing);
	else
		enqueue_jobs_of(&enqueuing);
	enqueuing.added.note();
	for (uint32 i = 0; i < enqueuing.total(); i++)
		result->put(Int64GetDatum(enqueuing.ids[i]));
	pfree(enqueuing.ids);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_enqueue);
PG_FUNCTION_INFO_V1(pgq_enqueue_many);

PGDLLEXPORT Datum
pgq_enqueue(PG_FUNCTION_ARGS)
{
	start_write("pgq_enqueue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	PG_RETURN_INT64(enqueue_job(name, job_of_arguments(fcinfo, 1, kEnqueueArguments)));
}

PGDLLEXPORT Datum
pgq_enqueue_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_enqueue_many()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	Jsonb *array = array_of_jobs(required(fcinfo, 1, "jobs"));
	ResultRows result(fcinfo);
	JobGraph graph;
	graph.read(array);
	/*
	 * If jobs have parents, lock all segments in their order first, as the search for a unique key
	 * does.
	 */
	SegmentSet segments(AccessShareLock);
	if (graph.has_children())
		(void) segments.open_all();
	QueueRef ref = queue_for_enqueue(name);
	enter_queue(ref, jobs_without_key(array));
	enqueue_array(ref, array, graph, &segments, &result);
	return (Datum) 0;
}
}
