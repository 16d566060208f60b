/*
 * A lap, in a queue with fair: the round in which claims find the groups that have jobs, but no run (runs.h).
 *
 * The groups are on a circle, in the order of their ids. For each priority, the hand is the group that had the last turn. A lap has
 * a priority and goes once round the circle. The groups that it has still to read are its arc. Of a group without a run, memory may
 * lack
 *
 *   if the group is in the arc    jobs of the lap's priority and of lower priorities
 *   if it is not in the arc       jobs of the priority `left` and of lower ones; the next lap, of the priority `left`, finds them
 *   if there is no lap            no jobs
 *
 * A step of the lap reads the first groups of the arc without a lock, and then makes runs of them, group by group. If a group of
 * the arc loses its run while the step reads, this group and all later groups of the step are spoilt: the next step reads them
 * again.
 *
 * Pure and unlocked: part of Turns.
 */
#pragma once

#include <algorithm>
#include <cstdint>

namespace pgq {

/* Return how far `to` is behind `from`, on the circle of all ids. */
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

/* Return the estimated number of groups on the circle if its part from the id `first` to `last` has n groups. */
inline uint32_t
groups_on_circle(uint32_t n, int64_t first, int64_t last)
{
	double ids = static_cast<double>(distance(first, last)) + 1;
	return static_cast<uint32_t>(std::min(n * (0x1p64 / ids), 1e9));
}

/* A step of a lap: the groups that a process is to read, in the order of their ids. */
struct LapStep
{
	uint32_t lap;	  /* Lap::serial() when the step began */
	int64_t from;	  /* first group */
	int64_t to;		  /* last group */
	int32_t priority; /* priority of the lap; jobs of higher priorities need not be read */
	int32_t room;	  /* upper bound of the number of jobs that are wanted of each group */
};

class Lap
{
public:
	static constexpr int64_t kNone = INT64_MIN; /* stands for no priority */

	/* Begin a lap whose arc is the whole circle, from the group behind the hand on. */
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

	/* Return the highest priority of the jobs that memory may lack of a group without a run; kNone: memory lacks no job. */
	int64_t bound(int64_t group) const { return !on_ ? kNone : in_arc(group) ? priority_ : left_; }

	/* Return whether the group has its turn before all groups of the arc. hand: the hand of the lap's priority. */
	bool ahead(int64_t group, int64_t hand) const
	{
		int64_t first = in_arc(after(hand)) ? after(hand) : next_;
		return !in_arc(group) && distance(after(hand), group) < distance(after(hand), first);
	}

	/*
	 * Return whether a job of this priority and group may go out: the lap cannot find a job that goes out earlier. hand: the hand
	 * of this priority.
	 */
	bool lets_go(int32_t priority, int64_t group, int64_t hand) const
	{
		return !on_ || priority > priority_ || (priority == priority_ && ahead(group, hand));
	}

	/*
	 * Return whether memory need not keep a job that is filed now, because the lap will find the job before its turn comes. hand:
	 * the hand of the job's priority.
	 */
	bool finds(int32_t priority, int64_t group, int64_t hand) const
	{
		bool is_next = priority == priority_ && ahead(group, hand);
		return priority <= bound(group) && !(reading_ && in_arc(group)) && !is_next;
	}

	/* Note that the group has lost its run, whose first job or marker had this priority. hand: the hand of the priority. */
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

	/* Note that the hand of this priority has gone back: groups outside the arc whose turns come next now may lack jobs. */
	void reach_back(int32_t priority, int64_t hand)
	{
		if (!on_ || priority != priority_ || left_ < priority || in_arc(after(hand)))
			return;
		next_ = after(hand);
		serial_++;
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

	/* Return whether the group is spoilt: the rows of the group that the step has read may be out of date. */
	bool spoils(int64_t group) const { return distance(read_from_, group) >= spoilt_; }
	bool spoilt() const { return spoilt_ != UINT64_MAX; }
	uint64_t spoilt_from() const { return spoilt_; }

	/* Note that the groups of the arc up to this one have been read. Return true if the arc is empty now. */
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

	bool on_;	   /* there is a lap */
	bool reading_; /* a step is under way */
	int32_t priority_;
	uint32_t serial_; /* changes when a lap begins or ends, or its arc begins at an earlier group */
	int64_t next_;	  /* first group of the arc */
	int64_t end_;	  /* first group behind the arc */
	int64_t left_;	  /* `left` in the comment of the file: a priority or kNone */
	int64_t read_from_; /* if reading_: first group of the step */
	uint64_t spoilt_;	/* if reading_: distance from read_from_ to the first spoilt group */
};

} // namespace pgq
