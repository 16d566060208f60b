/*
 * Places of rows of batches that this session has read or written, so that it finds them again without
 * the index. A place is only a hint: the version there is checked each time.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

struct KnownPlace
{
	int64 batch_id;
	uint64
		found_at; /* count_catalog_reads(): later the table may have another file, or other columns */
	Oid table;
	TableFile file;
	ItemPointerData tid;
	Buffer buffer; /* where the page was */
};

/* Return the place of a row of the table, whose first column is the id of the batch. */
KnownPlace place_known(Relation rel, int64 batch_id, const ItemPointerData &tid, Buffer buffer);

/*
 * Point *tuple to the version at the known place, and pin and share-lock its page. Returns false if the
 * page is no more in that buffer, or the place is free, or is not of this batch: places are reused.
 */
bool lock_known(const KnownPlace &known, int64 batch_id, HeapTuple tuple);

/* What a session knows of some batches. One batch may drive out another. */
template <typename What> struct Known
{
	static constexpr int kKnown = 16;
	What known[kKnown];

	What &of(int64 batch_id) { return known[static_cast<uint64>(batch_id) % kKnown]; }
};

} // namespace pgq
