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
 * Make the key that of another entry: only the values differ, unless one of them is NULL, which is
 * part of the key. Returns the key to use from now on.
 */
static BTScanInsert
key_of_next(Relation index, BTScanInsert key, IndexTuple entry)
{
	for (int i = 0; i < key->keysz; i++)
	{
		ScanKey column = &key->scankeys[i];
		bool is_null;
		column->sk_argument = index_getattr(entry, i + 1, RelationGetDescr(index), &is_null);
		if (is_null || (column->sk_flags & SK_ISNULL))
		{
			pfree(key);
			return key_of(index, entry);
		}
	}
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
 * the previous entry and the leaf has room. key: that of entries[0]. Returns the number of entries
 * put.
 */
static int
put_run(Relation index, BTScanInsert *key, IndexTuple *entries, int n, Page leaf)
{
	int done = 0;
	OffsetNumber place = before_first(leaf);
	while (PageGetFreeSpace(leaf) >= IndexTupleSize(entries[done]) &&
		   (place = place_of_key(index, *key, leaf, place)) != InvalidOffsetNumber)
	{
		put(index, entries[done++], leaf, place);
		if (done == n)
			break;
		*key = key_of_next(index, *key, entries[done]);
	}
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
	if (PageGetFreeSpace(leaf) >= IndexTupleSize(entries[0]) &&
		place_of_key(index, key, leaf, before_first(leaf)) != InvalidOffsetNumber)
	{
		CheckForSerializableConflictIn(index, nullptr, BufferGetBlockNumber(buffer));
		GenericXLogState *change = GenericXLogStart(index);
		done = put_run(index, &key, entries, n, GenericXLogRegisterBuffer(change, buffer, 0));
		GenericXLogFinish(change);
	}
	_bt_relbuf(index, buffer);
	pfree(key);
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
