/*
 * The INSTEAD OF trigger of the view of a queue: INSERT sends a message, UPDATE changes it, and DELETE
 * ends it. The executor has checked the caller's privileges on the view. The OID of the view leads to
 * the queue, so a trigger that calls this function on another relation raises an error.
 */
#include "api/args.h"
#include "api/message_args.h"
#include "api/trigger_data.h"
#include "mq/change.h"
#include "mq/send.h"

namespace pgq {

/* Read the columns of the view. */
static Message
message_of_row(const TriggerData *data, HeapTuple row)
{
	Message message;
	memset(message.nulls, true, sizeof(message.nulls));
	for (int i = 0; i < kMessageColumns; i++)
	{
		Datum value;
		if (value_of(data, row, message_columns[i].name, message_columns[i].type, &value))
			message.set(static_cast<MessageColumn>(i), value);
	}
	return message;
}

static void
refuse_nulls(const Message &message)
{
	using enum MessageColumn;
	for (MessageColumn column : {kReadCt, kEnqueuedAt, kVt})
		if (message.nulls[static_cast<int>(column)])
			ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
							errmsg("null value in column \"%s\" violates not-null constraint",
								   message_columns[static_cast<int>(column)].name)));
}

/*
 * Return the number of the column msg_id. Raises 55000 if it is missing or of another type: the owner of
 * the view may have renamed columns.
 */
static int
column_of_id(TupleDesc desc)
{
	int column = SPI_fnumber(desc, "msg_id");
	if (column <= 0 || SPI_gettypeid(desc, column) != INT8OID)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the view of a queue must have a column \"msg_id\" of type bigint"),
						errhint("Undo ALTER VIEW ... RENAME COLUMN.")));
	return column;
}

static HeapTuple
insert_row(const MessageQueue &queue, const TriggerData *data)
{
	TupleDesc desc = RelationGetDescr(data->tg_relation);
	int column = column_of_id(desc);
	Message message = message_of_row(data, data->tg_trigtuple);
	if (message.get(MessageColumn::kMsgId) != 0)
		ereport(ERROR, (errcode(ERRCODE_GENERATED_ALWAYS),
						errmsg("cannot insert a non-DEFAULT value into column \"msg_id\""),
						errdetail("The sequence of the queue gives out the ids.")));
	refuse_nulls(message);
	insert_message(queue, &message, false);
	bool is_null = false;
	return heap_modify_tuple_by_cols(data->tg_trigtuple, desc, 1, &column, &message.values[0],
									 &is_null);
}

static HeapTuple
update_row(const MessageQueue &queue, const TriggerData *data)
{
	Message before = message_of_row(data, data->tg_trigtuple);
	Message after = message_of_row(data, data->tg_newtuple);
	if (before.get(MessageColumn::kMsgId) != after.get(MessageColumn::kMsgId))
		ereport(ERROR, (errcode(ERRCODE_GENERATED_ALWAYS),
						errmsg("column \"msg_id\" can only be updated to DEFAULT")));
	refuse_nulls(after);
	return change_message(queue, before, after) ? data->tg_newtuple : nullptr;
}

} // namespace pgq

using namespace pgq;

extern "C" {
PG_FUNCTION_INFO_V1(pgq_mq_row);
PG_FUNCTION_INFO_V1(pgq_mq_adopt);

PGDLLEXPORT Datum
pgq_mq_row(PG_FUNCTION_ARGS)
{
	start_write("pgmq._row()");
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgmq._row() must be called as a trigger")));
	auto *data = reinterpret_cast<const TriggerData *>(fcinfo->context);
	if (!TRIGGER_FIRED_INSTEAD(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("pgmq._row() must be called by an INSTEAD OF trigger of a row")));
	MessageQueue queue = message_queue_of(get_func_namespace(fcinfo->flinfo->fn_oid),
										  RelationGetRelid(data->tg_relation));
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
	{
		HeapTuple row = insert_row(queue, data);
		notify_of_insert(fcinfo, queue);
		return PointerGetDatum(row);
	}
	require_change(queue);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return PointerGetDatum(update_row(queue, data));
	Message before = message_of_row(data, data->tg_trigtuple);
	bool ended = end_message(queue, DatumGetInt64(before.get(MessageColumn::kMsgId)), nullptr);
	return PointerGetDatum(ended ? data->tg_trigtuple : nullptr);
}

/*
 * Insert a message with the id that it had in a table of the original pgmq. Only the owner of the
 * extension may call it, since no check finds another message with that id.
 */
PGDLLEXPORT Datum
pgq_mq_adopt(PG_FUNCTION_ARGS)
{
	start_write("pgmq._adopt()");
	MessageQueue queue = message_queue_of(get_func_namespace(fcinfo->flinfo->fn_oid),
										  DatumGetObjectId(required(fcinfo, 0, "view")));
	Message message;
	memset(message.nulls, true, sizeof(message.nulls));
	for (int i = 0; i < kMessageColumns; i++)
		if (given(fcinfo, i + 1))
			message.set(static_cast<MessageColumn>(i), PG_GETARG_DATUM(i + 1));
	refuse_nulls(message);
	if (!queue.has(DatumGetInt64(message.get(MessageColumn::kMsgId))))
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("message id is out of range")));
	insert_message(queue, &message, true);
	PG_RETURN_VOID();
}
}
