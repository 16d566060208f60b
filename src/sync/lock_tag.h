/*
 * The tag of a grant of a named lock: a heavyweight lock, so that whoever waits for a transaction that uses the grant waits
 * where the deadlock detector sees it, and so that a prepared transaction keeps it, also through a restart.
 *
 * Share, to the end of the transaction: who relies on the grant (asserts or extends it). Exclusive, to the end: who gives it
 * back. Exclusive, for a moment, when its time is over: who takes its slot. pg_locks shows it as an advisory lock of a class of
 * its own; classid and objid are the token.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* False: only without wait. */
bool lock_grant(int64 token, LOCKMODE mode, bool wait = true);
/* Does this transaction rely on it? */
bool relies_on_grant(int64 token);
void unlock_grant(int64 token, LOCKMODE mode);

} // namespace pgq
