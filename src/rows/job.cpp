#include "rows/job.h"

#include <algorithm>

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

/*
 * Read the extension's own columns, as heap_deform_tuple() does. But the server would look for a
 * default of each column after the end of the row (TupleFormer). Only a table that the owner has
 * altered has such defaults: ADD COLUMN with DEFAULT keeps the value for older rows in the catalog.
 */
static void
deform(HeapTuple tuple, TupleDesc desc, Datum *values, bool *nulls)
{
	/*
	 * check_columns() has verified the extension's own columns. Columns after them were dropped, so
	 * their values do not matter. A table that was updated from version 0.1 may end before
	 * batch_id, or have dropped columns there.
	 */
	int own = has_batch_column(desc, kJobBatch) ? kJobColumns : kJobBatch - 1;
	int n = Min(static_cast<int>(HeapTupleHeaderGetNatts(tuple->t_data)), own);
	const auto *bits = HeapTupleHasNulls(tuple) ? tuple->t_data->t_bits : nullptr;
	const char *data = reinterpret_cast<const char *>(tuple->t_data) + tuple->t_data->t_hoff;
	uint32 at = 0;
	std::fill_n(values, kJobColumns, Datum{0});
	std::fill_n(nulls, kJobColumns, true);
	for (int i = 0; i < n; i++)
	{
		nulls[i] = bits != nullptr && att_isnull(i, bits);
		if (nulls[i])
			continue;
		Form_pg_attribute column = TupleDescAttr(desc, i);
		at = att_align_pointer(at, column->attalign, column->attlen, data + at);
		values[i] = fetchatt(column, data + at);
		at = att_addlength_pointer(at, column->attlen, data + at);
	}
	if (unlikely(desc->constr != nullptr && desc->constr->missing != nullptr))
		for (int i = n; i < own; i++)
			values[i] = getmissingattr(desc, i + 1, &nulls[i]);
}

void
copy_row(Relation rel, HeapTuple tuple, int segment, JobRow *row)
{
	row->tuple = heap_copytuple(tuple);
	row->place = place_of(tuple->t_self, segment);
	deform(row->tuple, RelationGetDescr(rel), row->values, row->nulls);
}

} // namespace pgq
