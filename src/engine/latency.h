/*
 * Latencies of a queue: how long its jobs wait and run. Protected by the queue's lock.
 *
 * The commit callback of a transaction adds the latencies, in the hold of the queue's lock in which
 * it changes the lease. The wait is counted at the commit of the claim, or at the commit of the end
 * of the lease, whichever comes first. Run and total are counted when the end of the lease commits.
 * A claim that is undone after its hand-out, and a lost lease, do not count at all: the time at
 * which the worker stopped is not known.
 */
#pragma once

#include "core/histogram.h"
#include "engine/shared.h"

namespace pgq {

enum class Phase : uint8
{
	kWait,	/* from the later of enqueue and run_at to the hand-out */
	kRun,	/* from the hand-out to the commit of the end, by the monotonic clock */
	kTotal, /* from the enqueue to the commit of the ack; only for acknowledged jobs */
};
inline constexpr int kPhases = 3;

struct Latency
{
	Histogram all;
	RecentHistogram recent;

	void clear()
	{
		all.clear();
		recent.clear();
	}
	void add(int64 duration, int64 monotonic)
	{
		all.add(duration);
		recent.add(duration, monotonic);
	}
};

struct QueueLatency
{
	Latency latency[kPhases];

	void clear()
	{
		for (Latency &phase : latency)
			phase.clear();
	}
	Latency &of(Phase phase) { return latency[static_cast<int>(phase)]; }
	const Latency &of(Phase phase) const { return latency[static_cast<int>(phase)]; }
};

/* Times of a lease that are needed for the latencies. */
struct LeaseTimes
{
	static constexpr int64 kUnknown = -1;

	TimestampTz enqueued_at; /* when the job was enqueued; 0: unknown */
	/*
	 * Microseconds for which the job was due before its hand-out; kUnknown: unknown, or already
	 * counted.
	 */
	int64 waited;
	/*
	 * true: the job was handed out after the last start of the server, so its run time can be
	 * measured.
	 */
	bool ran;

	/* Forget the times, because the claim was undone or the lease was lost. */
	void forget()
	{
		waited = kUnknown;
		ran = false;
	}
};

/*
 * Return the microseconds between two times; 0 if `to` is not later: the wall clock may have been
 * set back, and SQL may have written any time.
 */
inline int64
time_between(TimestampTz from, TimestampTz to)
{
	int64 between;
	if (from >= to)
		return 0;
	return pg_sub_s64_overflow(to, from, &between) ? PG_INT64_MAX : between;
}

} // namespace pgq
