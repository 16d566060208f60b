/*
 * Entries of a btree, many of them at once.
 *
 * Rows that are inserted together mostly belong together in an index: their ids grow, and they are due at the same time.
 * Those that go to the same leaf are added under one lock and with one WAL record, instead of a
 * descent, a lock and a record for each.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * As if each were inserted in turn. Each names its row, and none of their columns is wide. refuse(index, entry): it
 * may be there twice; only with UNIQUE_CHECK_PARTIAL.
 */
void insert_in_btree(Relation heap, Relation index, IndexTuple *entries, int n,
					 IndexUniqueCheck unique, void (*refuse)(Relation index, IndexTuple entry));

} // namespace pgq
