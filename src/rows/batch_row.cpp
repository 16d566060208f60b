#include "rows/batch_row.h"

#include "rows/index.h"
#include "rows/insert.h"
#include "rows/tuple.h"

namespace pgq {

/*
 * Return the extension's index. The table is locked: from then on the index cannot change. Raises
 * 55000 if the index is missing.
 */
static Oid
index_of_batches(Oid Tables::*index)
{
	Oid oid = look_at_tables().*index;
	if (!OidIsValid(oid))
		complain_incomplete();
	return oid;
}

/* ---- batches ---- */

static BatchRow
read_batch(HeapTuple tuple, TupleDesc desc)
{
	bool no_maker;
	Datum maker = heap_getattr(tuple, kBatchMaker, desc, &no_maker);
	return {.maker = no_maker ? InvalidOid : DatumGetObjectId(maker),
			.closed = !heap_attisnull(tuple, kBatchClosedAt, desc),
			.finished = !heap_attisnull(tuple, kBatchFinishedAt, desc)};
}

/*
 * Look at all versions of the row, and read the version that the snapshot sees. The scan itself does
 * not use the snapshot, so nothing is registered for serializable transactions.
 */
static bool
find_version(Relation rel, int64 batch_id, Snapshot snapshot, BatchRow *batch)
{
	bool found = false;
	IndexLookup lookup;
	ScanKeyData key;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(batch_id));
	open_index_lookup(&lookup, rel, index_of_batches(&Tables::job_batch_by_id), 1);
	index_rescan(lookup.scan, &key, 1, nullptr, 0);
	while (!found && next_version(&lookup))
	{
		found = HeapTupleSatisfiesVisibility(lookup.tuple, snapshot, lookup.buffer);
		if (found)
			*batch = read_batch(lookup.tuple, RelationGetDescr(rel));
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
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool found = find_version(rel, batch_id, snapshot, batch);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/* ---- notes ---- */

static HeapTuple
form_note(TupleFormer *former, const NewNote &note)
{
	const Datum values[] = {Int64GetDatum(note.batch_id),
							Int16GetDatum(static_cast<int16>(note.what)), Int64GetDatum(note.n)};
	const bool nulls[std::size(values)] = {};
	return former->form(values, nulls, std::size(values));
}

static void
insert_notes(Relation rel, const NewNote *notes, int n)
{
	TupleFormer former(rel);
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
		tuples[i] = form_note(&former, notes[i]);
	insert_tuples(rel, tuples, n);
	insert_index_entries(rel, index_of_batches(&Tables::batch_note_by_batch), tuples, n);
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
