#include "rows/batch_note.h"

#include "rows/index.h"
#include "rows/insert.h"
#include "rows/known_place.h"
#include "rows/late_index.h"
#include "rows/tuple.h"
#include "rows/visibility.h"

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
static constinit Known<KnownPlace> own_notes = {};

/* Remember the place of the own note, and the buffer of its page. */
static void
remember_own_note(Relation rel, int64 batch_id, const ItemPointerData &tid)
{
	KnownPlace &own = own_notes.of(batch_id);
	Buffer buffer = ReadBuffer(rel, ItemPointerGetBlockNumber(&tid));
	own = place_known(rel, batch_id, tid, buffer);
	ReleaseBuffer(buffer);
}

/*
 * Read the number of members in the session's own note of the batch. Makes room for the next version
 * on its page, if old versions can be removed. Returns false if there is no such note, or a
 * transaction that has not ended has written it, for example this one.
 */
static bool
read_own_note(Relation rel, const KnownPlace &own, int64 batch_id, int64 *n)
{
	static constexpr Size kRoom = MAXALIGN(SizeofHeapTupleHeader + 3 * sizeof(int64));
	HeapTupleData tuple;
	if (!lock_known(own, batch_id, &tuple))
		return false;
	auto get = [&](NoteColumn column) {
		bool is_null;
		return heap_getattr(&tuple, column, RelationGetDescr(rel), &is_null);
	};
	bool usable = visibility_of(&tuple, own.buffer) == Visibility::kLive &&
				  DatumGetInt16(get(kNoteWhat)) == static_cast<int16>(Note::kAdded);
	*n = DatumGetInt64(get(kNoteN));
	LockBuffer(own.buffer, BUFFER_LOCK_UNLOCK);
	if (usable && PageGetHeapFreeSpace(BufferGetPage(own.buffer)) < kRoom)
		prune_page(rel, own.buffer);
	ReleaseBuffer(own.buffer);
	return usable;
}

/* Return whether updates of the table are sent to subscribers. */
static bool
sends_updates(Relation rel)
{
	if (!RelationIsLogicallyLogged(rel))
		return false;
	PublicationDesc publications;
	RelationBuildPublicationDesc(rel, &publications);
	return publications.pubactions.pubupdate;
}

/*
 * Add members to the session's own note, instead of inserting another one: the new version usually
 * needs no index entry. Only the version that was read is replaced. So no number is lost, even if a
 * user changes the row, and nothing is waited for. If subscribers get the notes, they are only inserted:
 * a subscriber would have to search for each row that is updated.
 */
static bool
add_to_own_note(Relation rel, const NewNote &note)
{
	KnownPlace &own = own_notes.of(note.batch_id);
	int64 before;
	OwedEntries owed;
	if (sends_updates(rel) || !read_own_note(rel, own, note.batch_id, &before))
		return false;
	HeapTuple next = form_note(rel, {note.batch_id, note.what, before + note.n});
	if (update_row(rel, &own.tid, next, false, &owed) != TM_Ok)
		return false;
	if (owed == OwedEntries::kAll)
		insert_index_entries(rel, late_index(rel, &note_by_batch), &next, 1);
	else if (owed == OwedEntries::kSummarizing)
		insert_summaries(rel, next);
	if (ItemPointerGetBlockNumber(&next->t_self) == ItemPointerGetBlockNumber(&own.tid))
		own.tid = next->t_self;
	else
		remember_own_note(rel, note.batch_id, next->t_self);
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
		remember_own_note(rel, notes[0].batch_id, tuples[0]->t_self);
	for (int i = 0; i < n; i++)
		pfree(tuples[i]);
	pfree(tuples);
}

void
add_notes(const NewNote *notes, int n)
{
	Relation rel = table_open(look_at_tables().batch_note(), RowExclusiveLock);
	if (n == 1 && notes[0].what == Note::kAdded && add_to_own_note(rel, notes[0]))
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
