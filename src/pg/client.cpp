#include "pg/client.h"

#include "pg/clock.h"

namespace pgq {

void
check_client()
{
	if (MyProcPort != nullptr && !pq_check_connection())
		ereport(FATAL, (errcode(ERRCODE_CONNECTION_FAILURE), errmsg("connection to client lost")));
}

/*
 * End the wait before the timeout of the statement or the transaction, so that the call can return
 * without a result. If little time is left before the timeout, wait for half of that time: a wait
 * of zero would make the caller's loop spin.
 */
int64
end_of_wait(int64 wait)
{
	static constexpr int64 kMargin = 100 * 1000;
	for (TimeoutId limit : kTimeLimits)
	{
		if (!get_timeout_active(limit))
			continue;
		int64 left = get_timeout_finish_time(limit) - wall_now();
		wait = Min(wait, left - Min(kMargin, left / 2));
	}
	return monotonic_now() + wait;
}

} // namespace pgq
