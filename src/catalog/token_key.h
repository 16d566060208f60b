/*
 * The key of the check bits of lease tokens: the one row of pgq_ext.token_key, random, made by
 * CREATE EXTENSION. It is not dumped, so that a restored database does not honour the
 * leases of the other, and goes to standbys with all else. Read when the database is loaded.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* As it is used in this database. A new one where there is none. */
TokenKey read_token_key(Oid table);

/*
 * The scheduler writes the key that is used where none is stored (any more). Without that a
 * lease of this load is not known in the next.
 */
void keep_token_key(const Tables &t);

} // namespace pgq
