/*
 * Who waits for a named lock: first come, first served. A process waits for one at a time, so there is a place for each.
 *
 * Who frees a slot wakes the first in line, who looks, takes it, and passes on when he leaves the line; until then nobody
 * who came later may have it. That ends when he has not come for a while: his process may be stopped.
 *
 * Everything but in_lock_line() and the claimers is called under the locks lock.
 */
#pragma once

#include "engine/lock_key.h"

namespace pgq {

/*
 * To the end of the line, unless this process is in it, for a lock of so many slots. It has looked: who frees something wakes
 * it again.
 */
void join_lock_line(const LockKey &key, int32 slots);
bool in_lock_line(); /* this process is */

/* Out of it. Returns for what it has waited: the next one is to be woken. */
LockKey leave_lock_line();

/* How many wait for that lock who come before this process, and have not been away for too long. */
int waiting_before(const LockKey &key, int64 monotonic);

/* The first in line, if he sleeps: he is about to be woken. kNobody otherwise. */
int wake_first_in_line(const LockKey &key, int64 monotonic);

/* As above, for the first waiter that can have a slot while that many are held: waiters may ask for different numbers of slots. */
int wake_able_in_line(const LockKey &key, int held, int64 monotonic);

/* What that process waits for, or NULL. */
const LockKey *awaited_by(int procno);

/* Which of the sessions that are that process, one after the other; of those that may have locks bound to them. */
uint32 session_of(int procno);
void end_session_of(int procno);

/*
 * Publish that this process waits in memory for the claim of that process (kNobody: it does no more), so that searches
 * for deadlocks see the wait. Needs no lock.
 */
void await_claimer(int procno);
int awaited_claimer(int procno);

int waiting_for(const LockKey &key);
int waiting_for_locks(int *peak);

int64 lock_waiter_bytes();
Size lock_lines_size();
void place_lock_lines(void *memory);

} // namespace pgq
