/*
 * Decides whether an index is the extension's own. The library forms entries of its own indexes
 * itself, and relies on their order.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Return the index of that name if it is a valid btree of the table on exactly these columns in
 * this order. It must have a predicate if the specification has one, and none otherwise. If there
 * is no such index, return InvalidOid.
 */
Oid find_index(const char *name, Oid schema, Oid heap, const IndexSpec &spec, bool unique);

} // namespace pgq
