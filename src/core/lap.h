/*
 * What is not known of a queue with fair: jobs of groups that have no run in memory (turns.h).
 *
 * Groups are on a circle, in the order of their ids. A lap goes once round it. Its arc are the groups that it has still
 * to visit: of these, jobs of its priority or a lower one may be missing in memory. Of the others, which it has visited,
 * such of the priority `left` or a lower one may be: another lap is for them. Jobs of a higher priority than the lap's
 * are all known; without a lap, all jobs are.
 *
 * A process reads the next groups of the arc without a lock, and then takes what it has read over, group by group, in
 * their order. A group of which a job was dropped meanwhile is spoilt: what was read of it, and of those behind it, is
 * read again.
 *
 * Pure and unlocked.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

/* How far the second group is behind the first, on the circle. */
constexpr uint64_t
distance(int64_t from, int64_t to)
{
	return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}
constexpr int64_t
after(int64_t group)
{
	return static_cast<int64_t>(static_cast<uint64_t>(group) + 1);
}

constexpr int64_t
before(int64_t group)
{
	return static_cast<int64_t>(static_cast<uint64_t>(group) - 1);
}

/* The groups that a process is to read: from, and up to to, in the order of their ids. */
struct LapStep
{
	uint32_t lap;
	int64_t from;
	int64_t to;
	int32_t priority; /* jobs of a higher one are known */
	int32_t room;	  /* as many jobs of a group are wanted */
};

class Lap
{
public:
	static constexpr int64_t kNone = INT64_MIN;

	/* From behind the group that had the last turn of that priority, all round. */
	void begin(int32_t priority, int64_t hand) { begin(priority, after(hand), hand, kNone); }
	void end()
	{
		on_ = false;
		serial_++;
	}

	bool on() const { return on_; }
	bool reading() const { return reading_; }
	int32_t priority() const { return priority_; }
	int64_t left() const { return left_; }
	uint32_t serial() const { return serial_; }
	int64_t arc_begin() const { return next_; }
	int64_t arc_end() const { return end_; }

	/* Jobs of that group, which has no run, may be missing from this priority on; kNone: none is. */
	int64_t bound(int64_t group) const { return !on_ ? kNone : in_arc(group) ? priority_ : left_; }

	/* Is the turn of that group, at the lap's priority, before that of any whose jobs may be missing? */
	bool ahead(int64_t group, int64_t hand) const
	{
		int64_t first = in_arc(after(hand)) ? after(hand) : next_;
		return !in_arc(group) && distance(after(hand), group) < distance(after(hand), first);
	}

	/* May a job of that priority and group go out? hand: of that priority. */
	bool lets_go(int32_t priority, int64_t group, int64_t hand) const
	{
		return !on_ || priority > priority_ || (priority == priority_ && ahead(group, hand));
	}

	/* A job is filed of which nothing more is kept: will the lap find it in time? hand: of its priority. */
	bool finds(int32_t priority, int64_t group, int64_t hand) const
	{
		bool is_next = priority == priority_ && ahead(group, hand);
		return priority <= bound(group) && !(reading_ && in_arc(group)) && !is_next;
	}

	/* Jobs of that priority or a lower one are known no more. hand: of that priority. */
	void lose(int32_t priority, int64_t group, int64_t hand)
	{
		if (!on_ || priority > priority_)
			begin(priority, group, hand, on_ ? std::max<int64_t>(priority_, left_) : kNone);
		else if (in_arc(group))
			spoilt_ = reading_ ? std::min(spoilt_, distance(read_from_, group)) : spoilt_;
		else if (priority == priority_ && ahead(group, hand))
		{
			next_ = group;
			serial_++;
		}
		else
			left_ = std::max<int64_t>(left_, priority);
	}

	/* ---- steps ---- */

	LapStep begin_step()
	{
		reading_ = true;
		spoilt_ = UINT64_MAX;
		read_from_ = next_;
		int64_t last = before(end_);
		return {serial_, next_, next_ <= last ? last : INT64_MAX, priority_, 0};
	}
	void end_step() { reading_ = false; }

	/* Is what was read of that group still right? */
	bool spoils(int64_t group) const { return distance(read_from_, group) >= spoilt_; }
	bool spoilt() const { return spoilt_ != UINT64_MAX; }
	uint64_t spoilt_from() const { return spoilt_; }

	/* The groups up to that one have been visited. True: all of the circle has. */
	bool visit_up_to(int64_t group)
	{
		next_ = after(group);
		return next_ == end_;
	}

private:
	void begin(int32_t priority, int64_t next, int64_t hand, int64_t left)
	{
		on_ = true;
		priority_ = priority;
		next_ = next;
		end_ = after(hand);
		left_ = left;
		serial_++;
	}

	/* An arc that ends where it begins is the whole circle. */
	bool in_arc(int64_t group) const
	{
		return next_ == end_ || distance(next_, group) < distance(next_, end_);
	}

	bool on_;
	bool reading_;
	int32_t priority_;
	uint32_t serial_; /* of the lap, and of the place to which it has been set back */
	int64_t next_;	  /* the arc: the first group to visit, */
	int64_t end_;	  /* and the one before which it ends */
	int64_t left_;
	int64_t read_from_; /* reading: the first group */
	uint64_t spoilt_;	/* reading: how far from there the first group is that is spoilt */
};

} // namespace pgq
