/*
 * Jobs that wait for their run_at, counted by the second in which they become due.
 *
 *             base                   known_to                 reading_to
 *     dropped  | one number a second  |  counted in beyond; also by second while this part is being read
 *
 * The number of jobs that still wait is the sum over the seconds after now, plus beyond. So no number
 * has to change when time passes. If the clock is set back to before base, the sum is not known.
 * Before the clock reaches known_to, the numbers of the next seconds must be found. If beyond is 0,
 * these numbers are all 0. Otherwise the rows of the jobs in beyond are read (begin_part() ..
 * finish_part()). Until the reading has ended, the jobs of the next seconds still count in beyond.
 *
 * Pure: no server header. A number can be negative for a moment, since the end of a job may be
 * counted before its enqueue.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

class DueSeconds
{
public:
	static constexpr int64_t kSeconds = 1024;
	static constexpr int64_t kSlack = 64; /* seconds by which the clock may go back */

	/*
	 * Round a time down to whole seconds. A job counts as due from the beginning of its second, so
	 * never later than its run_at.
	 */
	static constexpr int64_t second_of(int64_t microseconds)
	{
		int64_t second = microseconds / kMicroseconds;
		return microseconds % kMicroseconds < 0 ? second - 1 : second;
	}

	/* Begin with no waiting job, at the second `now`. */
	void reset(int64_t now)
	{
		base_ = now - kSlack;
		known_to_ = reading_to_ = base_ + kSeconds;
		part_from_ = known_to_;
		beyond_ = 0;
		std::fill(seconds_, seconds_ + kSeconds, 0);
	}

	/*
	 * Clear all numbers, and cover the same seconds as `other`, including the seconds that `other`
	 * is going to read.
	 */
	void begin_like(const DueSeconds &other)
	{
		*this = other;
		known_to_ = reading_to_;
		beyond_ = 0;
		std::fill(seconds_, seconds_ + kSeconds, 0);
	}

	int64_t known_to() const { return known_to_; }
	int64_t reading_to() const { return reading_to_; }

	void add(int64_t second, int64_t n)
	{
		if (second > known_to_)
			beyond_ += n;
		else if (second > base_)
			at(second) += static_cast<int32_t>(n);
	}

	/* Return the number of jobs that still wait at the second `now`. Requires knows(now). */
	int64_t waiting(int64_t now) const
	{
		int64_t n = beyond_;
		for (int64_t second = now + 1; second <= known_to_; second++)
			n += at(second);
		return n;
	}

	bool knows(int64_t now) const { return base_ <= now && now <= known_to_; }

	/* Add the numbers of another DueSeconds that has the same base. */
	void merge(const DueSeconds &found)
	{
		for (int64_t i = 0; i < kSeconds; i++)
			seconds_[i] += found.seconds_[i];
		beyond_ += found.beyond_;
	}

	/* ---- the next part of the seconds ---- */

	bool wants_part(int64_t now) const { return known_to_ - now < kSeconds / 2 && knows(now); }

	/*
	 * Cover later seconds without reading rows. Return false, without a change, unless beyond is 0.
	 */
	bool slide(int64_t now)
	{
		if (beyond_ != 0)
			return false;
		begin_part(now);
		known_to_ = reading_to_;
		return true;
	}

	/*
	 * Begin to read the seconds after known_to. Seconds that are long past are dropped to make room
	 * for the new seconds.
	 */
	void begin_part(int64_t now)
	{
		base_ = std::max(base_, now - kSlack);
		reading_to_ = base_ + kSeconds;
		for (int64_t second = known_to_ + 1; second <= reading_to_; second++)
			at(second) = 0;
	}

	void add_to_part(int64_t second, int64_t n)
	{
		if (known_to_ < second && second <= reading_to_)
			at(second) += static_cast<int32_t>(n);
	}

	/*
	 * End the reading: add the numbers that were read (`found`) to the seconds after known_to up to
	 * reading_to. The jobs of these seconds do not count in beyond any more.
	 */
	void finish_part(const DueSeconds &found)
	{
		part_from_ = known_to_;
		for (int64_t second = known_to_ + 1; second <= reading_to_; second++)
		{
			at(second) += found.at(second);
			beyond_ -= at(second);
		}
		known_to_ = reading_to_;
	}

	/* Return whether the last reading has found the number of this second. */
	bool in_last_part(int64_t second) const { return part_from_ < second && second <= known_to_; }
	void add_beyond(int64_t n) { beyond_ += n; }

private:
	static constexpr int64_t kMicroseconds = 1000 * 1000;

	static constexpr int64_t slot(int64_t second)
	{
		return ((second % kSeconds) + kSeconds) % kSeconds;
	}
	int32_t &at(int64_t second) { return seconds_[slot(second)]; }
	int32_t at(int64_t second) const { return seconds_[slot(second)]; }

	int64_t base_;
	int64_t known_to_;
	int64_t reading_to_;
	/* the part that was read last: the seconds after part_from_ up to known_to_ */
	int64_t part_from_;
	int64_t beyond_;
	int32_t seconds_[kSeconds];
};

} // namespace pgq
