#include "jobs/run_again.h"

#include "catalog/owner_sql.h"
#include "catalog/rights.h"
#include "enqueue/enqueue_job.h"

namespace pgq {

/*
 * Columns: queue_id and name of the queue, then the attributes of the new job, in the order of
 * kAttributes. A job can finish twice, if SQL inserted its row again; the younger record counts.
 */
static constexpr char kFindFinished[] =
	"SELECT f.queue_id, q.queue, f.payload, f.priority, f.group_key, f.unique_key, f.max_attempts, "
	"CASE WHEN pg_catalog.jsonb_typeof(f.headers) OPERATOR(pg_catalog.<>) 'object' THEN f.headers "
	"ELSE COALESCE(f.headers, '{}') OPERATOR(pg_catalog.||) "
	"pg_catalog.jsonb_build_object('run_again_of', f.job_id) END "
	"FROM pgq_ext.finished_job f LEFT JOIN pgq_ext.queue q USING (queue_id) "
	"WHERE f.job_id OPERATOR(pg_catalog.=) $1 ORDER BY f.finished_at DESC LIMIT 1";

namespace {

struct FinishedJob
{
	int32 queue_id;
	const char *queue; /* NULL: there is no such queue */
	JobSpec spec;
};

struct KeptAttribute
{
	const char *name;
	Oid type;
};

} // namespace

static constexpr KeptAttribute kAttributes[] = {
	{"payload", JSONBOID},	 {"priority", INT4OID},		{"group_key", TEXTOID},
	{"unique_key", TEXTOID}, {"max_attempts", INT4OID}, {"headers", JSONBOID},
};

/* Copy the row that the statement kFindFinished has returned into `memory`. */
static void
read_finished(MemoryContext memory, FinishedJob *job)
{
	bool is_null;
	MemoryContext spi = MemoryContextSwitchTo(memory);
	job->queue_id = DatumGetInt32(spi_value(0, 1, INT4OID));
	Datum queue = spi_value(0, 2, TEXTOID, &is_null);
	if (!is_null)
		job->queue = TextDatumGetCString(queue);
	int column = 3;
	for (const KeptAttribute &attribute : kAttributes)
	{
		Datum value = spi_value(0, column++, attribute.type, &is_null);
		if (is_null)
			continue;
		if (attribute.type != INT4OID)
			value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		set_attribute(&job->spec, attribute.name, value);
	}
	MemoryContextSwitchTo(spi);
}

static bool
find_finished(int64 job_id, FinishedJob *job)
{
	const SpiArgument id[] = {{INT8OID, Int64GetDatum(job_id), false}};
	MemoryContext caller = CurrentMemoryContext;
	bool found = false;
	as_owner([&] {
		found = spi_execute(kFindFinished, id) > 0;
		if (found)
			read_finished(caller, job);
	});
	return found && may(Permission::kAskResult, job->queue_id);
}

bool
run_again(int64 job_id, int64 *new_id)
{
	FinishedJob job{};
	if (!find_finished(job_id, &job))
		return false;
	if (job.queue == nullptr || !enqueue_again(job.queue_id, job.queue, job.spec, new_id))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("the queue of job %lld does not exist any more",
							   static_cast<long long>(job_id)),
						errhint("Enqueue a job with the same payload into another queue.")));
	return true;
}

} // namespace pgq
