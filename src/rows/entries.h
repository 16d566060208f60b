/*
 * Adding many entries to a btree at once.
 *
 * Rows that are inserted together are usually neighbours in an index: their ids grow, and they are
 * due at the same time. Entries for the same leaf are added under one lock and with one WAL record,
 * instead of one descent, lock and record for each entry.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Insert the entries, with the same result as if each were inserted in turn. Each entry names its
 * heap row; no column may be wide enough to be compressed. refuse(index, entry) is called, only
 * with UNIQUE_CHECK_PARTIAL, for an entry that may be a duplicate; it raises an error.
 */
void insert_in_btree(Relation heap, Relation index, IndexTuple *entries, int n,
					 IndexUniqueCheck unique, void (*refuse)(Relation index, IndexTuple entry));

} // namespace pgq
