/*
 * Deadlocks that the server's deadlock detector does not see, because one wait is in memory: a call
 * waits for a named lock whose holder is an open transaction or a session, or for a claim in
 * progress. If the awaited session waits, directly or through others, for the transaction of that
 * call, neither goes on.
 */
#pragma once

#include "pg/clock.h"

namespace pgq {

/* The deadlock checks of one wait. */
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
