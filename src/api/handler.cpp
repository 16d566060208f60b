/*
 * pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler; the trigger of
 * pgq_ext.queue_handler; and the function behind the view pgq_ext.handler.
 */
#include "api/args.h"
#include "api/result_rows.h"
#include "api/trigger_data.h"
#include "catalog/reader.h"
#include "catalog/rights.h"
#include "engine/handler_slot.h"
#include "engine/hold.h"
#include "handlers/handler_admin.h"
#include "load/attach.h"
#include "txn/effects.h"

namespace pgq {

static constexpr int kMaxWorkers = 1000;
static constexpr int kMaxBatch = 10000;

static char *
handled_queue(FunctionCallInfo fcinfo)
{
	return queue_name(required(fcinfo, 0, "queue"));
}

static void
set_handler(FunctionCallInfo fcinfo)
{
	enum
	{
		kQueue,
		kHandler,
		kWorkers,
		kTimeout,
		kBatch,
		kIdle,
		kRunAs,
	};
	HandlerRow row{};
	char *queue = handled_queue(fcinfo);
	row.function = DatumGetObjectId(required(fcinfo, kHandler, "handler"));
	row.workers =
		in_range(DatumGetInt32(required(fcinfo, kWorkers, "workers")), 1, kMaxWorkers, "workers");
	Datum timeout = required(fcinfo, kTimeout, "timeout");
	row.timeout = lease_time(timeout, "timeout");
	row.batch = in_range(DatumGetInt32(required(fcinfo, kBatch, "batch")), 1, kMaxBatch, "batch");
	Datum idle = required(fcinfo, kIdle, "idle");
	row.idle = duration(idle, "idle", USECS_PER_DAY);
	row.run_as = DatumGetObjectId(required(fcinfo, kRunAs, "run_as"));
	set_handler(queue, row, timeout, idle);
}

/* ---- the view ---- */

namespace {

enum class HandlerColumn
{
	kQueueId,
	kRunning,
	kState,
	kReason,
	kSince,
	kNextTryAt,
	kCalls,
	kFailures,
	kLastError,
	kFailuresInRow,
	kColumns
};

} // namespace

static const char *
state_of(const QueueHandler &handler)
{
	switch (handler.setup.state)
	{
		case HandlerSetup::kPaused:
			return "paused";
		case HandlerSetup::kSuspended:
			return "suspended";
		case HandlerSetup::kActive:
		case HandlerSetup::kNone:
			break;
	}
	if (handler.wants_slot && handler.places == 0)
		return "waiting for a worker slot";
	return handler.places > 0 ? "active" : "idle";
}

static void
put_handler(ResultRows *rows, const QueueRef &ref, bool with_errors)
{
	using enum HandlerColumn;
	QueueHandler handler;
	if (!look_at_queue(ref, [&](const Queue &queue) { handler = queue.handler; }) ||
		handler.setup.state == HandlerSetup::kNone)
		return;
	bool rests = handler.call_after > monotonic_now();
	ResultRow<HandlerColumn> row;
	row.set(kQueueId, ref.queue_id);
	row.set(kRunning, handler.places);
	row.set(kState, state_of(handler));
	row.set_if(handler.setup.reason[0] != '\0', kReason, handler.setup.reason);
	row.set_if(handler.setup.state != HandlerSetup::kActive, kSince, handler.since);
	row.set_if(rests, kNextTryAt, handler.call_after_wall);
	row.set(kCalls, handler.calls);
	row.set(kFailures, handler.failures);
	row.set_if(with_errors && handler.last_error[0] != '\0', kLastError, handler.last_error);
	row.set(kFailuresInRow, handler.failures_in_row);
	rows->put(row);
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_set_handler);
PG_FUNCTION_INFO_V1(pgq_drop_handler);
PG_FUNCTION_INFO_V1(pgq_pause_handler);
PG_FUNCTION_INFO_V1(pgq_resume_handler);
PG_FUNCTION_INFO_V1(pgq_queue_handler_changed);
PG_FUNCTION_INFO_V1(pgq_handler_entries);

PGDLLEXPORT Datum
pgq_set_handler(PG_FUNCTION_ARGS)
{
	start_write("pgq_set_handler()");
	set_handler(fcinfo);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_drop_handler(PG_FUNCTION_ARGS)
{
	start_write("pgq_drop_handler()");
	PG_RETURN_BOOL(drop_handler(handled_queue(fcinfo)));
}

PGDLLEXPORT Datum
pgq_pause_handler(PG_FUNCTION_ARGS)
{
	start_write("pgq_pause_handler()");
	pause_handler(handled_queue(fcinfo));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_resume_handler(PG_FUNCTION_ARGS)
{
	start_write("pgq_resume_handler()");
	resume_handler(handled_queue(fcinfo));
	PG_RETURN_VOID();
}

/*
 * Trigger of pgq_ext.queue_handler for each row, and for TRUNCATE; also fires for logical
 * replication.
 */
PGDLLEXPORT Datum
pgq_queue_handler_changed(PG_FUNCTION_ARGS)
{
	const TriggerData *data = trigger_data(fcinfo, "queue_handler_changed");
	if (shared != nullptr)
		note_changed_definitions();
	return PointerGetDatum(row_of(data));
}

PGDLLEXPORT Datum
pgq_handler_entries(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.handler_entries()");
	require_reader(fcinfo, {"handler", "job_status"});
	ResultRows rows(fcinfo);
	bool with_errors = may_read("handler", "last_error");
	for_each_visible_queue(tables().database,
						   [&](const QueueRef &ref) { put_handler(&rows, ref, with_errors); });
	return (Datum) 0;
}
}
