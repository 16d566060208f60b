/*
 * Backoff after the n-th failed attempt:
 *     min(backoff_max, backoff_base * 2^(n-1)) * uniform(1-jitter, 1+jitter)
 */
#pragma once

#include <cmath>
#include <cstdint>

namespace pgq {

struct BackoffOptions
{
	int64_t base;  /* microseconds */
	int64_t max;   /* microseconds */
	double jitter; /* 0 to 1 */

	bool operator==(const BackoffOptions &) const = default;
};

/*
 * Return the delay before the next attempt, in microseconds. failed: number of failed attempts so
 * far, at least 1. unit: a uniform random number in [0, 1).
 */
inline int64_t
backoff_delay(const BackoffOptions &options, int32_t failed, double unit)
{
	double exponential = std::ldexp(static_cast<double>(options.base), failed > 1 ? failed - 1 : 0);
	double capped = std::fmin(static_cast<double>(options.max), exponential);
	double factor = 1.0 + options.jitter * (2.0 * unit - 1.0);
	return static_cast<int64_t>(capped * factor);
}

} // namespace pgq
