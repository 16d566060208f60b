#include "rows/entries.h"

namespace pgq {

/* Finding out what has changed on a page costs as much as several entries. */
static constexpr int kRunMin = 16;

/* Its columns alone: an entry of another row with the same is the same key. */
static BTScanInsert
key_of(Relation index, IndexTuple entry)
{
	BTScanInsert key = _bt_mkscankey(index, entry);
	key->scantid = nullptr;
	return key;
}

/*
 * Where the key belongs on the leaf, which is that of a smaller key: behind the item at `after`, if there is one, and before
 * all that is greater. Invalid: on another leaf, or the same key is there. So it is nowhere else either, that of a dead
 * row included: as a unique index must know.
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

/* The same of an entry, for which there has to be room. */
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

/* As put() of all that belong there, of the first entries and in their order. Returns how many. */
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

/* Those of the first entries that belong on one leaf. Returns how many. */
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
 * Behind a run one is inserted by itself: it did not fit, and splits the leaf, or belongs elsewhere. Two short runs in
 * succession mean that the entries belong here and there.
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
