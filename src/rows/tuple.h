/* Forming and inserting tuples without the executor. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Forms tuples of rel that end before the NULLs of their last columns, like rows written before an
 * ALTER TABLE ADD COLUMN. So most rows need no NULL bitmap.
 */
class TupleFormer
{
public:
	explicit TupleFormer(Relation rel) : rel_(rel) {}

	/*
	 * Form a tuple of the first n columns, at least one of which is not NULL. Columns behind these
	 * have been dropped.
	 */
	HeapTuple form(const Datum *values, const bool *nulls, int n);

private:
	Relation rel_;
	TupleDesc desc_ = nullptr;
};

/*
 * Insert tuples without index entries. Several tuples at once fill page after page, with one WAL
 * record for each page.
 */
void insert_tuples(Relation rel, HeapTuple *tuples, int n);

} // namespace pgq
