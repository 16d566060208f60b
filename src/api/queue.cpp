/*
 * pgq_create_queue, pgq_drop_queue, pgq_purge_queue.
 */
#include "api/args.h"
#include "catalog/queue_row.h"
#include "jobs/queue_admin.h"

namespace pgq {

/* An argument that is checked and passed on as it is, or its default if NULL. */
template <typename Check>
static SpiArgument
interval_or(FunctionCallInfo fcinfo, int i, const char *name, const char *initial, Check check)
{
	Datum value = given(fcinfo, i)
					  ? PG_GETARG_DATUM(i)
					  : DirectFunctionCall3(interval_in, CStringGetDatum(initial),
											ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	(void) check(value, name);
	return {INTERVALOID, value, false};
}

/* Options whose feature comes later accept nothing but their default. */
static void
only_default(FunctionCallInfo fcinfo, int i, const char *name, const char *initial)
{
	if (!given(fcinfo, i))
		return;
	Datum value = DirectFunctionCall3(interval_in, CStringGetDatum(initial),
									  ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	not_yet(!DatumGetBool(DirectFunctionCall2(interval_eq, PG_GETARG_DATUM(i), value)), name);
}

static bool
create_queue(FunctionCallInfo fcinfo)
{
	enum
	{
		kName,
		kLeaseTime,
		kMaxRuntime,
		kMaxAttempts,
		kBackoffBase,
		kBackoffMax,
		kBackoffJitter,
		kConcurrency,
		kGroupConcurrency,
		kLogAttempts,
		kKeepAttempts,
		kKeepFinished,
		kKeepDead,
		kNotify,
		kIfNotExists,
	};
	char *name = queue_name(required(fcinfo, kName, "queue"));
	not_yet(given(fcinfo, kConcurrency) && PG_GETARG_INT32(kConcurrency) != 0, "concurrency");
	not_yet(given(fcinfo, kGroupConcurrency) && PG_GETARG_INT32(kGroupConcurrency) != 0,
			"group_concurrency");
	not_yet(given(fcinfo, kLogAttempts) &&
				strcmp(text_to_cstring(PG_GETARG_TEXT_PP(kLogAttempts)), "failed") != 0,
			"log_attempts");
	only_default(fcinfo, kKeepAttempts, "keep_attempts", "7 days");
	only_default(fcinfo, kKeepFinished, "keep_finished", "0");

	int32 max_attempts = given(fcinfo, kMaxAttempts)
							 ? in_range(PG_GETARG_INT32(kMaxAttempts), 1, INT32_MAX, "max_attempts")
							 : 20;
	float8 backoff_jitter = given(fcinfo, kBackoffJitter)
								? jitter(PG_GETARG_FLOAT8(kBackoffJitter), "backoff_jitter")
								: 0.2;
	auto is_duration = [](Datum value, const char *option) { return duration(value, option); };
	bool notify = !given(fcinfo, kNotify) || PG_GETARG_BOOL(kNotify);
	const SpiArgument row[] = {
		{TEXTOID, CStringGetTextDatum(name), false},
		interval_or(fcinfo, kLeaseTime, "lease_time", "5 min", lease_time),
		interval_or(fcinfo, kMaxRuntime, "max_runtime", "0", max_runtime),
		{INT4OID, Int32GetDatum(max_attempts), false},
		interval_or(fcinfo, kBackoffBase, "backoff_base", "1 s", is_duration),
		interval_or(fcinfo, kBackoffMax, "backoff_max", "1 h", is_duration),
		{FLOAT8OID, Float8GetDatum(backoff_jitter), false},
		interval_or(fcinfo, kKeepDead, "keep_dead", "30 days", is_duration),
		{BOOLOID, BoolGetDatum(notify), false},
	};
	return create_queue(name, row, given(fcinfo, kIfNotExists) && PG_GETARG_BOOL(kIfNotExists));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_create_queue);
PG_FUNCTION_INFO_V1(pgq_drop_queue);
PG_FUNCTION_INFO_V1(pgq_purge_queue);
PG_FUNCTION_INFO_V1(pgq_is_leased);

PGDLLEXPORT Datum
pgq_create_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_create_queue()");
	PG_RETURN_BOOL(create_queue(fcinfo));
}

PGDLLEXPORT Datum
pgq_drop_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_drop_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	bool if_exists = given(fcinfo, 1) && PG_GETARG_BOOL(1);
	bool force = given(fcinfo, 2) && PG_GETARG_BOOL(2);
	PG_RETURN_BOOL(drop_queue(name, if_exists, force));
}

PGDLLEXPORT Datum
pgq_purge_queue(PG_FUNCTION_ARGS)
{
	start_write("pgq_purge_queue()");
	char *name = queue_name(required(fcinfo, 0, "queue"));
	PG_RETURN_INT64(purge_queue(resolve_queue_to_empty(name, nullptr)));
}

/* Internal: has anybody that job in hand? */
PGDLLEXPORT Datum
pgq_is_leased(PG_FUNCTION_ARGS)
{
	start_verb("pgq_ext.is_leased()");
	PG_RETURN_BOOL(is_in_hand(DatumGetInt64(required(fcinfo, 0, "job_id"))));
}
}
