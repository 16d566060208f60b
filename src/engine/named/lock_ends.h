/*
 * Ends of named locks that do not depend on a transaction: the session has ended, or the
 * incarnation is gone. Also queries about locks.
 */
#pragma once

#include "engine/named/named_lock.h"

namespace pgq {

/* ---- ends; these functions cannot fail ---- */

void end_session_locks();
void free_locks(Oid database, Oid incarnation);

/* ---- queries ---- */

bool has_locks(Oid database);

/*
 * A copy of a lock, for the view lock. copy_locks() copies at most `most` locks, without runs, and
 * returns their number.
 */
struct LockCopy
{
	LockKey key;
	int32 slot;
	bool open;
	int waiting;
	Grant grant;
};
int copy_locks(const Database *db, LockCopy *copies, int most);

/*
 * Ask the schedulers to remove locks whose time is over and whose entries this database could then
 * use. Return the longest time (microseconds) that the removal takes; 0: no such lock.
 */
int64 ask_for_sweep(const Database *db);

} // namespace pgq
