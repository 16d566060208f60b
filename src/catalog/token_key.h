/*
 * The key of the check bits of lease tokens: the one row of pgq_ext.token_key, made at random by
 * CREATE EXTENSION. The key is not dumped, so a restored database does not accept leases of its
 * origin. Standbys have the same key. The key is read when the database is loaded.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* Return the key for this database. If none is stored, return a new random one. */
TokenKey read_token_key(Oid table);

/*
 * Store the key in use if the table has no key. Called by the scheduler. Without a stored key, the
 * next run of the server would not recognize leases of this one.
 */
void keep_token_key(const Tables &t);

} // namespace pgq
