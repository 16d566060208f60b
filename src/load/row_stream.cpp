#include "load/row_stream.h"

#include "catalog/shape.h"

namespace pgq {

void
open_stream(RowStream *stream, SegmentSet &segments, int number, int32 queue_id, IndexName index,
			int keys)
{
	stream->has_row = false;
	stream->queue_id = queue_id;
	stream->segment = static_cast<uint16>(number);
	stream->opened = !segments.is_bare(number);
	if (!stream->opened)
		return;
	Relation rel = segments.open(number);
	open_index_lookup(&stream->lookup, rel, shape_of(rel, number).index[index], keys);
}

void
close_stream(RowStream *stream)
{
	if (stream->opened)
		end_index_lookup(&stream->lookup);
}

static bool
is_wanted(HeapTuple tuple, Buffer buffer)
{
	TransactionId dead_after;
	switch (HeapTupleSatisfiesVacuumHorizon(tuple, buffer, &dead_after))
	{
		case HEAPTUPLE_LIVE:
		case HEAPTUPLE_DELETE_IN_PROGRESS:
			return true;
		default:
			return false;
	}
}

/* Read the next row of the current scan. Returns false at the end of the scan. */
static bool
next_row(RowStream *stream)
{
	while (next_version(&stream->lookup))
	{
		bool wanted = is_wanted(stream->lookup.tuple, stream->lookup.buffer);
		if (wanted)
			stream->row = hint_of(stream->lookup.tuple, stream->lookup.slot->tts_tupleDescriptor,
								  stream->segment);
		unlock_version(&stream->lookup);
		CHECK_FOR_INTERRUPTS();
		if (wanted)
			return true;
	}
	return false;
}

static void
equals(ScanKeyData *key, AttrNumber column, int32 value)
{
	ScanKeyInit(key, column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

/*
 * Set *key to the row comparison (run_at, job_id) >= start. A comparison of run_at alone would be
 * too slow: a million jobs may have the same run_at, and each scan would read all of these jobs up
 * to `start`.
 */
static void
starts_at(ScanKeyData *key, RowStream *stream, AttrNumber column, const TimerKey &start)
{
	ScanKeyEntryInitialize(&stream->from[0], SK_ROW_MEMBER, column, BTGreaterEqualStrategyNumber,
						   TIMESTAMPTZOID, InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(start.run_at));
	ScanKeyEntryInitialize(&stream->from[1], SK_ROW_MEMBER | SK_ROW_END, column + 1,
						   BTGreaterEqualStrategyNumber, INT8OID, InvalidOid, F_BTINT8CMP,
						   Int64GetDatum(start.job_id));
	*key = {};
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = column;
	key->sk_strategy = BTGreaterEqualStrategyNumber;
	key->sk_argument = PointerGetDatum(stream->from);
}

/* ---- in the order of the window ---- */

static constexpr int kOrderKeysMax = 4;

/* Set the scan keys of the index columns before the priority. Returns the number of keys set. */
int
OrderScan::begin_keys(ScanKeyData *keys, const RowStream *stream) const
{
	equals(&keys[0], 1, stream->queue_id);
	if (group == 0)
		return 1;
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group));
	return 2;
}

void
OrderScan::begin(RowStream *stream) const
{
	ScanKeyData keys[kOrderKeysMax];
	int n = begin_keys(keys, stream);
	auto priority = static_cast<AttrNumber>(n + 1);
	equals(&keys[n++], priority, start.priority);
	starts_at(&keys[n++], stream, static_cast<AttrNumber>(priority + 1),
			  {start.run_at, start.job_id});
	index_rescan(stream->lookup.scan, keys, n, nullptr, 0);
	stream->priority = start.priority;
	stream->one_priority = true;
}

/* Start a scan of all priorities below `priority`. */
void
OrderScan::begin_below(RowStream *stream, int32 priority) const
{
	ScanKeyData keys[kOrderKeysMax];
	/*
	 * This scan needs one key less than the scan of begin(), but all scans of an index lookup have
	 * the same number of keys. So the first two keys are the same comparison.
	 */
	equals(&keys[0], 1, stream->queue_id);
	int n = begin_keys(&keys[1], stream) + 1;
	auto column = static_cast<AttrNumber>(n);
	ScanKeyInit(&keys[n++], column, BTLessStrategyNumber, F_INT4LT, Int32GetDatum(priority));
	index_rescan(stream->lookup.scan, keys, n, nullptr, 0);
	stream->one_priority = false;
}

static bool
is_due_row(const Hint &row, int64 due_line, int64 horizon)
{
	return row.key.run_at <= due_line || (!row.delayed && row.key.run_at <= horizon);
}

bool
OrderScan::is_due(const Hint &row) const
{
	return is_due_row(row, due_line, horizon);
}

/*
 * Go to the next due row. Within a priority, rows come in the order of run_at. If the run_at of a
 * row is after the horizon, no later row of the priority is due, so the scan continues with the
 * next lower priority.
 */
void
OrderScan::advance(RowStream *stream) const
{
	static constexpr int kMostSkipped = 1024;
	stream->has_row = false;
	for (int skipped = 0;;)
	{
		bool found = next_row(stream);
		if (!found && !stream->one_priority)
			return;
		if (found)
		{
			stream->priority = stream->row.key.priority;
			bool skip = ungrouped && stream->row.group != 0 && ++skipped <= kMostSkipped;
			stream->has_row = is_due(stream->row) && !skip;
			if (stream->has_row)
				return;
			if (stream->row.key.run_at <= horizon)
				continue;
		}
		begin_below(stream, stream->priority);
	}
}

/* ---- in the order of groups ---- */

void
GroupScan::begin(RowStream *stream) const
{
	ScanKeyData keys[3];
	equals(&keys[0], 1, stream->queue_id);
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	ScanKeyInit(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(to));
	index_rescan(stream->lookup.scan, keys, lengthof(keys), nullptr, 0);
	stream->one_group = false;
}

/* Start a scan of the groups after the group of the present row. */
void
GroupScan::begin_after(RowStream *stream) const
{
	ScanKeyData keys[3];
	equals(&keys[0], 1, stream->queue_id);
	ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(stream->row.group));
	ScanKeyInit(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(to));
	index_rescan(stream->lookup.scan, keys, lengthof(keys), nullptr, 0);
	stream->one_group = false;
}

/* Start a scan of all lower priorities of the group of the present row. */
void
GroupScan::begin_below(RowStream *stream) const
{
	ScanKeyData keys[3];
	equals(&keys[0], 1, stream->queue_id);
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(stream->row.group));
	ScanKeyInit(&keys[2], 3, BTLessStrategyNumber, F_INT4LT,
				Int32GetDatum(stream->row.key.priority));
	index_rescan(stream->lookup.scan, keys, lengthof(keys), nullptr, 0);
	stream->one_group = true;
}

/*
 * Go to the next due row. If the run_at of a row is after the horizon, no later row of the same group
 * and priority is due, so the scan continues with the next lower priority of the group.
 */
void
GroupScan::advance(RowStream *stream) const
{
	stream->has_row = false;
	for (;;)
	{
		bool found = next_row(stream);
		if (!found && !stream->one_group)
			return;
		if (!found)
			begin_after(stream);
		else if (is_due_row(stream->row, due_line, horizon))
		{
			stream->has_row = true;
			return;
		}
		else if (stream->row.key.run_at > horizon)
			begin_below(stream);
	}
}

void
GroupScan::skip_group(RowStream *stream) const
{
	begin_after(stream);
	advance(stream);
}

/* ---- in the order of the timer ---- */

void
DelayedScan::begin(RowStream *stream) const
{
	ScanKeyData columns[2];
	equals(&columns[0], 1, stream->queue_id);
	starts_at(&columns[1], stream, 2, start);
	index_rescan(stream->lookup.scan, columns, keys(), nullptr, 0);
}

void
DelayedScan::advance(RowStream *stream) const
{
	stream->has_row = next_row(stream);
}

} // namespace pgq
