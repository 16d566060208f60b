/*
 * The queues of the extension pgmq: creating and dropping them, and the functions behind their views.
 * Their SQL declarations are in /pgmq/schema/30_queues.sql.
 */
#include "admin/queue_admin.h"
#include "api/args.h"
#include "api/message_args.h"
#include "api/result_rows.h"
#include "catalog/option_value.h"
#include "catalog/owner_sql.h"
#include "catalog/queue_row.h"
#include "load/attach.h"
#include "mq/message.h"
#include "mq/queue.h"
#include "row_changes/watch_list.h"

namespace pgq {

static Oid
own_schema(FunctionCallInfo fcinfo)
{
	return get_func_namespace(fcinfo->flinfo->fn_oid);
}

/*
 * Call a function of this extension with the rights of the owner, and with the id of the caller as the
 * last argument. Returns the result of the function; 0 if it is NULL. All types are exact, so no
 * function that a user has added to the schema is called instead.
 */
template <int n>
static Datum
call_as_owner(FunctionCallInfo fcinfo, const char *function, const SpiArgument (&arguments)[n],
			  Oid result)
{
	Datum value{};
	StringInfoData call;
	initStringInfo(&call);
	appendStringInfo(&call, "SELECT %s.%s(",
					 quote_identifier(get_namespace_name(own_schema(fcinfo))), function);
	for (int i = 1; i <= n; i++)
		appendStringInfo(&call, "%s$%d", i > 1 ? ", " : "", i);
	appendStringInfoChar(&call, ')');
	as_owner([&] {
		bool is_null;
		(void) spi_execute(call.data, arguments);
		if (result != VOIDOID)
			value = spi_value(0, 1, result, &is_null);
	});
	return value;
}

/* ---- the queue of pgq_ext ---- */

namespace {
struct OptionText
{
	const char *name;
	const char *value;
};
} // namespace

/*
 * Options of queues of pgmq. A message can be read any number of times, and can be read again at once
 * after a failed read. No records are kept, and the extension sends its own notifications.
 */
static constexpr OptionText message_options[] = {
	{"lease_time", "30 s"},	 {"max_attempts", "2147483647"},
	{"backoff_base", "0"},	 {"backoff_max", "0"},
	{"backoff_jitter", "0"}, {"log_attempts", "none"},
	{"keep_attempts", "0"},	 {"keep_finished", "0"},
	{"notify", "false"},	 {"undo_rolled_back_claims", "true"},
};

static const char *
message_option(const QueueOption &option)
{
	for (const OptionText &own : message_options)
		if (strcmp(own.name, option.name) == 0)
			return own.value;
	return option.initial;
}

/* Create the queue of pgq_ext, unless it exists, and return its id. */
static int32
make_jobs(const char *name)
{
	Datum options[kQueueOptions] = {};
	QueueRef ref;
	for (int i = 0; i < kQueueOptions; i++)
		if (queue_options[i].is_argument)
			options[i] =
				value_from(type_of(queue_options[i].kind), message_option(queue_options[i]));
	(void) create_queue(name, options, true);
	if (!find_queue(tables(), name, &ref))
		elog(ERROR, "queue \"%s\" was not created", name);
	return ref.queue_id;
}

/* Drop the queue of pgq_ext. Returns false if there is none. */
static bool
drop_jobs(int32 queue_id)
{
	QueueRef ref;
	char name[kQueueNameMax + 1] = "";
	return attach_queue_by_id(tables(), queue_id, &ref) && copy_name(ref, name) &&
		   drop_queue(pstrdup(name), true, true, refuse_watched_queue);
}

/* ---- the view of a queue ---- */

static constexpr Column lease_columns[] = {
	{"read_ct", kInt4, kOrNull},
	{"last_read_at", kTimestamptz, kOrNull},
	{"vt", kTimestamptz, kOrNull},
};

static Datum
message_result(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc desc;
	if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "the function must return a row");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_mq_new_queue);
PG_FUNCTION_INFO_V1(pgq_mq_end_queue);
PG_FUNCTION_INFO_V1(pgq_mq_make_jobs);
PG_FUNCTION_INFO_V1(pgq_mq_drop_jobs);
PG_FUNCTION_INFO_V1(pgq_mq_partition);
PG_FUNCTION_INFO_V1(pgq_mq_queue);
PG_FUNCTION_INFO_V1(pgq_mq_may_read);
PG_FUNCTION_INFO_V1(pgq_mq_lease);
PG_FUNCTION_INFO_V1(pgq_mq_last_read);

PGDLLEXPORT Datum
pgq_mq_new_queue(PG_FUNCTION_ARGS)
{
	start_write("pgmq._new_queue()");
	const SpiArgument arguments[] = {
		{TEXTOID, required(fcinfo, 0, "queue_name"), false},
		{BOOLOID, required(fcinfo, 1, "partitioned"), false},
		{BOOLOID, required(fcinfo, 2, "unlogged"), false},
		{OIDOID, ObjectIdGetDatum(GetUserId()), false},
	};
	(void) call_as_owner(fcinfo, "_make_queue", arguments, VOIDOID);
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
pgq_mq_end_queue(PG_FUNCTION_ARGS)
{
	start_write("pgmq._end_queue()");
	const SpiArgument arguments[] = {
		{TEXTOID, required(fcinfo, 0, "queue_name"), false},
		{OIDOID, ObjectIdGetDatum(GetUserId()), false},
	};
	PG_RETURN_DATUM(call_as_owner(fcinfo, "_drop_queue", arguments, BOOLOID));
}

/* Create and drop the queue of pgq_ext. Only the owner of the extension may call these functions. */
PGDLLEXPORT Datum
pgq_mq_make_jobs(PG_FUNCTION_ARGS)
{
	start_write("pgmq._make_jobs()");
	PG_RETURN_INT32(make_jobs(TextDatumGetCString(PG_GETARG_DATUM(0))));
}

PGDLLEXPORT Datum
pgq_mq_drop_jobs(PG_FUNCTION_ARGS)
{
	start_write("pgmq._drop_jobs()");
	PG_RETURN_BOOL(drop_jobs(PG_GETARG_INT32(0)));
}

/* Call _call_partman() with the same arguments and the rights of the caller, and undo its changes of settings. */
PGDLLEXPORT Datum
pgq_mq_partition(PG_FUNCTION_ARGS)
{
	start_write("pgmq._partition()");
	Oid types[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID};
	Datum values[lengthof(types)];
	char nulls[lengthof(types)];
	for (int i = 0; i < static_cast<int>(lengthof(types)); i++)
	{
		values[i] = given(fcinfo, i) ? PG_GETARG_DATUM(i) : Datum{0};
		nulls[i] = given(fcinfo, i) ? ' ' : 'n';
	}
	char *call = psprintf("SELECT %s._call_partman($1, $2, $3, $4, $5)",
						  quote_identifier(get_namespace_name(own_schema(fcinfo))));
	int level = NewGUCNestLevel();
	spi_connect();
	if (SPI_execute_with_args(call, lengthof(types), types, values, nulls, false, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not call pg_partman");
	SPI_finish();
	AtEOXact_GUC(false, level);
	PG_RETURN_VOID();
}

/* Return the id of the queue of pgq_ext, and the sequence of the message ids. */
PGDLLEXPORT Datum
pgq_mq_queue(PG_FUNCTION_ARGS)
{
	start_verb("pgmq._queue()");
	MessageQueue queue =
		find_readable_queue(own_schema(fcinfo), DatumGetTextPP(required(fcinfo, 0, "queue_name")));
	Datum values[] = {Int32GetDatum(queue.queue_id), ObjectIdGetDatum(queue.sequence)};
	bool nulls[lengthof(values)] = {};
	PG_RETURN_DATUM(message_result(fcinfo, values, nulls));
}

/* Return whether the caller may read that column of the message of a job; NULL: any column. */
PGDLLEXPORT Datum
pgq_mq_may_read(PG_FUNCTION_ARGS)
{
	start_verb("pgmq._may_read()");
	Oid view =
		given(fcinfo, 0) ? view_of_message(own_schema(fcinfo), PG_GETARG_INT64(0)) : InvalidOid;
	const char *column = given(fcinfo, 1) ? TextDatumGetCString(PG_GETARG_DATUM(1)) : nullptr;
	PG_RETURN_BOOL(OidIsValid(view) && may_read_column(view, column));
}

/*
 * The part of a message that its lease decides, for the view of the queue: NULL if the job has no
 * lease, or if the caller may read none of these columns. A column that the caller may not read is NULL.
 */
PGDLLEXPORT Datum
pgq_mq_lease(PG_FUNCTION_ARGS)
{
	start_verb("pgmq._lease()");
	int64 job_id = DatumGetInt64(required(fcinfo, 0, "job_id"));
	LeaseCopy lease;
	Oid view;
	TupleDesc desc;
	if (!copy_message_lease(job_id, &lease) ||
		!OidIsValid(view = view_of_message(own_schema(fcinfo), job_id)))
		PG_RETURN_NULL();
	if (get_call_result_type(fcinfo, nullptr, &desc) == TYPEFUNC_COMPOSITE)
		check_row_type(desc, "_lease", lease_columns, lengthof(lease_columns));
	Datum values[] = {Int32GetDatum(lease.attempt), TimestampTzGetDatum(lease.claimed_at),
					  TimestampTzGetDatum(lease.expires_at)};
	bool nulls[lengthof(values)];
	bool any = false;
	for (int i = 0; i < static_cast<int>(lengthof(values)); i++)
	{
		nulls[i] = !may_read_column(view, lease_columns[i].name);
		any |= !nulls[i];
	}
	/* A row of NULLs would tell the caller that the message is being read. */
	if (!any)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(message_result(fcinfo, values, nulls));
}

/* Return the time of the lease whose token is in the fence of a row; NULL if there was none. */
PGDLLEXPORT Datum
pgq_mq_last_read(PG_FUNCTION_ARGS)
{
	TimestampTz time;
	if (!given(fcinfo, 0) || !last_read_at(PG_GETARG_INT64(0), &time))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(time);
}
}
