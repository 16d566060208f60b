/*
 * The tag of a grant of a named lock: a heavyweight lock of the server. A session that waits for a
 * transaction that uses the grant waits for this lock, so the deadlock detector sees the wait. A
 * prepared transaction keeps the tag, even through a restart.
 *
 * A transaction that relies on the grant (assert, extend) has ShareLock until its end. A
 * transaction that gives the grant back has ExclusiveLock until its end. A session that takes over
 * a slot whose time is over has ExclusiveLock for a moment. pg_locks shows the tag as an advisory
 * lock of a class of its own; classid and objid are the token.
 */
#pragma once

#include "pg/pg.h"

namespace pgq {

/* Lock the tag. Without wait, returns false if the lock is not available. */
bool lock_grant(int64 token, LOCKMODE mode, bool wait = true);
/* Return whether this transaction holds the tag in ShareLock mode. */
bool relies_on_grant(int64 token);
void unlock_grant(int64 token, LOCKMODE mode);

} // namespace pgq
