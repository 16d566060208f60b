/* Forming and inserting tuples without the executor. */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* Descriptors of the first columns of a table, which a session keeps for the tuples of its next calls. */
class KeptDescriptors
{
public:
	/* Return the descriptor of the first n columns. */
	TupleDesc first(Relation rel, int n);

private:
	Oid table_;
	uint64 found_at_; /* count_catalog_reads() */
	TupleDesc first_[kJobColumns + 1];
};

/*
 * Forms tuples of rel. If the last columns are NULL, the tuple ends before these columns, like a
 * row that was written before an ALTER TABLE ADD COLUMN. So most rows need no NULL bitmap.
 */
class TupleFormer
{
public:
	explicit TupleFormer(Relation rel, KeptDescriptors *kept = nullptr) : rel_(rel), kept_(kept) {}

	/*
	 * Form a tuple of the first n columns, with `kept` at most kJobColumns. At least one of the values must not be NULL. The columns
	 * of the table after the first n must be dropped columns.
	 */
	HeapTuple form(const Datum *values, const bool *nulls, int n);

private:
	Relation rel_;
	KeptDescriptors *kept_;
	TupleDesc desc_ = nullptr;
};

/*
 * Insert tuples without index entries. If n > 1, the tuples fill page after page, with one WAL
 * record for each page.
 */
void insert_tuples(Relation rel, HeapTuple *tuples, int n);

} // namespace pgq
