/*
 * pgq_enqueue and pgq_enqueue_many.
 */
#include "jobs/enqueue.h"
#include "api/args.h"
#include "api/job_json.h"
#include "api/result_rows.h"

namespace pgq {

/* The arguments from `first` on are the attributes of a job. */
static JobSpec
job_of_arguments(FunctionCallInfo fcinfo, int first)
{
	JobSpec spec{};
	for (int i = 0; i < kJobAttributes; i++)
	{
		const JobAttribute &attribute = job_attributes[i];
		int argument = first + i;
		if (attribute.required)
			(void) required(fcinfo, argument, attribute.name);
		if (!given(fcinfo, argument))
			continue;
		if (attribute.later)
			not_yet(attribute.nothing == nullptr ||
						strcmp(text_to_cstring(PG_GETARG_TEXT_PP(argument)), attribute.nothing) !=
							0,
					attribute.name);
		else
		{
			spec.values[i] = PG_GETARG_DATUM(argument);
			spec.given[i] = true;
		}
	}
	return spec;
}

/* Errors out of the middle of the array name the element. */
static void
say_element(void *index)
{
	errcontext("element %u of jobs", *static_cast<uint32 *>(index) + 1);
}

/* The jobs from *next on, at most kInsertBatch. Returns how many. */
static int
read_batch(Jsonb *array, uint32 *next, int32 queue_id, TimestampTz now, NewJob *batch)
{
	uint32 total = JsonContainerSize(&array->root);
	int n = 0;
	CHECK_FOR_INTERRUPTS();
	ErrorContextCallback context = {error_context_stack, say_element, next};
	error_context_stack = &context;
	for (; *next < total && n < kInsertBatch; (*next)++)
		batch[n++] = job_of(queue_id, job_of_array(array, *next), now);
	error_context_stack = context.previous;
	return n;
}

static void
enqueue_array(const QueueRef &ref, Jsonb *array, ResultRows *result)
{
	TimestampTz now = wall_now();
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pgq_enqueue_many", 0,
												  256 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	NewJob batch[kInsertBatch];
	int64 ids[kInsertBatch];
	uint32 next = 0;
	while (int n = read_batch(array, &next, ref.queue_id, now, batch))
	{
		enqueue_jobs(ref, batch, n, ids);
		for (int i = 0; i < n; i++)
			result->put(Int64GetDatum(ids[i]));
		MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
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
	JobSpec spec = job_of_arguments(fcinfo, 1);
	QueueRef ref = queue_for_enqueue(name);
	NewJob job = job_of(ref.queue_id, spec, wall_now());
	int64 id;
	enqueue_jobs(ref, &job, 1, &id);
	PG_RETURN_INT64(id);
}

PGDLLEXPORT Datum
pgq_enqueue_many(PG_FUNCTION_ARGS)
{
	start_write("pgq_enqueue_many()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	Jsonb *array = array_of_jobs(required(fcinfo, 1, "jobs"));
	ResultRows result(fcinfo);
	enqueue_array(queue_for_enqueue(name), array, &result);
	return (Datum) 0;
}
}
