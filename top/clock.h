/* Seconds of a clock that nobody sets. */
#pragma once

#include <chrono>

namespace top {

inline double
steady_now()
{
	using namespace std::chrono;
	return duration<double>(steady_clock::now().time_since_epoch()).count();
}

} // namespace top
