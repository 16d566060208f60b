/*
 * Decides whether the wall clock can be trusted for an action that cannot be undone.
 *
 * When NTP sets the clock, or a machine wakes up, the wall clock may be wrong for a moment. Such a
 * clock must not delete years of records. So nothing is deleted, and no schedule fires, unless the
 * wall clock is steady: for a minute, the wall clock went as fast as the monotonic clock, give or
 * take a second between any two readings.
 *
 * Deletions also wait for a minute after a start. Schedules do not wait then: otherwise each start
 * would make them late, while a wrong clock at a start can make a schedule fire too early only
 * once.
 *
 * Handing out a job destroys nothing, so scheduled jobs follow the wall clock even if it is not
 * steady. core/schedule.h says what happens when the clock is set back.
 *
 * Pure: no server header. Times are in microseconds; the wall clock may have any origin.
 */
#pragma once

#include <cstdint>

namespace pgq {

/*
 * A larger difference between the clocks means that the wall clock was set. A smaller difference
 * may be drift or a leap second.
 */
inline constexpr int64_t kJump = 1000 * 1000;

class SteadyClock
{
public:
	static constexpr int64_t kProbation = 60 * 1000 * 1000;

	/*
	 * Compare the two clocks, read one right after the other. Return by how much (microseconds) the
	 * wall clock was set since the last call.
	 */
	int64_t look(int64_t wall, int64_t monotonic)
	{
		int64_t jump = seen_ && !stands(wall, monotonic) ? wall - monotonic - offset_ : 0;
		if (!seen_ || jump != 0)
			trusted_from_ = monotonic + kProbation;
		was_set_ |= jump != 0;
		seen_ = true;
		offset_ = wall - monotonic;
		return jump;
	}

	/*
	 * Return whether the wall clock was steady for the minute before this reading. The first call
	 * of look() counts as a jump.
	 */
	bool trusted(int64_t wall, int64_t monotonic) const
	{
		return seen_ && stands(wall, monotonic) && monotonic >= trusted_from_;
	}

	/* Like trusted(), but the first call of look() does not count as a jump. */
	bool steady(int64_t wall, int64_t monotonic) const
	{
		return seen_ && stands(wall, monotonic) && (!was_set_ || monotonic >= trusted_from_);
	}

	/* Return the monotonic time from which on the clock is trusted, unless it is set again. */
	int64_t trusted_from() const { return trusted_from_; }

private:
	bool stands(int64_t wall, int64_t monotonic) const
	{
		int64_t moved = wall - monotonic - offset_;
		return -kJump < moved && moved < kJump;
	}

	bool seen_;
	bool was_set_;
	int64_t offset_;
	int64_t trusted_from_;
};

} // namespace pgq
