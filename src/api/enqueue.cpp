/*
 * pgq_enqueue and pgq_enqueue_many.
 */
#include "enqueue/enqueue.h"
#include "api/args.h"
#include "api/job_arguments.h"
#include "api/result_rows.h"
#include "enqueue/enqueue_job.h"
#include "enqueue/job_graph.h"
#include "enqueue/many.h"
#include "enqueue/member.h"
#include "steps/depth.h"

namespace pgq {

/* ---- arrays ---- */

static JobSpec
read_element(const void *array, uint32 element)
{
	return job_of_array(static_cast<Jsonb *>(const_cast<void *>(array)), element);
}

/* Insert dependencies, and look at the parents that are jobs of other calls. */
static void
depend_on_others(const ManyJobs &jobs, const JobGraph &graph, SegmentSet *segments)
{
	int n;
	Dependency *dependencies = graph.dependencies(jobs.ids, false, &n);
	if (n > 0)
	{
		depend(dependencies, n);
		look_at_parents(*segments, dependencies, n);
	}
	pfree(dependencies);
}

/*
 * Insert dependencies on jobs of this call. A parent with a unique key may be a job that was there
 * before: look at it. drawn: the ids that were drawn.
 */
static void
depend_on_each_other(const ManyJobs &jobs, const JobGraph &graph, SegmentSet *segments,
					 const int64 *drawn)
{
	int n;
	Dependency *dependencies = graph.dependencies(jobs.ids, true, &n);
	if (n > 0)
		depend(dependencies, n);
	pfree(dependencies);
	graph.visit_parents([&](uint32 parent) {
		if (jobs.ids[parent] != drawn[parent])
			look_at_parent(*segments, jobs.ids[parent]);
	});
}

static int64 *
copy_of_ids(const ManyJobs &jobs)
{
	Size bytes = jobs.n * sizeof(int64);
	auto *copy = static_cast<int64 *>(MemoryContextAllocHuge(CurrentMemoryContext, bytes));
	memcpy(copy, jobs.ids, bytes);
	return copy;
}

/*
 * Insert the dependencies on jobs of other calls first, so that this transaction waits before it
 * has inserted any new job. Insert the dependencies on jobs of this call last, when the ids of
 * these jobs are known.
 */
static void
enqueue_graph(ManyJobs *jobs, const JobGraph &graph, SegmentSet *segments)
{
	require_batch_columns();
	graph.draw_ids(jobs->ids);
	jobs->ids_drawn = true;
	int64 *drawn = copy_of_ids(*jobs);
	depend_on_others(*jobs, graph, segments);
	enqueue_many(*jobs);
	depend_on_each_other(*jobs, graph, segments, drawn);
	pfree(drawn);
	segments->close();
}

static void
enqueue_array(const QueueRef &ref, Jsonb *array, const JobGraph &graph, SegmentSet *segments,
			  ResultRows *result)
{
	AddedMembers added;
	ManyJobs jobs{};
	jobs.ref = ref;
	jobs.source = {read_element, nullptr, array};
	jobs.n = JsonContainerSize(&array->root);
	jobs.now = wall_now();
	jobs.added = &added;
	jobs.ids = static_cast<int64 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (jobs.n + 1) * sizeof(int64)));
	if (graph.has_children())
		enqueue_graph(&jobs, graph, segments);
	else
		enqueue_many(jobs);
	added.note();
	for (uint32 i = 0; i < jobs.n; i++)
		result->put(Int64GetDatum(jobs.ids[i]));
	pfree(jobs.ids);
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
