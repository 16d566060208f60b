/*
 * Decides whether an index is one that the extension has created. The library forms the entries of
 * the extension's indexes itself, and relies on their order.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

namespace pgq {

/*
 * Return the index of that name if it is a valid btree of the table on exactly these columns in
 * this order. The index must have a predicate if the specification has a predicate, and must have
 * none otherwise. Returns InvalidOid if there is no such index.
 */
Oid find_index(const char *name, Oid schema, Oid heap, const IndexSpec &spec, bool unique);

} // namespace pgq
