/* The time in seconds, by a clock that is never set. */
#pragma once

#include <chrono>

namespace shared {

inline double
steady_now()
{
	using namespace std::chrono;
	return duration<double>(steady_clock::now().time_since_epoch()).count();
}

} // namespace shared
