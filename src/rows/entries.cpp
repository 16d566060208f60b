#include "rows/entries.h"

namespace pgq {

/*
 * Smallest number of entries for which one common WAL record is cheaper than a WAL record for each
 * entry. Writing the common record costs as much as inserting several single entries, since the
 * server compares the old and the new page byte by byte.
 */
static constexpr int kRunMin = 16;

/*
 * Make a scan key of the entry's columns. The key leaves out the position of the row in the heap,
 * so that entries of different rows compare as equal if their columns are equal.
 */
static BTScanInsert
key_of(Relation index, IndexTuple entry)
{
	BTScanInsert key = _bt_mkscankey(index, entry);
	key->scantid = nullptr;
	return key;
}

/*
 * Return the offset on this leaf at which the key belongs: behind the item at `after` (0: none),
 * and before all greater items. Returns an invalid offset if the key belongs to another leaf, or if
 * the leaf has an item with the same columns, even if the row of that item is dead. So a valid
 * offset proves that the index has no equal entry, as a unique index requires.
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

/*
 * Like place_of_key(), but for an entry. Returns an invalid offset also if the leaf has no room for
 * the entry.
 */
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
 * Put entries on the leaf, starting with entries[0], as long as each entry belongs directly behind
 * the previous entry. Returns the number of entries put.
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

/*
 * Insert entries, starting with entries[0], as long as the entries belong on the leaf of
 * entries[0]. Returns the number of inserted entries.
 */
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
 * Insert entries by runs, each run on one leaf. After each run the server's own function inserts
 * the next entry, which belongs to another leaf or splits the full leaf. Two runs in a row that are
 * shorter than kRunMin show that the entries are scattered; then the server's function inserts all
 * remaining entries.
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
