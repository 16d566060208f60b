#include "rows/entries.h"

namespace pgq {

/*
 * Shortest run that is worth one WAL record: computing what has changed on the page costs as much
 * as several single entries.
 */
static constexpr int kRunMin = 16;

/*
 * Make a key of the entry's columns without its heap position: entries of different rows with the
 * same columns are equal.
 */
static BTScanInsert
key_of(Relation index, IndexTuple entry)
{
	BTScanInsert key = _bt_mkscankey(index, entry);
	key->scantid = nullptr;
	return key;
}

/*
 * Return the place of the key on this leaf, to which a smaller key belongs: behind the item at
 * `after` (the item before the first one if there is none), and before all greater items. Invalid
 * if the key belongs to another leaf, or if an item has the same columns, be it of a dead row. So
 * if a place is returned, the index has no equal entry anywhere, which a unique index requires.
 */
static OffsetNumber
place_of_key(Relation index, BTScanInsert key, Page leaf, OffsetNumber after)
{
	auto *opaque = BTPageGetOpaque(leaf);
	OffsetNumber last = PageGetMaxOffsetNumber(leaf);
	if (!P_RIGHTMOST(opaque) && _bt_compare(index, key, leaf, P_HIKEY) >= 0)
		return InvalidOffsetNumber;
	if (after >= P_FIRSTDATAKEY(opaque) && _bt_compare(index, key, leaf, after) <= 0)
		return InvalidOffsetNumber;
	OffsetNumber low = OffsetNumberNext(after);
	OffsetNumber high = OffsetNumberNext(last);
	for (OffsetNumber at = last; low < high; at = low + (high - low) / 2)
	{
		int32 order = _bt_compare(index, key, leaf, at);
		if (order == 0)
			return InvalidOffsetNumber;
		if (order > 0)
			low = OffsetNumberNext(at);
		else
			high = at;
	}
	return low;
}

/* As place_of_key(), for an entry; invalid also if the leaf has no room for it. */
static OffsetNumber
place_of_entry(Relation index, IndexTuple entry, Page leaf, OffsetNumber after)
{
	if (PageGetFreeSpace(leaf) < IndexTupleSize(entry))
		return InvalidOffsetNumber;
	BTScanInsert key = key_of(index, entry);
	OffsetNumber place = place_of_key(index, key, leaf, after);
	pfree(key);
	return place;
}

static OffsetNumber
before_first(Page leaf)
{
	return OffsetNumberPrev(P_FIRSTDATAKEY(BTPageGetOpaque(leaf)));
}

static void
put(Relation index, IndexTuple entry, Page leaf, OffsetNumber place)
{
	if (PageAddItem(leaf, reinterpret_cast<PageItem>(entry), IndexTupleSize(entry), place, false,
					false) != place)
		elog(ERROR, "cannot add an entry to index \"%s\"", RelationGetRelationName(index));
}

/*
 * Put the first entries on the leaf, as many as belong there one after the other. Returns their
 * number.
 */
static int
put_run(Relation index, IndexTuple *entries, int n, Page leaf)
{
	int done = 0;
	OffsetNumber place = before_first(leaf);
	while (done < n &&
		   (place = place_of_entry(index, entries[done], leaf, place)) != InvalidOffsetNumber)
		put(index, entries[done++], leaf, place);
	return done;
}

/* Insert the first entries as far as they belong on one leaf. Returns their number. */
static int
insert_run(Relation heap, Relation index, IndexTuple *entries, int n)
{
	BTScanInsert key = key_of(index, entries[0]);
	Buffer buffer = lock_leaf(heap, index, key);
	Page leaf = BufferGetPage(buffer);
	int done = 0;
	pfree(key);
	if (place_of_entry(index, entries[0], leaf, before_first(leaf)) != InvalidOffsetNumber)
	{
		CheckForSerializableConflictIn(index, nullptr, BufferGetBlockNumber(buffer));
		GenericXLogState *change = GenericXLogStart(index);
		done = put_run(index, entries, n, GenericXLogRegisterBuffer(change, buffer, 0));
		GenericXLogFinish(change);
	}
	_bt_relbuf(index, buffer);
	return done;
}

/*
 * After each run one entry is inserted by the server: it did not fit and splits the leaf, or it
 * belongs elsewhere. After two short runs in a row the entries are scattered, and the server
 * inserts the rest.
 */
void
insert_in_btree(Relation heap, Relation index, IndexTuple *entries, int n, IndexUniqueCheck unique,
				void (*refuse)(Relation index, IndexTuple entry))
{
	int done = 0;
	for (int in_vain = 0; done < n;)
	{
		if (n - done >= kRunMin && in_vain < 2)
		{
			int run = insert_run(heap, index, entries + done, n - done);
			in_vain = run >= kRunMin ? 0 : in_vain + 1;
			done += run;
		}
		if (done == n)
			break;
		IndexTuple entry = entries[done++];
		if (!_bt_doinsert(index, entry, unique, false, heap) && unique == UNIQUE_CHECK_PARTIAL)
			refuse(index, entry);
	}
}

} // namespace pgq
