#include "catalog/queue_columns.h"

#include "catalog/column.h"
#include "catalog/option_value.h"

namespace pgq {

namespace {
struct QueueColumns
{
	Column list[kQueueColumns];
};

} // namespace
static constexpr int
column_of_option(int i)
{
	return is_later_option(i) ? kQueueLaterOption + i - kFirstOptions : kQueueFirstOption + i;
}

/* In a stored row any column may be NULL, which read_row() and read_options() handle. */
static constexpr QueueColumns queue_columns = [] {
	QueueColumns columns{};
	columns.list[kQueueId - 1] = {"queue_id", INT4OID, kOrNull};
	columns.list[kQueueName - 1] = {"queue", TEXTOID, kOrNull};
	for (int i = 0; i < kQueueOptions; i++)
		columns.list[column_of_option(i) - 1] = {queue_options[i].name,
												 type_of(queue_options[i].kind), kOrNull};
	columns.list[kQueueCreatedAt - 1] = {"created_at", TIMESTAMPTZOID, kOrNull};
	columns.list[kQueuePausedAt - 1] = {"paused_at", TIMESTAMPTZOID, kOrNull};
	return columns;
}();

/* Return whether the table has the columns of the later options. */
static bool
has_later_options(TupleDesc desc)
{
	int i = kQueueLaterOption - 1;
	return i < desc->natts && !TupleDescAttr(desc, i)->attisdropped &&
		   strcmp(NameStr(TupleDescAttr(desc, i)->attname), queue_columns.list[i].name) == 0;
}

Relation
open_queues(const Tables &t)
{
	/*
	 * Check the columns after the lock: an ALTER TABLE may have ended just before this transaction
	 * got it.
	 */
	Relation rel = table_open(t.queue, AccessShareLock);
	bool later = has_later_options(RelationGetDescr(rel));
	check_columns(rel, queue_columns.list, later ? kQueueColumns : kQueuePausedAt);
	return rel;
}

void
require_later_options(const Tables &t)
{
	Relation rel = open_queues(t);
	if (!has_later_options(RelationGetDescr(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"pgq_ext.queue\" has no column \"%s\"",
						queue_columns.list[kQueueLaterOption - 1].name),
				 errdetail("This database was updated from version 0.1 of pgq_ext."),
				 errhint("Let the owner of the extension call pgq_ext.add_queue_columns().")));
	table_close(rel, AccessShareLock);
}

QueueOptions
read_options(HeapTuple tuple, TupleDesc desc)
{
	QueueOptions options{};
	bool later = has_later_options(desc);
	for (int i = 0; i < kQueueOptions; i++)
	{
		const QueueOption &option = queue_options[i];
		bool is_null = true;
		Datum value = 0;
		if (later || !is_later_option(i))
			value = heap_getattr(tuple, column_of_option(i), desc, &is_null);
		if (is_null)
			value = value_from(type_of(option.kind), option.initial);
		set_option(&options, option, value);
	}
	return options;
}

} // namespace pgq
