/*
 * Deadlocks that the server's deadlock detector does not see, because one of the waits is in
 * memory: a call waits for a named lock that an open transaction or a session holds, or for a claim
 * in progress. If the session for which the call waits is itself waiting, directly or through other
 * sessions, for the transaction of the call, none of these sessions goes on.
 */
#pragma once

#include "pg/clock.h"

namespace pgq {

/* The search for deadlocks during one wait. */
class DeadlockWatch
{
public:
	/*
	 * Call repeatedly during the wait. Raises 40P01 if two checks in a row, deadlock_timeout apart,
	 * have found a circle with this process as its victim.
	 */
	void look();

private:
	int64 next_ = 0;
	bool found_ = false;
};

} // namespace pgq
