/*
 * Deadlocks that the server does not see. A call waits in memory: for a named lock whose holder is an open transaction or a
 * session, or for a claim in progress. The awaited session waits, perhaps by way of others, for the transaction of that
 * call.
 */
#pragma once

#include "pg/clock.h"

namespace pgq {

/* Of one wait. */
class DeadlockWatch
{
public:
	/* Now and then: error 40P01 if this process has twice been found to wait for itself, a deadlock_timeout apart. */
	void look();

private:
	int64 next_ = 0;
	bool found_ = false;
};

} // namespace pgq
