/*
 * Add many entries to a btree at once.
 *
 * Rows that are inserted together are usually neighbours in an index: their ids grow, and they are
 * due at the same time. Entries for the same leaf are added with one descent of the tree, one lock
 * and one WAL record, instead of a descent, a lock and a record for each entry.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Insert the entries, with the same result as if each were inserted in turn. Each entry has the
 * place of its heap row. No column may be wide enough to be compressed. With UNIQUE_CHECK_PARTIAL,
 * refuse(index, entry) is called for an entry that may be a duplicate; refuse() must raise an
 * error.
 */
void insert_in_btree(Relation heap, Relation index, IndexTuple *entries, int n,
					 IndexUniqueCheck unique, void (*refuse)(Relation index, IndexTuple entry));

} // namespace pgq
