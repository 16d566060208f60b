/*
 * Rate: how many have started lately, so that in no window of one period, wherever it begins, more than a limit do.
 *
 * The period is divided into 16 parts, and what starts is counted by the part of time that it starts in. A window of
 * a period touches 17 parts at most: if those that end with the present one have counted less than the limit, one more
 * may start. That is exact, lets as many start at once as the limit says, and 16/17 of it in the long run at least.
 * (A bucket that is refilled evenly would be smaller, but lets up to twice the limit start in one period.)
 *
 * Pure and unlocked. Times are microseconds of a clock that does not go back.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace pgq {

template <typename Count> class RateOf
{
public:
	static constexpr int64_t kParts = 16;

	/* Nothing has started. */
	void restart(int64_t period, int64_t now)
	{
		width_ = width_of(period);
		newest_ = part_of(now);
		std::fill(std::begin(counts_), std::end(counts_), 0);
		started_ = 0;
	}

	/* Another period from now on: what has started within the one before counts as if it were now. */
	void set_period(int64_t period, int64_t now)
	{
		Count n = started(now);
		restart(period, now);
		note(n, now);
	}

	void note(Count n, int64_t now)
	{
		forget_before(now);
		counts_[index_of(newest_)] += n;
		started_ += n;
	}

	/*
	 * From now on at least as many count at any time as of the other one, if nothing starts. Of the same period. Of each
	 * part and those after it together there are as many as of either: the greater of each part would be too few.
	 */
	void cover(RateOf other, int64_t now)
	{
		forget_before(now);
		other.forget_before(now);
		Count ours = 0, theirs = 0, covered = 0;
		for (int64_t part = newest_; part > newest_ - kWindow; part--)
		{
			Count &count = counts_[index_of(part)];
			ours += count;
			theirs += other.counts_[index_of(part)];
			count = std::max(ours, theirs) - covered;
			covered += count;
		}
		started_ = covered;
	}

	/* How many count now. */
	Count started(int64_t now)
	{
		forget_before(now);
		return started_;
	}

	/* From then on what has started by now does not count any more. */
	int64_t all_forgotten(int64_t now) const { return (part_of(now) + kWindow) * width_; }

	/* Visit what counts now, oldest first: how many have started, and the latest time at which they may have. */
	template <typename Visit> void for_each_part(int64_t now, Visit visit)
	{
		forget_before(now);
		for (int64_t part = newest_ - kParts; part <= newest_; part++)
			if (Count n = counts_[index_of(part)])
				visit(n, std::min((part + 1) * width_ - 1, now));
	}

	/* When less than `limit` will count, if nothing starts: not before now. */
	int64_t less_than(int64_t limit, int64_t now)
	{
		int64_t left = started(now);
		int64_t part = newest_ - kParts;
		if (left < limit)
			return now;
		while (part < newest_ && (left -= counts_[index_of(part)]) >= limit)
			part++;
		return (part + kWindow) * width_;
	}

private:
	static constexpr int64_t kWindow = kParts + 1;

	static int64_t width_of(int64_t period) { return (period + kParts - 1) / kParts; }
	/* A time before the clock began has a number below nought. */
	static int64_t index_of(int64_t part) { return (part % kWindow + kWindow) % kWindow; }
	int64_t part_of(int64_t time) const
	{
		return time < 0 ? -((width_ - 1 - time) / width_) : time / width_;
	}

	/* The parts that no window which ends now touches any more. */
	void forget_before(int64_t now)
	{
		int64_t part = part_of(now);
		for (int64_t i = std::max(newest_ + 1, part - kParts); i <= part; i++)
		{
			Count &count = counts_[index_of(i)];
			started_ -= count;
			count = 0;
		}
		newest_ = std::max(newest_, part);
	}

	int64_t width_;
	int64_t newest_; /* part of time */
	Count counts_[kWindow];
	Count started_; /* their sum */
};

using Rate = RateOf<int64_t>;
using SmallRate = RateOf<int32_t>;

} // namespace pgq
