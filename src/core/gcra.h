/*
 * Permits at a steady rate (the generic cell rate algorithm): at most `permits` in any window of
 * one period, and at most `burst` of them at the same moment.
 *
 * A bucket that holds `burst` permits and is refilled evenly with `permits` in a period would let
 * permits + burst - 1 through in some windows. So the bucket is refilled more slowly, with permits
 * - burst + 1 in a period, which makes the bound exact.
 *
 * The only state is the time at which the bucket will be full if no permit is taken before. Needs
 * no server header and takes no lock. Times are microseconds of a clock that does not go back.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

class Gcra
{
public:
	/*
	 * Begin with an empty bucket, since permits may have been taken before now. 1 <= burst <=
	 * permits.
	 */
	void restart(int64_t permits, int64_t period, int64_t burst, int64_t now)
	{
		int64_t refilled = permits - burst + 1;
		interval_ = (period + refilled - 1) / refilled;
		burst_ = burst;
		full_at_ = now + burst * interval_;
	}

	/*
	 * Return the earliest time, not before now, at which n permits can be taken together. n is at
	 * most burst.
	 */
	int64_t earliest(int64_t n, int64_t now) const
	{
		return std::max(now, full_at_ - (burst_ - n) * interval_);
	}

	/*
	 * Take n permits at the time `at`, which earliest() has returned. The caller passes the result
	 * to give_back() to undo the take.
	 */
	int64_t take(int64_t n, int64_t at)
	{
		full_at_ = std::max(full_at_, at) + n * interval_;
		return full_at_;
	}

	/*
	 * Give back n permits that were not used. Has no effect if other permits were taken after
	 * these.
	 */
	void give_back(int64_t n, int64_t taken)
	{
		if (full_at_ == taken)
			full_at_ -= n * interval_;
	}

	/* Return the number of permits that can be taken now. */
	int64_t available(int64_t now) const
	{
		int64_t missing = std::max(INT64_C(0), full_at_ - now);
		return std::max(INT64_C(0), burst_ - (missing + interval_ - 1) / interval_);
	}

	/* Restore a saved state. full_at is a time of the clock of this server. */
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
	int64_t interval_; /* microseconds in which one permit is refilled */
	int64_t burst_;
	int64_t full_at_;
};

} // namespace pgq
