/* Time as the test sees it: microseconds of the monotonic clock. */
#pragma once

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

/* What the server's delays count by: it can be set, and is, on a machine that was asleep. */
inline Time
wall()
{
	return std::chrono::duration_cast<std::chrono::microseconds>(
			   std::chrono::system_clock::now().time_since_epoch())
		.count();
}

inline void
nap(Time duration)
{
	std::this_thread::sleep_for(std::chrono::microseconds(duration));
}

/* The server's wall clock is not the clock we measure with. */
constexpr Time kClockMargin = 20 * kMillisecond;
/* Nothing may take longer than this, whatever happened: the server's answer, a restart, a drain. */
constexpr Time kPatience = 180 * kSecond;

} // namespace torture
