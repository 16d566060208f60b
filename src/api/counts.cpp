/*
 * pgq_recount; and for the view queue_status: oldest_ready(), which reads the oldest ready job of a
 * queue from the table, and blocked_jobs().
 */
#include "api/args.h"
#include "catalog/queue_row.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "engine/copies.h"
#include "load/attach.h"
#include "load/count.h"
#include "load/oldest.h"

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_oldest_ready);
PG_FUNCTION_INFO_V1(pgq_blocked_jobs);
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

/* Internal function for the view queue_status: returns the number of blocked jobs of the queue. */
PGDLLEXPORT Datum
pgq_blocked_jobs(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.blocked_jobs()");
	require_reader(fcinfo, {"queue_status"});
	QueueRef ref;
	QueueCopy copy;
	if (!given(fcinfo, 0) || !find_attached_queue(tables().database, PG_GETARG_INT32(0), &ref) ||
		!may_see(ref.queue_id) || !copy_queue(ref, &copy) || !copy.counted)
		PG_RETURN_NULL();
	/* For a moment the number may be negative: see put_queue(). */
	PG_RETURN_INT64(Max(copy.blocked, INT64CONST(0)));
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
