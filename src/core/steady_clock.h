/*
 * When may something be done by the wall clock that cannot be undone?  A clock that was
 * set wrong for a moment, by NTP or when a machine wakes up, must not delete years of
 * what was to be kept.  So: nothing is destroyed, and no schedule fires, by wall clock
 * unless it stood its ground: since the last look it went as fast as the monotonic
 * clock, give or take a second, and it has been so for a minute.
 *
 * What is destroyed also waits for a minute after a start; schedules do not: each start
 * would make them late, while a clock that is wrong when the server starts can make one
 * fire before its time once.
 *
 * Jobs are not destroyed by being handed out, and those that wait for their time go by
 * the wall clock as it is: see Schedule for what happens when it is set back.
 *
 * Pure: no server header.  Times are in microseconds; the wall clock's on any scale.
 */
#pragma once

#include <cstdint>

namespace pgq {

/* A clock that is so far from where it should be was set; less is drift, or a leap second. */
inline constexpr int64_t kJump = 1000 * 1000;

class SteadyClock
{
public:
	static constexpr int64_t kProbation = 60 * 1000 * 1000;

	/* Look at both clocks, read one right after the other. Returns by how much wall was set since the last look. */
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

	/* Has it stood its ground, up to this reading? The first look is no better than a jump. */
	bool trusted(int64_t wall, int64_t monotonic) const
	{
		return seen_ && stands(wall, monotonic) && monotonic >= trusted_from_;
	}

	/* The same, but that the first look is believed. */
	bool steady(int64_t wall, int64_t monotonic) const
	{
		return seen_ && stands(wall, monotonic) && (!was_set_ || monotonic >= trusted_from_);
	}

	/* The monotonic time at which it will have, if it is not set again. */
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
