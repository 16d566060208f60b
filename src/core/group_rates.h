/*
 * Rates of groups: so that in no window of a period more jobs of a group start than a limit says.
 *
 * What has started of a group is counted in its entry, and so is what claims have taken and not handed out yet. A group
 * of which as many count as may start has no room. While only time can help it is throttled, and has room again when
 * its time comes. An entry of a group that does not run any more stays until what it counts has faded.
 *
 * The owner says how many entries may be kept for that alone. One that has to go is merged into the others: of each group
 * that has no entry as many count as of them, and a new entry begins with that. It may be too many, never too few. While
 * that is as many as may start, the others are aside together, from one cursor on; when it is less again, their rows
 * are read again.
 *
 * Rules change without a look at the entries: an entry says by which rules it has counted, and is adjusted when it is
 * used next.
 *
 * Pure and unlocked: part of Groups. The time is what the owner said last (pass).
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
	/* No entries are timed. */
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

	/* What has started of the group, by the rules of now. */
	SmallRate &starts_of(Group *group) const
	{
		GroupRate &rate = group->rate;
		if (rate.rules == epoch_)
			return rate.starts;
		/* Starts that counted before the period changed count as if they came then, or later. */
		int32_t n = rate.rules < since_none_ ? 0 : rate.starts.started(0);
		rate.starts.restart(period_, changed_at_);
		rate.starts.note(n, changed_at_);
		rate.rules = epoch_;
		return rate.starts;
	}

	/* How many more of the group may start now. */
	int32_t room(Group *group) const
	{
		if (!on())
			return INT32_MAX;
		int64_t taken = int64_t{group->rate.claiming} + starts_of(group).started(now_);
		return static_cast<int32_t>(std::max<int64_t>(limit_ - taken, 0));
	}

	/* When one more may start of a group that has no room. INT64_MAX: not before a claim has ended. */
	int64_t next_start(Group *group) const
	{
		int32_t limit = limit_ - group->rate.claiming;
		return limit > 0 ? starts_of(group).less_than(limit, now_) : INT64_MAX;
	}

	/* The earliest time at which somebody may have a job that waits for the rate of its group. INT64_MAX: nobody waits. */
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

	/* Rows of it wait, and it has no room because of its rate alone. */
	void throttle(Group *group)
	{
		int64_t at = next_start(group);
		if (group->rate.wait == GroupRate::kThrottled && group->rate.at == at)
			return;
		stop_timing(group);
		if (at != INT64_MAX)
			start_timing(group, GroupRate::kThrottled, at);
	}

	/* It is of no other use. False: of this neither. */
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

	/* Those whose time has come, one after the other; not timed any more. NULL: none. */
	Group *take_due() { return take(&throttled_); }
	Group *take_faded() { return take(&fading_); }

	/* The one of which something has to be known for the shortest time; it does not run. NULL: none. */
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

	/* A new entry. */
	void begin(Group *group)
	{
		group->rate.rules = epoch_;
		if (on())
			group->rate.starts = others_;
	}

	/* A job of a group that has no entry has started. */
	void note_other()
	{
		if (on() && others_.started(now_) < INT32_MAX)
			others_.note(1, now_);
		time_others();
	}

	/* One of which that many have started has no entry any more. */
	void add_to_others(const SmallRate &starts)
	{
		others_.cover(starts, now_);
		time_others();
	}

	/* They have no room, and their rows from here on are to be read again when they have. */
	void set_others_aside(const Key &cursor)
	{
		assert(!others_have_room());
		others_cursor_ = others_aside_ && others_cursor_ < cursor ? others_cursor_ : cursor;
		others_aside_ = true;
		time_others();
	}

	/* If they have room: everything from this key on is to be read again. */
	bool others_may_go_on(Key *cursor)
	{
		if (!others_aside_ || !others_have_room())
			return false;
		others_aside_ = false;
		*cursor = others_cursor_;
		return true;
	}
	void end_others_aside() { others_aside_ = false; }

	/* Nobody knows what has started before that time: as many as may, of each group. */
	void assume_most(int64_t period, int64_t when)
	{
		others_.restart(period, when);
		others_.note(limit_, when);
	}

	/* Visit what counts of the others, and add what has started of them before: core/rate.h. */
	template <typename Visit> void for_each_other_part(Visit visit)
	{
		others_.for_each_part(now_, visit);
	}
	void add_others(int32_t n, int64_t when)
	{
		others_.note(std::min(n, INT32_MAX - others_.started(when)), when);
	}

	/* Nothing has started. */
	void assume_none(int64_t period, int64_t when) { others_.restart(period, when); }

	/* ---- other rules ---- */

	/* A limit holds for what starts after it was set. */
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

	TreeNode throttled_; /* headers, the earliest first */
	TreeNode fading_;
	int32_t timed_; /* in either */
	int32_t limit_;
	int64_t period_;
	uint32_t epoch_; /* how often the rules have changed such that counts have to be adjusted */
	uint32_t since_none_; /* the epoch that began without any starts */
	int64_t changed_at_;
	int64_t now_; /* monotonic */
	SmallRate others_;
	bool others_aside_;
	Key others_cursor_;
	int64_t others_at_; /* when they have room again */
};

} // namespace pgq
