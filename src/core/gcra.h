/*
 * Permits at a steady rate (the generic cell rate algorithm): at most `permits` in any window of one period, wherever it
 * begins, of which at most `burst` at the same moment.
 *
 * A bucket that holds `burst` and is refilled evenly with `permits` a period would let permits + burst - 1 through in some
 * window. So it is refilled more slowly, with permits - burst + 1 a period; that makes it exact.
 *
 * Kept is one number: when the bucket will be full again, were nobody to take anything. Pure and unlocked. Times are
 * microseconds of a clock that does not go back.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

class Gcra
{
public:
	/* Nothing is known of what was taken before: the bucket is empty. 1 <= burst <= permits. */
	void restart(int64_t permits, int64_t period, int64_t burst, int64_t now)
	{
		int64_t refilled = permits - burst + 1;
		interval_ = (period + refilled - 1) / refilled;
		burst_ = burst;
		full_at_ = now + burst * interval_;
	}

	/* When that many can be had together, at most burst: not before now. */
	int64_t earliest(int64_t n, int64_t now) const
	{
		return std::max(now, full_at_ - (burst_ - n) * interval_);
	}

	/* They are taken, at earliest(). Returns what give_back() wants to know. */
	int64_t take(int64_t n, int64_t at)
	{
		full_at_ = std::max(full_at_, at) + n * interval_;
		return full_at_;
	}

	/* They were not used, which is of use as long as nobody has taken others since. */
	void give_back(int64_t n, int64_t taken)
	{
		if (full_at_ == taken)
			full_at_ -= n * interval_;
	}

	/* How many can be had now. */
	int64_t available(int64_t now) const
	{
		int64_t missing = std::max(INT64_C(0), full_at_ - now);
		return std::max(INT64_C(0), burst_ - (missing + interval_ - 1) / interval_);
	}

	/* As it was saved. */
	void restore(int64_t interval, int64_t burst, int64_t full_at)
	{
		interval_ = interval;
		burst_ = burst;
		full_at_ = full_at;
	}

	int64_t full_at() const { return full_at_; }
	int64_t interval() const { return interval_; }
	int64_t burst() const { return burst_; }

private:
	int64_t interval_; /* in which one permit is refilled */
	int64_t burst_;
	int64_t full_at_;
};

} // namespace pgq
