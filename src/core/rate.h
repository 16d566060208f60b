/*
 * Rate: counts starts (hand-outs of jobs), so that in any window of one period there are no more
 * starts than the limit.
 *
 * The period is divided into 16 parts, and starts are counted by part. A window of one period
 * touches at most 17 parts. So one more job may start if the present part and the 16 parts before
 * it have counted less than the limit. The limit is never exceeded, as many jobs as the limit says
 * can start at once, and in the long run at least 16/17 of the limit is reached. (A bucket that is
 * refilled evenly would need less memory, but lets up to twice the limit start in one period.)
 *
 * Needs no server header and takes no lock. Times are microseconds of a clock that does not go
 * back.
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

	/* Begin with no starts. */
	void restart(int64_t period, int64_t now)
	{
		width_ = width_of(period);
		newest_ = part_of(now);
		std::fill(std::begin(counts_), std::end(counts_), 0);
		started_ = 0;
	}

	/* Change the period. Starts that still count under the old period count as if they came now. */
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
	 * Merge `other`, which has the same period. Afterwards this counter reports, at every later
	 * time, at least as many starts as each of the two counters would have reported. For each part,
	 * the sum over this part and all later parts becomes the greater one of the two sums. The
	 * maximum of each part alone would count more starts than needed.
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

	/* Return the number of starts that count now. */
	Count started(int64_t now)
	{
		forget_before(now);
		return started_;
	}

	/* Return the time from which on none of the starts up to now counts. */
	int64_t all_forgotten(int64_t now) const { return (part_of(now) + kWindow) * width_; }

	/*
	 * Visit the parts whose starts still count now, from the oldest on. visit() gets the number of
	 * starts of the part, and the latest time at which jobs of the part can have started.
	 */
	template <typename Visit> void for_each_part(int64_t now, Visit visit)
	{
		forget_before(now);
		for (int64_t part = newest_ - kParts; part <= newest_; part++)
			if (Count n = counts_[index_of(part)])
				visit(n, std::min((part + 1) * width_ - 1, now));
	}

	/*
	 * Return the earliest time, not before now, at which fewer than `limit` starts count if no more
	 * jobs start until then.
	 */
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
	/*
	 * Return the index of a part in counts_. The number of a part is negative before the origin of
	 * the clock.
	 */
	static int64_t index_of(int64_t part) { return (part % kWindow + kWindow) % kWindow; }
	int64_t part_of(int64_t time) const
	{
		return time < 0 ? -((width_ - 1 - time) / width_) : time / width_;
	}

	/* Clear the parts that are too old for any window that ends now or later. */
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
	int64_t newest_; /* number of the newest part */
	Count counts_[kWindow];
	Count started_; /* sum of counts_ */
};

using Rate = RateOf<int64_t>;
using SmallRate = RateOf<int32_t>;

} // namespace pgq
