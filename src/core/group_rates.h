/*
 * Rates of groups (option group_rate_limit): in any time span of one period, at most `limit` jobs of a group start.
 *
 * The entry of a group counts its starts, and the jobs that claims have taken and not handed out yet. If both together reach the
 * limit, the group has no room. A group is throttled while only its rate limit keeps its jobs from starting, and the time at which
 * one may start is known. A group that has no job in work and is not throttled is fading: its entry stays until none of its starts
 * counts any more.
 *
 * Only a limited number of groups without a job in work may have entries. Beyond that, an entry is merged into the counter of the
 * others, that is, of all groups without an entry. A new entry begins with a copy of this counter, so a group may count too many
 * starts, never too few. While the others have no room, they are all passed over, with one cursor. When the others have room
 * again, all rows of the queue from this cursor on are read again.
 *
 * A change of the rules touches no entry. Each entry says by which rules it counts, and is adjusted when it is used next.
 *
 * Pure and unlocked: part of Groups. All times are monotonic; the present time is the latest that was passed to pass().
 */
#pragma once

#include "core/group.h"

#include <algorithm>
#include <cassert>
#include <climits>

namespace pgq {

class GroupRates
{
public:
	void reset(const GroupRules &rules)
	{
		Tree::init_header(&throttled_);
		Tree::init_header(&fading_);
		timed_ = 0;
		now_ = 0;
		limit_ = rules.rate;
		period_ = rules.period;
		epoch_ = since_none_ = 0;
		changed_at_ = 0;
		others_aside_ = false;
		if (on())
			others_.restart(rules.period, now_);
	}

	bool on() const { return limit_ > 0; }
	int64_t now() const { return now_; }
	void pass(int64_t now) { now_ = std::max(now_, now); }

	/* Return the starts of the group, adjusted to the present rules. */
	SmallRate &starts_of(Group *group) const
	{
		GroupRate &rate = group->rate;
		if (rate.rules == epoch_)
			return rate.starts;
		/* Starts before the last change of the period count as starts at the time of the change. */
		int32_t n = rate.rules < since_none_ ? 0 : rate.starts.started(0);
		rate.starts.restart(period_, changed_at_);
		rate.starts.note(n, changed_at_);
		rate.rules = epoch_;
		return rate.starts;
	}

	/* Return how many more jobs of the group may start now. */
	int32_t room(Group *group) const
	{
		if (!on())
			return INT32_MAX;
		int64_t taken = int64_t{group->rate.claiming} + starts_of(group).started(now_);
		return static_cast<int32_t>(std::max<int64_t>(limit_ - taken, 0));
	}

	/* Return when one more job of a group without room may start; INT64_MAX: not before a claim in progress has ended. */
	int64_t next_start(Group *group) const
	{
		int32_t limit = limit_ - group->rate.claiming;
		return limit > 0 ? starts_of(group).less_than(limit, now_) : INT64_MAX;
	}

	/* Return the earliest time at which a throttled group, or the others, may have room; INT64_MAX: no group waits. */
	int64_t next_time() const
	{
		if (!on())
			return INT64_MAX;
		const TreeNode *first = Tree::begin_node(&throttled_);
		int64_t next = first == &throttled_ ? INT64_MAX : of(first)->rate.at;
		return others_aside_ ? std::min(next, others_at_) : next;
	}

	/* ---- entries that wait for time ---- */

	int timed() const { return timed_; }

	/* Return whether the group waits until one more job may start. */
	bool throttles(const Group *group) const
	{
		return on() && group->rate.wait == GroupRate::kThrottled;
	}

	/* Let the group wait until one more job may start. Call this only if its rate limit alone keeps its jobs back. */
	void throttle(Group *group)
	{
		int64_t at = next_start(group);
		if (group->rate.wait == GroupRate::kThrottled && group->rate.at == at)
			return;
		stop_timing(group);
		if (at != INT64_MAX)
			start_timing(group, GroupRate::kThrottled, at);
	}

	/* Let a group without a job in work wait until none of its starts counts. Return false if no start counts now. */
	bool keep(Group *group)
	{
		stop_timing(group);
		if (!on() || starts_of(group).started(now_) == 0)
			return false;
		start_timing(group, GroupRate::kFading, starts_of(group).less_than(1, now_));
		return true;
	}

	void stop_timing(Group *group)
	{
		if (group->rate.wait == GroupRate::kNone)
			return;
		Tree::erase(tree_of(group->rate.wait), &group->rate.timed);
		group->rate.wait = GroupRate::kNone;
		timed_--;
	}

	/* End the wait of a throttled (take_faded(): fading) group whose time has come. Return the group; NULL: there is none. */
	Group *take_due() { return take(&throttled_); }
	Group *take_faded() { return take(&fading_); }

	/* Return the fading group whose wait ends first; NULL: there is none. */
	Group *first_fading() const
	{
		TreeNode *n = Tree::begin_node(&fading_);
		return n != &fading_ ? of(n) : nullptr;
	}

	/* ---- the others: groups without an entry ---- */

	int32_t others_room() { return on() ? std::max(limit_ - others_.started(now_), 0) : INT32_MAX; }
	bool others_have_room() { return others_room() > 0; }
	bool others_are_aside() const { return others_aside_; }
	const Key &others_cursor() const { return others_cursor_; }
	int64_t others_next_start() const { return others_aside_ ? others_at_ : INT64_MAX; }

	/* Initialize the rate of a new entry with the counter of the others. */
	void begin(Group *group)
	{
		group->rate.rules = epoch_;
		if (on())
			group->rate.starts = others_;
	}

	/* Note that a job of a group without an entry has started. */
	void note_other()
	{
		if (on() && others_.started(now_) < INT32_MAX)
			others_.note(1, now_);
		time_others();
	}

	/* Merge the starts of a group that loses its entry into the counter of the others. */
	void add_to_others(const SmallRate &starts)
	{
		others_.cover(starts, now_);
		time_others();
	}

	/* Pass over the others, which have no room. When the others have room again, rows from `cursor` on are read. */
	void set_others_aside(const Key &cursor)
	{
		assert(!others_have_room());
		others_cursor_ = others_aside_ && others_cursor_ < cursor ? others_cursor_ : cursor;
		others_aside_ = true;
		time_others();
	}

	/* Return true if the others were passed over and have room now. Then all rows of the queue from *cursor on are to be read. */
	bool others_may_go_on(Key *cursor)
	{
		if (!others_aside_ || !others_have_room())
			return false;
		others_aside_ = false;
		*cursor = others_cursor_;
		return true;
	}
	void end_others_aside() { others_aside_ = false; }

	/* Note that the starts up to `when` are unknown: the others count as many starts as the limit allows, all of them at `when`. */
	void assume_most(int64_t period, int64_t when)
	{
		others_.restart(period, when);
		others_.note(limit_, when);
	}

	/*
	 * The counter of the others (the groups without an entry) counts starts in short parts of the
	 * period. Call visit() for each part whose starts still count; see RateOf::for_each_part().
	 */
	template <typename Visit> void for_each_other_part(Visit visit)
	{
		others_.for_each_part(now_, visit);
	}
	/* Count n saved starts of the others, at the time `when`. */
	void add_others(int32_t n, int64_t when)
	{
		others_.note(std::min(n, INT32_MAX - others_.started(when)), when);
	}

	/* Note that no job of the others has started before `when`. */
	void assume_none(int64_t period, int64_t when) { others_.restart(period, when); }

	/* ---- other rules ---- */

	/* Change the rules. If the queue had no rate limit for groups before, only later starts count. */
	void change(const GroupRules &old, const GroupRules &rules)
	{
		others_aside_ = false;
		limit_ = rules.rate;
		if (!on() || (old.rate > 0 && rules.period == old.period))
			return;
		period_ = rules.period;
		changed_at_ = now_;
		epoch_++;
		if (old.rate == 0)
		{
			since_none_ = epoch_;
			others_.restart(period_, now_);
		}
		else
			others_.set_period(period_, now_);
	}

private:
	static Group *of(const TreeNode *n)
	{
		return container_of<Group>(const_cast<TreeNode *>(n),
								   offsetof(Group, rate) + offsetof(GroupRate, timed));
	}

	struct ByTime
	{
		bool operator()(const TreeNode *a, const TreeNode *b) const
		{
			return of(a)->rate.at < of(b)->rate.at;
		}
	};

	TreeNode *tree_of(GroupRate::Wait wait)
	{
		return wait == GroupRate::kThrottled ? &throttled_ : &fading_;
	}

	void start_timing(Group *group, GroupRate::Wait wait, int64_t at)
	{
		group->rate.wait = wait;
		group->rate.at = at;
		Tree::insert_equal_upper_bound(tree_of(wait), &group->rate.timed, ByTime{});
		timed_++;
	}

	Group *take(TreeNode *tree)
	{
		TreeNode *n = Tree::begin_node(tree);
		if (n == tree || of(n)->rate.at > now_)
			return nullptr;
		stop_timing(of(n));
		return of(n);
	}

	void time_others()
	{
		if (others_aside_)
			others_at_ = others_.less_than(limit_, now_);
	}

	TreeNode throttled_;  /* header of the tree of throttled groups, by the end of the wait */
	TreeNode fading_;	  /* header of the tree of fading groups, by the end of the wait */
	int32_t timed_;		  /* number of groups in both trees */
	int32_t limit_;		  /* most starts of a group in a period; 0: no limit */
	int64_t period_;	  /* microseconds */
	uint32_t epoch_;	  /* counts the changes of rules after which starts must be adjusted */
	uint32_t since_none_; /* entries with an earlier epoch have no starts: there was no limit */
	int64_t changed_at_;  /* time at which the present epoch began */
	int64_t now_;		  /* present time */
	SmallRate others_;	  /* counter of the others: upper bound of the starts of each of them */
	bool others_aside_;	  /* the others were passed over, and have no room yet */
	Key others_cursor_; /* if others_aside_: memory may lack rows of the others from this key on */
	int64_t others_at_; /* if others_aside_: time at which the others have room again */
};

} // namespace pgq
