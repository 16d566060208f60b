/*
 * Jobs that wait for their run_at, counted by the second in which they become due.
 *
 *             base                   known_to                 reading_to
 *     dropped  | one number a second  |  counted in beyond; also by second while that is being read
 *
 * What is due by now is what is in the seconds up to now, so time alone changes no number, and a
 * clock that goes back behind base has nothing to go by. Before it reaches known_to the seconds
 * beyond have to be known one by one: at once if there is nothing beyond, otherwise they are read
 * (begin_part() .. finish_part()), while beyond goes on as it is.
 *
 * Pure: no server header. A number can be negative for a moment: who ends a job may be counted before
 * who has made it.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

class DueSeconds
{
public:
	static constexpr int64_t kSeconds = 1024;
	static constexpr int64_t kSlack = 64; /* seconds that a clock may go back */

	/* A boundary at whole seconds: a job is due from the beginning of its second on, never later than by its run_at. */
	static constexpr int64_t second_of(int64_t microseconds)
	{
		int64_t second = microseconds / kMicroseconds;
		return microseconds % kMicroseconds < 0 ? second - 1 : second;
	}

	/* Nothing waits, as far as is known. */
	void reset(int64_t now)
	{
		base_ = now - kSlack;
		known_to_ = reading_to_ = base_ + kSeconds;
		part_from_ = known_to_;
		beyond_ = 0;
		std::fill(seconds_, seconds_ + kSeconds, 0);
	}

	/* Nothing waits, as far as is known; for the same seconds as that one, and those that are to be read. */
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

	/* How many wait at that time. Only if knows(). */
	int64_t waiting(int64_t now) const
	{
		int64_t n = beyond_;
		for (int64_t second = now + 1; second <= known_to_; second++)
			n += at(second);
		return n;
	}

	bool knows(int64_t now) const { return base_ <= now && now <= known_to_; }

	/* What another one, of the same base, has found. */
	void merge(const DueSeconds &found)
	{
		for (int64_t i = 0; i < kSeconds; i++)
			seconds_[i] += found.seconds_[i];
		beyond_ += found.beyond_;
	}

	/* ---- the next part ---- */

	bool wants_part(int64_t now) const { return known_to_ - now < kSeconds / 2 && knows(now); }

	/* Nothing is beyond: the next seconds are known. */
	bool slide(int64_t now)
	{
		if (beyond_ != 0)
			return false;
		begin_part(now);
		known_to_ = reading_to_;
		return true;
	}

	/* From known_to to reading_to it will be read. */
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

	/* found: as merge(). What it has is no longer beyond. */
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

	/* Was it read with the last part? */
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
	int64_t part_from_; /* before known_to: what was read last */
	int64_t beyond_;
	int32_t seconds_[kSeconds];
};

} // namespace pgq
