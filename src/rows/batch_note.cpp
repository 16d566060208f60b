#include "rows/batch_note.h"

#include "rows/index.h"
#include "rows/insert.h"
#include "rows/known_rows.h"
#include "rows/late_index.h"
#include "rows/tuple.h"

namespace pgq {

static constinit LateIndex note_by_batch = {
	{"batch_note_by_batch", {{kNoteBatch}, {kNoteWhat}}, nullptr}, false, 0, 0};

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

/* ---- the own note ---- */

/* The notes *added* that this session has written last, its *own notes*. */
static constinit KnownRows known_notes = {};

/*
 * Read the number of members in the session's own note of the batch, and remember its place. Makes
 * room for the next version on the page of the note, if old versions can be removed. Returns false if
 * there is no such note, or a transaction that has not ended has written it, for example this one.
 */
static bool
read_known_note(Relation rel, int64 batch_id, ItemPointerData *tid, int64 *n)
{
	static constexpr Size kRoom = MAXALIGN(SizeofHeapTupleHeader + 3 * sizeof(int64));
	HeapTupleData tuple;
	Buffer buffer;
	if (!known_notes.lock(rel, batch_id, &tuple, &buffer))
		return false;
	auto get = [&](NoteColumn column) {
		bool is_null;
		return heap_getattr(&tuple, column, RelationGetDescr(rel), &is_null);
	};
	bool added = DatumGetInt16(get(kNoteWhat)) == static_cast<int16>(Note::kAdded);
	*tid = tuple.t_self;
	*n = DatumGetInt64(get(kNoteN));
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (PageGetHeapFreeSpace(BufferGetPage(buffer)) < kRoom)
		prune_page(rel, buffer);
	ReleaseBuffer(buffer);
	return added;
}

/*
 * Add members to the session's own note, instead of inserting another one: the new version usually
 * needs no index entry. The version that was read is replaced, or none. So no number is lost, even if
 * another session or a user changes the row, and nothing is waited for. If the table is published,
 * notes are only inserted: a subscriber has to search for a row that is updated.
 */
static bool
add_to_known_note(Relation rel, const NewNote &note)
{
	ItemPointerData tid;
	int64 before;
	OwedEntries owed;
	if (RelationIsLogicallyLogged(rel) || !read_known_note(rel, note.batch_id, &tid, &before))
		return false;
	HeapTuple next = form_note(rel, {note.batch_id, note.what, before + note.n});
	if (update_row(rel, &tid, next, false, &owed) != TM_Ok)
		return false;
	if (owed == OwedEntries::kAll)
		insert_index_entries(rel, late_index(rel, &note_by_batch), &next, 1);
	else if (owed == OwedEntries::kSummarizing)
		insert_summaries(rel, next);
	known_notes.remember(note.batch_id, next->t_self, InvalidBuffer);
	pfree(next);
	return true;
}

/* ---- new notes ---- */

static void
insert_notes(Relation rel, const NewNote *notes, int n)
{
	auto *tuples = static_cast<HeapTuple *>(palloc(n * sizeof(HeapTuple)));
	for (int i = 0; i < n; i++)
		tuples[i] = form_note(rel, notes[i]);
	insert_tuples(rel, tuples, n);
	insert_index_entries(rel, late_index(rel, &note_by_batch), tuples, n);
	if (n == 1 && notes[0].what == Note::kAdded)
		known_notes.remember(notes[0].batch_id, tuples[0]->t_self, InvalidBuffer);
	for (int i = 0; i < n; i++)
		pfree(tuples[i]);
	pfree(tuples);
}

void
add_notes(const NewNote *notes, int n)
{
	Relation rel = table_open(look_at_tables().batch_note, RowExclusiveLock);
	if (n == 1 && notes[0].what == Note::kAdded && add_to_known_note(rel, notes[0]))
		return table_close(rel, NoLock);
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
