/* Reading a segment page by page, in physical order, without a snapshot. */
#pragma once

#include "catalog/tables.h"
#include "core/ring_policy.h"
#include "ring/expiry.h"

namespace pgq {

/*
 * Go on with the pass: read up to 256 further pages of the segment. The pass may miss rows that
 * another transaction moves within the segment, or count such rows twice. expiry: if set, rows past
 * their time count as dead. few: a number of bytes; if the pass finds more bytes of live rows, it
 * ends and sets pass->many.
 */
void survey_segment(const Segment &segment, const Expiry *expiry, int64 few, SegmentPass *pass);

/* The number of live rows on a few pages: rows past their time (past), and other rows (kept). */
struct Sample
{
	int past;
	int kept;
};

/*
 * Sample a few pages from page *next on; after the last page of the segment, go on with its first
 * page. *next: set to the page after the last sampled page.
 */
Sample sample_segment(const Expiry *expiry, const Segment &segment, BlockNumber *next);

/* Read a page, pin and share-lock it. */
Buffer lock_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy);

/* Return roughly how many bytes a move of the version would write. */
int64 version_bytes(HeapTuple tuple, TupleDesc desc);

/* Visit the versions of a locked page from offset `from` on, until visit() returns false. */
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
