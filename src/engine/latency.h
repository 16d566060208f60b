/*
 * How long jobs of a queue wait, and how long they take. Under the queue's lock.
 *
 * Counted by who commits, in the hold that ends the lease or its claim: the wait when the claim is
 * committed, or with it the end of its lease, whichever is first; the run and the total when that end
 * is. So a claim that is undone after it was handed out, and what is lost, has neither: nobody knows
 * when its worker stopped.
 */
#pragma once

#include "core/histogram.h"
#include "engine/shared.h"

namespace pgq {

enum class Phase : uint8
{
	kWait,	/* since it was due: the later of its enqueue and its run_at */
	kRun,	/* from the hand-out to the commit of its end, on the monotonic clock */
	kTotal, /* from the enqueue to the commit of the ack, of jobs that were acknowledged */
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

/* What a lease knows of its times besides those of the hand-out. */
struct LeaseTimes
{
	static constexpr int64 kUnknown = -1;

	TimestampTz enqueued_at; /* of its job; 0: unknown */
	int64 waited;			 /* microseconds; kUnknown also if it is counted already */
	bool ran;				 /* since the hand-out, which was in this start of the server */

	/* The claim is undone, or the lease is lost. */
	void forget()
	{
		waited = kUnknown;
		ran = false;
	}
};

/* Of a wall clock that can be set, and of times that somebody may have written by hand: never negative. */
inline int64
time_between(TimestampTz from, TimestampTz to)
{
	int64 between;
	if (from >= to)
		return 0;
	return pg_sub_s64_overflow(to, from, &between) ? PG_INT64_MAX : between;
}

} // namespace pgq
