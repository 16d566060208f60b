/*
 * Which index of that name is one of ours: whose entries we form by hand, and by whose order we go.
 */
#pragma once

#include "core/ring.h"
#include "pg/pg.h"

namespace pgq {

/*
 * A whole btree of the table, on just these columns, in their order; with a predicate if the specification has one. Invalid: there
 * is none, or another one of that name.
 */
Oid find_index(const char *name, Oid schema, Oid heap, const IndexSpec &spec, bool unique);

} // namespace pgq
