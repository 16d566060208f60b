#include "rows/batch_row.h"

#include "rows/index.h"
#include "rows/insert.h"
#include "rows/late_index.h"
#include "rows/tuple.h"

namespace pgq {

static constinit LateIndex batch_by_id = {{"job_batch_pkey", {{kBatchId}}, nullptr}, true, 0, 0};
static constinit LateIndex note_by_batch = {
	{"batch_note_by_batch", {{kNoteBatch}, {kNoteWhat}}, nullptr}, false, 0, 0};

/* ---- batches ---- */

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

/*
 * The place of the row that this session has read last. A session often adds many jobs to one
 * batch. The index is searched only if the snapshot does not see the version at this place.
 */
struct KnownPlace
{
	int64 batch_id;
	ItemPointerData tid;
};

} // namespace

static constinit KnownPlace known_place = {};

/*
 * Point *tuple to the version at the known place, on a page that the caller has locked. Returns false
 * if the place is free, or has another batch: places are reused.
 */
static bool
is_at_known_place(Relation rel, Page page, HeapTuple tuple)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&known_place.tid);
	if (offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page) ||
		!ItemIdIsNormal(PageGetItemId(page, offset)))
		return false;
	ItemId item = PageGetItemId(page, offset);
	tuple->t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_self = known_place.tid;
	tuple->t_tableOid = RelationGetRelid(rel);
	bool is_null;
	Datum batch_id = heap_getattr(tuple, kBatchId, RelationGetDescr(rel), &is_null);
	return !is_null && DatumGetInt64(batch_id) == known_place.batch_id;
}

/* Read the version at the known place, if it is of this batch, and the snapshot sees it. */
static bool
read_known_version(Relation rel, int64 batch_id, Snapshot snapshot, BatchRow *batch)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(&known_place.tid);
	if (batch_id != known_place.batch_id || block >= RelationGetNumberOfBlocks(rel))
		return false;
	HeapTupleData tuple;
	Buffer buffer = ReadBuffer(rel, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	bool found = is_at_known_place(rel, BufferGetPage(buffer), &tuple) &&
				 HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer);
	if (found)
		*batch = batch_row_of(&tuple, RelationGetDescr(rel));
	UnlockReleaseBuffer(buffer);
	return found;
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
			known_place = {batch_id, lookup.tuple->t_self};
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
	check_first_columns(rel, batch_columns, std::size(batch_columns));
	Oid index = late_index(rel, &batch_by_id);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool found = read_known_version(rel, batch_id, snapshot, batch) ||
				 find_version(rel, index, batch_id, snapshot, batch);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	return found;
}

/* ---- notes ---- */

static HeapTuple
form_note(Relation rel, const NewNote &note)
{
	Datum values[MaxHeapAttributeNumber];
	bool nulls[MaxHeapAttributeNumber];
	values[kNoteBatch - 1] = Int64GetDatum(note.batch_id);
	values[kNoteWhat - 1] = Int16GetDatum(static_cast<int16>(note.what));
	values[kNoteN - 1] = Int64GetDatum(note.n);
	/* Columns after these were dropped. */
	for (int i = 0; i < RelationGetDescr(rel)->natts; i++)
		nulls[i] = i >= kNoteN;
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

static void
insert_notes(Relation rel, const NewNote *notes, int n)
{
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
		tuples[i] = form_note(rel, notes[i]);
	insert_tuples(rel, tuples, n);
	insert_index_entries(rel, late_index(rel, &note_by_batch), tuples, n);
	for (int i = 0; i < n; i++)
		pfree(tuples[i]);
	pfree(tuples);
}

void
add_notes(const NewNote *notes, int n)
{
	Relation rel = table_open(look_at_tables().batch_note, RowExclusiveLock);
	check_columns(rel, note_columns, std::size(note_columns));
	for (int done = 0; done < n; done += kInsertBatch)
		insert_notes(rel, notes + done, Min(n - done, kInsertBatch));
	table_close(rel, NoLock);
}

void
add_note(int64 batch_id, Note what, int64 n)
{
	const NewNote note = {batch_id, what, n};
	add_notes(&note, 1);
}

} // namespace pgq
