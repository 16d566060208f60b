/* The time by which the test measures: microseconds of the monotonic clock. */
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace torture {

using Time = int64_t;

constexpr Time kMillisecond = 1000;
constexpr Time kSecond = 1000 * kMillisecond;

inline Time
now()
{
	return std::chrono::duration_cast<std::chrono::microseconds>(
			   std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

/*
 * Least and greatest difference seen between the wall clock and the monotonic clock. They differ
 * from each other if the wall clock was set.
 */
inline std::atomic<Time> least_offset = INT64_MAX;
inline std::atomic<Time> greatest_offset = INT64_MIN;

/*
 * Return the wall-clock time, by which the server's delays count. It may be set, for example after
 * a machine was asleep, or run fast.
 */
inline Time
wall()
{
	for (;;)
	{
		Time before = now();
		Time at = std::chrono::duration_cast<std::chrono::microseconds>(
					  std::chrono::system_clock::now().time_since_epoch())
					  .count();
		if (now() - before > kMillisecond) /* interrupted between the two */
			continue;
		Time offset = at - before;
		for (Time seen = least_offset; offset < seen;)
			least_offset.compare_exchange_weak(seen, offset);
		for (Time seen = greatest_offset; offset > seen;)
			greatest_offset.compare_exchange_weak(seen, offset);
		return at;
	}
}

inline void
nap(Time duration)
{
	std::this_thread::sleep_for(std::chrono::microseconds(duration));
}

/* Return by how much, at most, the wall clock was set since the start of the test. */
inline Time
clock_was_set()
{
	(void) wall();
	return greatest_offset - least_offset;
}

/* Tolerance for comparing the server's wall-clock times with times of this process. */
constexpr Time kClockNoise = 20 * kMillisecond;

/*
 * Return how much a time read by the server, or from the wall clock, may differ from this process's
 * time.
 */
inline Time
clock_margin()
{
	return kClockNoise + clock_was_set();
}

/*
 * Longest time that anything may take, in all circumstances: an answer of the server, a restart, a
 * drain.
 */
constexpr Time kPatience = 180 * kSecond;

} // namespace torture
