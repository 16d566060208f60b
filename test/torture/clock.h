/* Time as the test sees it: microseconds of the monotonic clock. */
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

/* How far the wall clock has been from the monotonic one, at least and at most: more and less, once somebody has set it. */
inline std::atomic<Time> least_offset = INT64_MAX;
inline std::atomic<Time> greatest_offset = INT64_MIN;

/* What the server's delays count by: it can be set, and is, on a machine that was asleep, or whose clock runs fast. */
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

/* By so much, at most, up to now. */
inline Time
clock_was_set()
{
	(void) wall();
	return greatest_offset - least_offset;
}

/* The server's wall clock is not the clock we measure with. */
constexpr Time kClockNoise = 20 * kMillisecond;

/* How far a time that was read there, or from the wall clock at any time, may be from what we believe. */
inline Time
clock_margin()
{
	return kClockNoise + clock_was_set();
}

/* Nothing may take longer than this, whatever happened: the server's answer, a restart, a drain. */
constexpr Time kPatience = 180 * kSecond;

} // namespace torture
