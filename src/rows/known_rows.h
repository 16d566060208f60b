/*
 * Rows of batches that this session has read or written, one for each batch, so that it finds them
 * again without the index. The place is only a hint: the version there is checked each time.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

class KnownRows
{
public:
	/*
	 * Find the row that is remembered for the batch, if the version at its place is of this batch,
	 * is committed, and no transaction is changing or has locked it. Then *tuple is that version, and
	 * *buffer its page, pinned and share-locked. rel: the table, locked. Its first column is the id of
	 * the batch. Returns false, too, if the catalog was read since the row was remembered: the
	 * columns may have changed.
	 */
	bool lock(Relation rel, int64 batch_id, HeapTuple tuple, Buffer *buffer);

	/* Remember the row. buffer: where its page is, or InvalidBuffer. */
	void remember(int64 batch_id, const ItemPointerData &tid, Buffer buffer);

private:
	struct Known
	{
		int64 batch_id;
		uint64 found_at; /* count_catalog_reads() */
		ItemPointerData tid;
		Buffer buffer;
	};

	Buffer pin(Relation rel, Known *known);

	static constexpr int kKnown = 16;
	Known known_[kKnown]; /* by batch_id % kKnown */
};

} // namespace pgq
