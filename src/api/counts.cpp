/*
 * pgq_recount; and oldest_ready(), by which the view queue_status reads the oldest ready job of a
 * queue from the table.
 */
#include "api/args.h"
#include "catalog/queue_row.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "load/attach.h"
#include "load/count.h"
#include "load/oldest.h"

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_oldest_ready);
PG_FUNCTION_INFO_V1(pgq_recount);

/*
 * Internal function for the view queue_status: returns the time since which the oldest ready job of
 * the queue has been due.
 */
PGDLLEXPORT Datum
pgq_oldest_ready(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.oldest_ready()");
	require_reader(fcinfo, {"queue_status"});
	QueueRef ref;
	TimestampTz run_at;
	if (!given(fcinfo, 0) || !find_attached_queue(tables().database, PG_GETARG_INT32(0), &ref) ||
		!may_see(ref.queue_id) || !find_oldest_ready(ref, &run_at))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(run_at);
}

PGDLLEXPORT Datum
pgq_recount(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.recount()");
	const char *name = queue_name(required(fcinfo, 0, "queue"));
	recount_jobs(resolve_queue(tables(), name, Permission::kAdminister));
	PG_RETURN_VOID();
}
}
