#include "rows/batch_row.h"

#include "rows/index.h"
#include "rows/known_rows.h"
#include "rows/late_index.h"

namespace pgq {

static constinit LateIndex batch_by_id = {{"job_batch_pkey", {{kBatchId}}, nullptr}, true, 0, 0};

static BatchRow
batch_row_of(HeapTuple tuple, TupleDesc desc)
{
	bool no_maker;
	Datum maker = heap_getattr(tuple, kBatchMaker, desc, &no_maker);
	return {.maker = no_maker ? InvalidOid : DatumGetObjectId(maker),
			.closed = !heap_attisnull(tuple, kBatchClosedAt, desc),
			.finished = !heap_attisnull(tuple, kBatchFinishedAt, desc)};
}

/* The rows that this session has read: sessions add many jobs to one batch. */
static constinit KnownRows known_batches = {};

/* Read the row where it was found before. Only a version that nobody is changing is the newest. */
static bool
read_known_batch(Relation rel, int64 batch_id, BatchRow *batch)
{
	HeapTupleData tuple;
	Buffer buffer;
	if (!known_batches.lock(rel, batch_id, &tuple, &buffer))
		return false;
	*batch = batch_row_of(&tuple, RelationGetDescr(rel));
	UnlockReleaseBuffer(buffer);
	return true;
}

/*
 * Look at all versions of the row, and read the version that the snapshot sees. The scan itself does
 * not use the snapshot, so nothing is registered for serializable transactions.
 */
static bool
find_version(Relation rel, Oid index, int64 batch_id, Snapshot snapshot, BatchRow *batch)
{
	bool found = false;
	IndexLookup lookup;
	ScanKeyData key;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(batch_id));
	open_index_lookup(&lookup, rel, index, 1);
	index_rescan(lookup.scan, &key, 1, nullptr, 0);
	while (!found && next_version(&lookup))
	{
		found = HeapTupleSatisfiesVisibility(lookup.tuple, snapshot, lookup.buffer);
		if (found)
		{
			*batch = batch_row_of(lookup.tuple, RelationGetDescr(rel));
			known_batches.remember(batch_id, lookup.tuple->t_self, lookup.buffer);
		}
		unlock_version(&lookup);
	}
	end_index_lookup(&lookup);
	return found;
}

bool
find_batch(int64 batch_id, BatchRow *batch)
{
	Relation rel = table_open(look_at_tables().job_batch, AccessShareLock);
	bool found = read_known_batch(rel, batch_id, batch);
	if (!found)
	{
		check_first_columns(rel, batch_columns, std::size(batch_columns));
		Oid index = late_index(rel, &batch_by_id);
		Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
		found = find_version(rel, index, batch_id, snapshot, batch);
		UnregisterSnapshot(snapshot);
	}
	table_close(rel, NoLock);
	return found;
}

} // namespace pgq
