/*
 * Lines of processes that wait for a named lock, served in order of arrival. A process waits for
 * one lock at a time, so each process has only one place in shared memory.
 *
 * A process that frees a slot wakes the first waiter in line. The woken process looks at the lock,
 * takes the slot, and passes the wake-up on when it leaves the line. Until then no later process
 * may take the slot. If the woken process has not looked for a while (it may be stopped), the line
 * goes on without it.
 *
 * All functions are called under the locks lock, except in_lock_line(), await_claimer() and
 * awaited_claimer().
 */
#pragma once

#include "engine/named/lock_key.h"

namespace pgq {

/*
 * Join the end of the line, unless this process is in the line already. slots: the number of slots
 * of the lock. If this process is in the line already, it counts as asleep again, so that the next
 * free slot wakes it.
 */
void join_lock_line(const LockKey &key, int32 slots);
bool in_lock_line(); /* Return whether this process is in a line. */

/*
 * Leave the line. Return the lock for which this process waited; the caller must wake the next
 * waiter in the line of that lock.
 */
LockKey leave_lock_line();

/*
 * Return the number of processes before this one in the line, without processes that were woken
 * more than a second ago and have not looked at the lock.
 */
int waiting_before(const LockKey &key, int64 monotonic);

/*
 * Return the first process in the line, which the caller must wake; kNobody: the line is empty, or
 * its first process is awake already.
 */
int wake_first_in_line(const LockKey &key, int64 monotonic);

/*
 * Like wake_first_in_line(), for the first waiter that can take a slot while `held` slots are held.
 * Waiters may give different numbers of slots for the lock.
 */
int wake_able_in_line(const LockKey &key, int held, int64 monotonic);

/* Return the lock for which that process waits; NULL: none. */
const LockKey *awaited_by(int procno);

/*
 * Return the number of the session of that process. Several sessions use a procno one after the
 * other; the number is raised at the end of each session that may have session-bound locks.
 */
uint32 session_of(int procno);
void end_session_of(int procno);

/*
 * await_claimer() publishes that this process waits in memory for the claim of process `procno`
 * (kNobody: the wait has ended), so that searches for deadlocks see the wait. Needs no lock.
 */
void await_claimer(int procno);
int awaited_claimer(int procno);

int waiting_for(const LockKey &key);
int waiting_for_locks(int *peak);

int64 lock_waiter_bytes();
Size lock_lines_size();
void place_lock_lines(void *memory);

} // namespace pgq
