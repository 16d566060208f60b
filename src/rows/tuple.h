/* Forming and inserting tuples without the executor. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Forms tuples of rel. If the last columns are NULL, the tuple ends before these columns, like a
 * row that was written before an ALTER TABLE ADD COLUMN. So most rows need no NULL bitmap.
 */
class TupleFormer
{
public:
	explicit TupleFormer(Relation rel) : rel_(rel) {}

	/*
	 * Form a tuple of the first n columns. At least one of the values must not be NULL. The columns
	 * of the table after the first n must be dropped columns.
	 */
	HeapTuple form(const Datum *values, const bool *nulls, int n);

private:
	Relation rel_;
	TupleDesc desc_ = nullptr;
};

/*
 * Insert tuples without index entries. If n > 1, the tuples fill page after page, with one WAL
 * record for each page.
 */
void insert_tuples(Relation rel, HeapTuple *tuples, int n);

} // namespace pgq
