#include "rows/known_rows.h"

#include "rows/visibility.h"

namespace pgq {

/* Pin the page of the row. Returns InvalidBuffer if the table does not have that page any more. */
Buffer
KnownRows::pin(Relation rel, Known *known)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(&known->tid);
	if (BufferIsValid(known->buffer) && read_recent_buffer(rel, block, known->buffer))
		return known->buffer;
	if (block >= RelationGetNumberOfBlocks(rel))
		return InvalidBuffer;
	known->buffer = ReadBuffer(rel, block);
	return known->buffer;
}

/*
 * Point *tuple to the version at that place, on a page that is locked. Returns false if the place is
 * free, or has another batch: places are reused.
 */
static bool
is_batch_at(Relation rel, Page page, const ItemPointerData &tid, int64 batch_id, HeapTuple tuple)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&tid);
	if (offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page) ||
		!ItemIdIsNormal(PageGetItemId(page, offset)))
		return false;
	ItemId item = PageGetItemId(page, offset);
	tuple->t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_self = tid;
	tuple->t_tableOid = RelationGetRelid(rel);
	bool is_null;
	Datum found = heap_getattr(tuple, 1, RelationGetDescr(rel), &is_null);
	return !is_null && DatumGetInt64(found) == batch_id;
}

bool
KnownRows::lock(Relation rel, int64 batch_id, HeapTuple tuple, Buffer *buffer)
{
	Known *known = &known_[static_cast<uint64>(batch_id) % kKnown];
	if (known->batch_id != batch_id || known->found_at != count_catalog_reads())
		return false;
	*buffer = pin(rel, known);
	if (!BufferIsValid(*buffer))
		return false;
	LockBuffer(*buffer, BUFFER_LOCK_SHARE);
	if (is_batch_at(rel, BufferGetPage(*buffer), known->tid, batch_id, tuple) &&
		visibility_of(tuple, *buffer) == Visibility::kLive)
		return true;
	UnlockReleaseBuffer(*buffer);
	return false;
}

void
KnownRows::remember(int64 batch_id, const ItemPointerData &tid, Buffer buffer)
{
	Known *known = &known_[static_cast<uint64>(batch_id) % kKnown];
	if (!BufferIsValid(buffer) && known->batch_id == batch_id &&
		ItemPointerGetBlockNumberNoCheck(&known->tid) == ItemPointerGetBlockNumberNoCheck(&tid))
		buffer = known->buffer;
	*known = {batch_id, count_catalog_reads(), tid, buffer};
}

} // namespace pgq
