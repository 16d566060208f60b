/*
 * The secret key from which the last bits of a lease token are computed (core/token.h). The key is
 * the only row of pgq_ext.token_key; CREATE EXTENSION makes it at random. The key is not dumped, so
 * a restored database does not accept leases of the database that was dumped. Standbys have the
 * same key as their primary. The key is read when the database is loaded.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

/* Return the key for this database. If the table has no key, return a new random key. */
TokenKey read_token_key(Oid table);

/*
 * Store the key that is in use if the table has no key. Called by the scheduler. Without a stored
 * key, the server could not check after a restart that it had given out a token.
 */
void keep_token_key(const Tables &t);

} // namespace pgq
