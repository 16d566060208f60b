/*
 * Reading a segment page by page, in physical order, without a snapshot.
 */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"
#include "ring/expiry.h"

namespace pgq {

/*
 * Read on, a piece. Rows that move about meanwhile may be missed, or met twice. Those whose time is
 * over by expiry, if given, count as dead. few: of so many bytes of live rows there are not many.
 */
void survey_segment(const Segment &segment, const Expiry *expiry, int64 few, SegmentPass *pass);

/* Rows that live, of a few pages: those whose time is over, and the others. */
struct Sample
{
	int past;
	int kept;
};

/* From page *next on, and then from the first one; *next goes on. */
Sample sample_segment(const Expiry *expiry, const Segment &segment, BlockNumber *next);

/* A pinned page, share-locked. */
Buffer lock_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy);

/* What copying the version would cost, roughly. */
int64 version_bytes(HeapTuple tuple, TupleDesc desc);

/* Visit the versions of a page, which is locked. The visitor says whether to go on. */
template <typename Visit>
inline void
visit_page(Relation rel, Buffer buffer, OffsetNumber from, Visit visit)
{
	Page page = BufferGetPage(buffer);
	bool more = true;
	for (OffsetNumber i = from; i <= PageGetMaxOffsetNumber(page) && more; i++)
	{
		ItemId item = PageGetItemId(page, i);
		if (!ItemIdIsNormal(item))
			continue;
		HeapTupleData tuple;
		tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), i);
		more = visit(&tuple);
	}
}

} // namespace pgq
