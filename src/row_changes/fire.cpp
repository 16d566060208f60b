#include "row_changes/fire.h"

#include "pg/scope.h"
#include "row_changes/changed_row.h"
#include "row_changes/coalesced_keys.h"
#include "row_changes/job_sink.h"

namespace pgq {

namespace {

/* A statement whose changes are being enqueued. */
struct Firing
{
	const Watch *watch;
	RowJson *json;
	JobSink *sink;
	CoalescedKeys *keys; /* of a coalescing watch: the keys that were enqueued */
};

} // namespace

/* ---- single changes ---- */

static void
enqueue_change(void *context, ChangeOp op, TupleTableSlot *old_row, TupleTableSlot *new_row)
{
	auto *firing = static_cast<Firing *>(context);
	MemoryContext caller = MemoryContextSwitchTo(firing->sink->scratch());
	firing->sink->put(firing->json->payload(op, old_row, new_row));
	MemoryContextSwitchTo(caller);
}

static void
enqueue_key(Firing *firing, TupleTableSlot *row)
{
	MemoryContext caller = MemoryContextSwitchTo(firing->sink->scratch());
	Jsonb *payload = firing->json->payload_of_key(row);
	if (text *key = firing->keys->add(payload); key != nullptr)
		firing->sink->put_coalesced(payload, key);
	MemoryContextSwitchTo(caller);
}

/* ---- statements ---- */

static void
enqueue_rows(Firing *firing, ChangeOp op, RowReader *rows)
{
	while (rows->next())
		if (op == ChangeOp::kInsert)
			enqueue_change(firing, op, nullptr, rows->slot());
		else
			enqueue_change(firing, op, rows->slot(), nullptr);
}

/*
 * Enqueue the keys of all rows, old and new. Rows at the same place of both tables that are the
 * same are left out: whether they are versions of one row does not matter, since nothing has
 * changed then.
 */
static void
enqueue_keys(Firing *firing, RowReader *old_rows, RowReader *new_rows)
{
	for (;;)
	{
		bool has_old = old_rows->next();
		bool has_new = new_rows->next();
		if (!has_old && !has_new)
			return;
		if (has_old && has_new &&
			is_unchanged(firing->watch->columns, old_rows->slot(), new_rows->slot()))
			continue;
		if (has_old)
			enqueue_key(firing, old_rows->slot());
		if (has_new)
			enqueue_key(firing, new_rows->slot());
	}
}

static void
enqueue_statement(const Watch &watch, const TriggerData *data)
{
	/* The copy of the descriptor needs no reference count. */
	TupleDesc desc = CreateTupleDescCopyConstr(RelationGetDescr(data->tg_relation));
	RowReader old_rows(data->tg_oldtable, desc);
	RowReader new_rows(data->tg_newtable, desc);
	JobSink sink(watch);
	RowJson json(watch);
	CoalescedKeys keys;
	Firing firing = {&watch, &json, &sink, &keys};
	/* A topic that leads to no queue needs no JSON. */
	if (sink.is_idle())
		return sink.finish();
	if (watch.columns.coalescing)
		enqueue_keys(&firing, &old_rows, &new_rows);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		visit_updates(watch.columns, &old_rows, &new_rows, {enqueue_change, &firing});
	else if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		enqueue_rows(&firing, ChangeOp::kInsert, &new_rows);
	else
		enqueue_rows(&firing, ChangeOp::kDelete, &old_rows);
	sink.finish();
}

/* ---- triggers ---- */

/* Error context callback: name the trigger. */
static void
say_watch(void *context)
{
	const auto *data = static_cast<const TriggerData *>(context);
	errcontext("trigger \"%s\" of pgq_watch_table on table \"%s\"", data->tg_trigger->tgname,
			   RelationGetRelationName(data->tg_relation));
}

static bool
has_rows(Tuplestorestate *rows)
{
	return rows != nullptr && tuplestore_tuple_count(rows) > 0;
}

void
enqueue_row_changes(const TriggerData *data)
{
	require_transition_tables(data->tg_relation, *data->tg_trigger);
	if (!has_rows(data->tg_oldtable) && !has_rows(data->tg_newtable))
		return;
	ErrorContextCallback context = {error_context_stack, say_watch,
									const_cast<TriggerData *>(data)};
	error_context_stack = &context;
	MemoryContext memory =
		AllocSetContextCreate(CurrentMemoryContext, "pgq_ext watch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(memory);
	Watch watch = watch_that_fires(data->tg_relation, *data->tg_trigger);
	with_rights_of(watch.owner, [&] {
		set_output_settings();
		enqueue_statement(watch, data);
	});
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(memory);
	error_context_stack = context.previous;
}

} // namespace pgq
