/*
 * Tuples, formed and inserted without the executor.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Forms tuples of rel without what is NULL at their end, like rows that were written before
 * an ALTER TABLE ADD COLUMN: most rows then need no bitmap of their NULLs.
 */
class TupleFormer
{
public:
	explicit TupleFormer(Relation rel) : rel_(rel) {}

	/* From the first n columns, one of them not NULL. Any behind these have been dropped. */
	HeapTuple form(const Datum *values, const bool *nulls, int n);

private:
	Relation rel_;
	TupleDesc desc_ = nullptr;
};

/* Many fill a page at a time, with one WAL record. Makes no index entries. */
void insert_tuples(Relation rel, HeapTuple *tuples, int n);

} // namespace pgq
