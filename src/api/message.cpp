/*
 * Functions of the extension pgmq, except those that claim (message_read.cpp): send, delete, archive,
 * set_vt. Their SQL declarations are in /pgmq/schema.
 */
#include "api/args.h"
#include "api/message_args.h"
#include "api/result_rows.h"
#include "catalog/rights.h"
#include "jobs/change.h"
#include "mq/change.h"
#include "mq/send.h"
#include "pg/clock.h"

#include <algorithm>

namespace pgq {

/* ---- arguments ---- */

void
require_change(const MessageQueue &queue)
{
	char name[kQueueNameMax + 1] = "";
	if (may(Permission::kChange, queue.queue_id))
		return;
	(void) copy_name(jobs_of(queue), name);
	require_right(Permission::kChange, queue.queue_id, name);
}

MessageQueue
message_queue(FunctionCallInfo fcinfo, AclMode needed)
{
	Oid schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	MessageQueue queue =
		find_message_queue(schema, DatumGetTextPP(required(fcinfo, 0, "queue_name")), needed);
	if ((needed & (ACL_UPDATE | ACL_DELETE)) != 0)
		require_change(queue);
	return queue;
}

/* Return the time that is that many seconds from now. */
static TimestampTz
after_seconds(int32 seconds)
{
	return wall_now() + seconds * USECS_PER_SEC;
}

static Datum
value_or_null(FunctionCallInfo fcinfo, int i)
{
	return given(fcinfo, i) ? PG_GETARG_DATUM(i) : Datum{0};
}

static TimestampTz
time_argument(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (!given(fcinfo, i))
		ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("%s must not be null", name)));
	return PG_GETARG_TIMESTAMPTZ(i);
}

static TimestampTz
seconds_argument(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (!given(fcinfo, i))
		ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("%s must not be null", name)));
	return after_seconds(PG_GETARG_INT32(i));
}

/* seconds_argument or time_argument */
using TimeArgument = TimestampTz (*)(FunctionCallInfo fcinfo, int i, const char *name);

/*
 * Return the ids of the array without NULLs and duplicates. The order is ascending, so that two calls
 * cannot deadlock.
 */
static int
message_ids(FunctionCallInfo fcinfo, int i, Datum **ids)
{
	if (!given(fcinfo, i))
		return 0;
	bool *nulls;
	int elements;
	int n = 0;
	deconstruct_array(DatumGetArrayTypeP(PG_GETARG_DATUM(i)), INT8OID, sizeof(int64),
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, ids, &nulls, &elements);
	for (int element = 0; element < elements; element++)
		if (!nulls[element])
			(*ids)[n++] = (*ids)[element];
	std::sort(*ids, *ids + n, [](Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); });
	n = static_cast<int>(std::unique(*ids, *ids + n) - *ids);
	return n;
}

/* Call visit(id) for each id, and free the memory that the call has used. */
template <typename Visit>
static void
for_each_id(const Datum *ids, int n, Visit visit)
{
	MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "pgmq messages", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		visit(ids[i]);
		MemoryContextReset(scratch);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
}

/* ---- send ---- */

static Datum
send_one(FunctionCallInfo fcinfo, Datum headers, TimestampTz vt)
{
	start_write("pgmq.send()");
	MessageQueue queue = message_queue(fcinfo, ACL_INSERT);
	NewMessage message = {value_or_null(fcinfo, 1), headers};
	int64 id;
	send_messages(queue, &message, 1, vt, &id);
	notify_of_insert(fcinfo, queue);
	PG_RETURN_INT64(id);
}

/* Deconstruct an array of jsonb, whose elements may be NULL: then the element is 0. */
static int
bodies_of(Datum array, Datum **bodies)
{
	bool *nulls;
	int n;
	deconstruct_array(DatumGetArrayTypeP(array), JSONBOID, -1, false, TYPALIGN_INT, bodies, &nulls,
					  &n);
	for (int i = 0; i < n; i++)
		if (nulls[i])
			(*bodies)[i] = Datum{0};
	return n;
}

/* Raise the errors of pgmq._validate_batch_params(), which the original has. */
static void
check_batch(int n, bool has_headers, int n_headers)
{
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION), errmsg("msgs cannot be NULL or empty")));
	if (has_headers && n_headers != n)
		ereport(ERROR, (errcode(ERRCODE_RAISE_EXCEPTION),
						errmsg("headers array length (%d) must match msgs array length (%d)",
							   n_headers, n)));
}

/*
 * Send the messages of an array. with_headers: argument 2 is their headers. moment: reads the last argument,
 * the delay; nullptr: there is none.
 */
static Datum
send_many(FunctionCallInfo fcinfo, bool with_headers, TimeArgument moment)
{
	start_write("pgmq.send_batch()");
	ResultRows result(fcinfo);
	Datum *bodies = nullptr;
	Datum *headers = nullptr;
	with_headers = with_headers && given(fcinfo, 2);
	int n = given(fcinfo, 1) ? bodies_of(PG_GETARG_DATUM(1), &bodies) : 0;
	int n_headers = with_headers ? bodies_of(PG_GETARG_DATUM(2), &headers) : 0;
	check_batch(n, with_headers, n_headers);
	MessageQueue queue = message_queue(fcinfo, ACL_INSERT);
	TimestampTz vt = moment != nullptr ? moment(fcinfo, PG_NARGS() - 1, "delay") : DT_NOBEGIN;
	auto *messages = static_cast<NewMessage *>(palloc(n * sizeof(NewMessage)));
	auto *ids = static_cast<int64 *>(palloc(n * sizeof(int64)));
	for (int i = 0; i < n; i++)
		messages[i] = {bodies[i], with_headers ? headers[i] : Datum{0}};
	send_messages(queue, messages, n, vt, ids);
	for (int i = 0; i < n; i++)
		result.put(Int64GetDatum(ids[i]));
	notify_of_insert(fcinfo, queue);
	return (Datum) 0;
}

/* ---- archive ---- */

static constexpr char archive_statement[] =
	"INSERT INTO %s (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7)";

/*
 * Insert the ended message into the archive, with the rights of the caller. The archive is a table of
 * the user, who may have added triggers.
 */
static void
keep_in_archive(const char *statement, const Message &message)
{
	Oid types[kMessageColumns] = {INT8OID,		  INT4OID,	TIMESTAMPTZOID, TIMESTAMPTZOID,
								  TIMESTAMPTZOID, JSONBOID, JSONBOID};
	char nulls[kMessageColumns + 1] = {};
	Datum values[kMessageColumns];
	for (int i = 0; i < kMessageColumns; i++)
	{
		values[i] = message.values[i];
		nulls[i] = message.nulls[i] ? 'n' : ' ';
	}
	SPI_connect();
	if (SPI_execute_with_args(statement, kMessageColumns, types, values, nulls, false, 0) !=
		SPI_OK_INSERT)
		elog(ERROR, "could not insert into the archive");
	SPI_finish();
}

/* Archive the messages; call archived(id) for each. */
template <typename Archived>
static void
archive(FunctionCallInfo fcinfo, Datum *ids, int n, Archived archived)
{
	MessageQueue queue = message_queue(fcinfo, ACL_DELETE);
	char *table = get_rel_name(queue.view);
	Oid schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	if (table == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the queue was dropped")));
	table[0] = 'a';
	char *statement =
		psprintf(archive_statement, quote_qualified_identifier(get_namespace_name(schema), table));
	for_each_id(ids, n, [&](Datum id) {
		Message message;
		if (!end_message(queue, DatumGetInt64(id), &message))
			return;
		keep_in_archive(statement, message);
		archived(id);
	});
}

/* ---- set_vt ---- */

static void
set_times(FunctionCallInfo fcinfo, Datum *ids, int n, TimeArgument moment)
{
	MessageQueue queue = message_queue(fcinfo, ACL_UPDATE);
	ResultRows result(fcinfo, "message_record", message_columns);
	TimestampTz vt = given(fcinfo, 2) ? moment(fcinfo, 2, "vt") : 0;
	for_each_id(ids, n, [&](Datum id) {
		Message message;
		/* As in a table, a NULL is an error only if there is a row to write. */
		if (!given(fcinfo, 2) && !read_message(queue, DatumGetInt64(id), false, &message))
			return;
		if (!given(fcinfo, 2))
			(void) moment(fcinfo, 2, "vt"); /* raises the error */
		if (set_message_time(queue, DatumGetInt64(id), vt) &&
			read_message(queue, DatumGetInt64(id), true, &message))
			result.put_values(message.values, message.nulls, kMessageColumns);
	});
}

static Datum
set_time(FunctionCallInfo fcinfo, TimeArgument moment)
{
	start_write("pgmq.set_vt()");
	Datum id = value_or_null(fcinfo, 1);
	set_times(fcinfo, &id, given(fcinfo, 1) ? 1 : 0, moment);
	return (Datum) 0;
}

static Datum
set_time_of_many(FunctionCallInfo fcinfo, TimeArgument moment)
{
	start_write("pgmq.set_vt()");
	Datum *ids = nullptr;
	int n = message_ids(fcinfo, 1, &ids);
	set_times(fcinfo, ids, n, moment);
	return (Datum) 0;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_mq_send);
PG_FUNCTION_INFO_V1(pgq_mq_send_headers);
PG_FUNCTION_INFO_V1(pgq_mq_send_in);
PG_FUNCTION_INFO_V1(pgq_mq_send_at);
PG_FUNCTION_INFO_V1(pgq_mq_send_headers_in);
PG_FUNCTION_INFO_V1(pgq_mq_send_headers_at);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch_headers);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch_in);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch_at);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch_headers_in);
PG_FUNCTION_INFO_V1(pgq_mq_send_batch_headers_at);
PG_FUNCTION_INFO_V1(pgq_mq_delete);
PG_FUNCTION_INFO_V1(pgq_mq_delete_many);
PG_FUNCTION_INFO_V1(pgq_mq_archive);
PG_FUNCTION_INFO_V1(pgq_mq_archive_many);
PG_FUNCTION_INFO_V1(pgq_mq_set_vt);
PG_FUNCTION_INFO_V1(pgq_mq_set_vt_in);
PG_FUNCTION_INFO_V1(pgq_mq_set_vt_many);
PG_FUNCTION_INFO_V1(pgq_mq_set_vt_many_in);

/* send(queue_name, msg), and with headers, a delay in seconds, a time, or two of these. */
PGDLLEXPORT Datum
pgq_mq_send(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, Datum{0}, DT_NOBEGIN);
}

PGDLLEXPORT Datum
pgq_mq_send_headers(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, value_or_null(fcinfo, 2), DT_NOBEGIN);
}

PGDLLEXPORT Datum
pgq_mq_send_in(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, Datum{0}, seconds_argument(fcinfo, 2, "delay"));
}

PGDLLEXPORT Datum
pgq_mq_send_at(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, Datum{0}, time_argument(fcinfo, 2, "delay"));
}

PGDLLEXPORT Datum
pgq_mq_send_headers_in(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, value_or_null(fcinfo, 2), seconds_argument(fcinfo, 3, "delay"));
}

PGDLLEXPORT Datum
pgq_mq_send_headers_at(PG_FUNCTION_ARGS)
{
	return send_one(fcinfo, value_or_null(fcinfo, 2), time_argument(fcinfo, 3, "delay"));
}

/* send_batch(queue_name, msgs), and with headers, a delay in seconds, a time, or two of these. */
PGDLLEXPORT Datum
pgq_mq_send_batch(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, false, nullptr);
}

PGDLLEXPORT Datum
pgq_mq_send_batch_headers(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, true, nullptr);
}

PGDLLEXPORT Datum
pgq_mq_send_batch_in(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, false, seconds_argument);
}

PGDLLEXPORT Datum
pgq_mq_send_batch_at(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, false, time_argument);
}

PGDLLEXPORT Datum
pgq_mq_send_batch_headers_in(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, true, seconds_argument);
}

PGDLLEXPORT Datum
pgq_mq_send_batch_headers_at(PG_FUNCTION_ARGS)
{
	return send_many(fcinfo, true, time_argument);
}

PGDLLEXPORT Datum
pgq_mq_delete(PG_FUNCTION_ARGS)
{
	start_write("pgmq.delete()");
	MessageQueue queue = message_queue(fcinfo, ACL_DELETE);
	PG_RETURN_BOOL(given(fcinfo, 1) && end_message(queue, PG_GETARG_INT64(1), nullptr));
}

PGDLLEXPORT Datum
pgq_mq_delete_many(PG_FUNCTION_ARGS)
{
	start_write("pgmq.delete()");
	MessageQueue queue = message_queue(fcinfo, ACL_DELETE);
	ResultRows result(fcinfo);
	Datum *ids = nullptr;
	int n = message_ids(fcinfo, 1, &ids);
	SegmentSet segments(RowExclusiveLock);
	for_each_id(ids, n, [&](Datum msg_id) {
		Records records;
		int64 id = DatumGetInt64(msg_id);
		if (queue.has(id) && finish_job(segments, records, queue.job_id(id)))
			result.put(msg_id);
		records.write();
	});
	segments.close_unwritten();
	return (Datum) 0;
}

PGDLLEXPORT Datum
pgq_mq_archive(PG_FUNCTION_ARGS)
{
	start_write("pgmq.archive()");
	bool done = false;
	Datum id = value_or_null(fcinfo, 1);
	archive(fcinfo, &id, given(fcinfo, 1) ? 1 : 0, [&](Datum) { done = true; });
	PG_RETURN_BOOL(done);
}

PGDLLEXPORT Datum
pgq_mq_archive_many(PG_FUNCTION_ARGS)
{
	start_write("pgmq.archive()");
	ResultRows result(fcinfo);
	Datum *ids = nullptr;
	int n = message_ids(fcinfo, 1, &ids);
	archive(fcinfo, ids, n, [&](Datum id) { result.put(id); });
	return (Datum) 0;
}

/* set_vt of one message and of several, to a time and to a number of seconds from now. */
PGDLLEXPORT Datum
pgq_mq_set_vt(PG_FUNCTION_ARGS)
{
	return set_time(fcinfo, time_argument);
}

PGDLLEXPORT Datum
pgq_mq_set_vt_in(PG_FUNCTION_ARGS)
{
	return set_time(fcinfo, seconds_argument);
}

PGDLLEXPORT Datum
pgq_mq_set_vt_many(PG_FUNCTION_ARGS)
{
	return set_time_of_many(fcinfo, time_argument);
}

PGDLLEXPORT Datum
pgq_mq_set_vt_many_in(PG_FUNCTION_ARGS)
{
	return set_time_of_many(fcinfo, seconds_argument);
}
}
