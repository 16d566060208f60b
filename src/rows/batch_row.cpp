#include "rows/batch_row.h"

#include "rows/index.h"
#include "rows/known_place.h"
#include "rows/late_index.h"
#include "rows/visibility.h"

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

namespace {

/* A batch that this session has read last: sessions add many jobs to one batch. */
struct KnownBatch
{
	KnownPlace place;
	TransactionId xmin;
	BatchRow row;
};

} // namespace

static constinit Known<KnownBatch> known_batches = {};

/*
 * Return whether this is the newest state of its row: its inserter has committed, and nobody has
 * locked, replaced or deleted it since. Asks only the hint bits: find_version() sets them.
 */
static bool
is_untouched(HeapTupleHeader header)
{
	return (header->t_infomask & HEAP_XMIN_COMMITTED) && (header->t_infomask & HEAP_XMAX_INVALID);
}

const BatchRow *
last_seen(int64 batch_id)
{
	const KnownBatch &known = known_batches.of(batch_id);
	return known.place.batch_id == batch_id ? &known.row : nullptr;
}

/*
 * The table is not locked, which would cost more than all the rest. So first learn whether the table
 * has another file. A session that is about to give it one keeps a lock with which nobody changes the
 * row. So the version in the old file was the newest one when this function was called.
 */
bool
find_again(int64 batch_id, BatchRow *batch)
{
	AcceptInvalidationMessages();
	const KnownBatch &known = known_batches.of(batch_id);
	HeapTupleData tuple;
	if (!lock_known(known.place, batch_id, &tuple))
		return false;
	bool same = HeapTupleHeaderGetRawXmin(tuple.t_data) == known.xmin && is_untouched(tuple.t_data);
	if (same)
		*batch = known.row;
	UnlockReleaseBuffer(known.place.buffer);
	return same;
}

/* Remember a version of the row. The page is locked. */
static void
remember_batch(Relation rel, int64 batch_id, HeapTuple tuple, Buffer buffer, const BatchRow &row)
{
	/* Sets the hint bits, if the transactions in the version have ended. */
	(void) visibility_of(tuple, buffer);
	known_batches.of(batch_id) = {place_known(rel, batch_id, tuple->t_self, buffer),
								  HeapTupleHeaderGetRawXmin(tuple->t_data), row};
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
			remember_batch(rel, batch_id, lookup.tuple, lookup.buffer, *batch);
		}
		unlock_version(&lookup);
	}
	end_index_lookup(&lookup);
	return found;
}

bool
find_batch(int64 batch_id, BatchRow *batch)
{
	if (find_again(batch_id, batch))
		return true;
	Relation rel = table_open(look_at_tables().job_batch(), AccessShareLock);
	check_first_columns(rel, batch_columns, std::size(batch_columns));
	Oid index = late_index(rel, &batch_by_id);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool found = find_version(rel, index, batch_id, snapshot, batch);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	return found;
}

} // namespace pgq
