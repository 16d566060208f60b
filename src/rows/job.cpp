#include "rows/job.h"

namespace pgq {

Datum
group_id_of(Datum group_key)
{
	int64 hash = DatumGetInt64(DirectFunctionCall2Coll(hashtextextended, DEFAULT_COLLATION_OID,
													   group_key, Int64GetDatum(0)));
	/* Never return 0, which means "no group" in a hint. */
	return Int64GetDatum(hash | 1);
}

Hint
hint_of(HeapTuple tuple, TupleDesc desc, uint16 segment)
{
	bool is_null;
	auto get = [&](JobColumn column) { return heap_getattr(tuple, column, desc, &is_null); };
	Hint hint{};
	hint.key = {DatumGetInt32(get(kJobPriority)), DatumGetTimestampTz(get(kJobRunAt)),
				DatumGetInt64(get(kJobId))};
	hint.place = place_of(tuple->t_self, segment);
	hint.delayed = is_delayed(hint.key.run_at, DatumGetTimestampTz(get(kJobEnqueuedAt)),
							  DatumGetInt32(get(kJobAttempts)));
	int64 group_id = DatumGetInt64(get(kJobGroupId));
	hint.group = is_null ? 0 : group_id;
	return hint;
}

static bool
has_batch_column(TupleDesc desc, int column)
{
	return desc->natts >= column && !TupleDescAttr(desc, column - 1)->attisdropped;
}

int64
read_batch(HeapTuple tuple, TupleDesc desc, int column)
{
	if (!has_batch_column(desc, column))
		return 0;
	bool is_null;
	Datum batch = heap_getattr(tuple, column, desc, &is_null);
	return is_null ? 0 : DatumGetInt64(batch);
}

bool
is_blocked(HeapTuple tuple, TupleDesc desc)
{
	return has_batch_column(desc, kJobBlocked) && !heap_attisnull(tuple, kJobBlocked, desc);
}

SchedulingColumns
scheduling_columns_of(HeapTuple tuple, TupleDesc desc)
{
	bool is_null;
	auto value = [&](JobColumn column) { return heap_getattr(tuple, column, desc, &is_null); };
	TimestampTz run_at = DatumGetTimestampTz(value(kJobRunAt));
	return {.queue_id = DatumGetInt32(value(kJobQueueId)),
			.run_at = run_at,
			.delayed = is_delayed(run_at, DatumGetTimestampTz(value(kJobEnqueuedAt)),
								  DatumGetInt32(value(kJobAttempts))),
			.batch_id = batch_of(tuple, desc)};
}

void
copy_row(Relation rel, HeapTuple tuple, int segment, JobRow *row)
{
	row->tuple = heap_copytuple(tuple);
	row->place = place_of(tuple->t_self, segment);
	/*
	 * check_columns() has verified the extension's own columns. Columns after the extension's own
	 * columns were dropped, so their values do not matter.
	 */
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	heap_deform_tuple(row->tuple, RelationGetDescr(rel), values, nulls);
	/* A table that was updated from version 0.1 may end before batch_id, or have dropped columns there. */
	if (!has_batch_column(RelationGetDescr(rel), kJobBatch))
		for (int i = kJobBatch - 1; i < kJobColumns; i++)
			nulls[i] = true;
	memcpy(row->values, values, sizeof(row->values));
	memcpy(row->nulls, nulls, sizeof(row->nulls));
}

} // namespace pgq
