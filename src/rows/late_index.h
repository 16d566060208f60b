/*
 * An index of the extension that is looked up when it is first needed: most sessions use neither
 * batches nor dependencies, and each look-up makes the first call of a session slower.
 */
#pragma once

#include "catalog/own_index.h"

namespace pgq {

struct LateIndex
{
	IndexSpec spec;
	bool unique;
	uint64 found_at; /* value of count_catalog_reads() when the index was found */
	Oid oid;
};

/*
 * Return the index of this table. The table is locked: from then on the index cannot change. Raises
 * 55000 if the index is missing.
 */
Oid late_index(Relation rel, LateIndex *index);

} // namespace pgq
