/*
 * Which objects are the extension's own. A name says nothing: a role that may create objects, or rename its own, chooses
 * names as it likes. Members of the extension are recorded by their OIDs.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Is that object (a row of the catalog class_id) a member of the extension? */
bool is_member(Oid class_id, Oid oid);

/* Is that pgq_ext.NAME, or a segment of it, by whatever name? */
bool is_own_table(Relation rel, const char *name);

/* The member pgq_ext.NAME with these arguments, or invalid. */
Oid own_function(const char *name, int n_arguments = 0, const Oid *arguments = nullptr);

} // namespace pgq
