/*
 * Decides whether an object belongs to the extension. The name of an object proves nothing, since a
 * role that may create or rename objects can choose any name. Members of an extension are recorded
 * by OID.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Return whether the object (a row of the catalog class_id) is a member of the extension. */
bool is_member(Oid class_id, Oid oid);

/*
 * Return whether the table is pgq_ext.NAME or a segment of pgq_ext.NAME. The name of the segment
 * does not matter.
 */
bool is_own_table(Relation rel, const char *name);

/*
 * Return the function pgq_ext.NAME with these argument types if it belongs to the extension;
 * InvalidOid otherwise.
 */
Oid own_function(const char *name, int n_arguments = 0, const Oid *arguments = nullptr);

} // namespace pgq
