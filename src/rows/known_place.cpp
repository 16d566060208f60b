#include "rows/known_place.h"

namespace pgq {

KnownPlace
place_known(Relation rel, int64 batch_id, const ItemPointerData &tid, Buffer buffer)
{
	return {batch_id, count_catalog_reads(), RelationGetRelid(rel), file_of(rel), tid, buffer};
}

/* As lock_known(), on a page that is locked. */
static bool
is_batch_at(const KnownPlace &known, HeapTuple tuple)
{
	Page page = BufferGetPage(known.buffer);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&known.tid);
	if (offset > PageGetMaxOffsetNumber(page) || !ItemIdIsNormal(PageGetItemId(page, offset)))
		return false;
	ItemId item = PageGetItemId(page, offset);
	tuple->t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_self = known.tid;
	tuple->t_tableOid = known.table;
	int64 found;
	memcpy(&found, reinterpret_cast<char *>(tuple->t_data) + tuple->t_data->t_hoff, sizeof(found));
	return found == known.batch_id;
}

bool
lock_known(const KnownPlace &known, int64 batch_id, HeapTuple tuple)
{
	if (known.batch_id != batch_id || known.found_at != count_catalog_reads() ||
		!ReadRecentBuffer(known.file, MAIN_FORKNUM, ItemPointerGetBlockNumberNoCheck(&known.tid),
						  known.buffer))
		return false;
	LockBuffer(known.buffer, BUFFER_LOCK_SHARE);
	if (is_batch_at(known, tuple))
		return true;
	UnlockReleaseBuffer(known.buffer);
	return false;
}

} // namespace pgq
