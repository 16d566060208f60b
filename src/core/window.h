/*
 * The ready jobs of a queue that are in memory, in the order in which they go out: of each priority the first by run_at
 * and job_id, or, in turn (option fair), one of each group after another, in the order of the groups' ids.
 *
 * In turn, what does not fit is a job of a group that has another one here: as long as there are no more groups than
 * places, each has one. Each priority has a hand, which says whose turn was the last; those that differ by a multiple of
 * kHands share one.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/cursor.h"
#include "core/ordered_set.h"

#include <algorithm>
#include <climits>
#include <iterator>

namespace pgq {

class Window
{
public:
	using Set = OrderedSet<Hint, ByKey>;
	using Node = Set::Node;

	void init(Node *storage, uint32_t capacity)
	{
		set_.init(storage, capacity);
		reset(false);
	}

	void reset(bool in_turn)
	{
		set_.clear();
		in_turn_ = in_turn;
		mates_ = 0;
		hand_ = before_ = INT64_MIN;
		std::fill(std::begin(turns_), std::end(turns_), INT64_MIN);
	}
	void clear() { reset(in_turn_); }

	bool in_turn() const { return in_turn_; }
	uint32_t size() const { return set_.size(); }
	uint32_t capacity() const { return set_.capacity(); }
	uint32_t peak() const { return set_.peak(); }
	bool empty() const { return set_.empty(); }

	/* One of the jobs with the highest priority; not in turn: the next. */
	const Key &first() const { return set_.min().key; }
	int32_t priority() const { return first().priority; }

	bool contains(const Hint &hint) const { return set_.contains(placed(hint)); }
	template <typename Visit> void for_each(Visit visit) const { set_.for_each(visit); }

	/* Not in turn: the first one of that priority or a lower one; NULL: there is none. */
	const Hint *first_of_priority(int32_t priority) const
	{
		assert(!in_turn_);
		return set_.first_from(
			{.key = {priority, INT64_MIN, INT64_MIN}, .in_turn = false, .group = INT64_MIN});
	}

	/* Not in turn: how many of those that are here go out before it, but at most so many. */
	uint32_t count_before(const Hint &hint, uint32_t most) const
	{
		assert(!in_turn_);
		return set_.count_before(hint, most);
	}

	/* In turn: groups of one priority that have jobs here, of all priorities. */
	uint32_t groups() const { return set_.size() - mates_; }

	/* In turn: may more groups of the highest priority be here? */
	bool wants_groups() const
	{
		return set_.max().key.priority < priority() || groups() <= capacity() / 2;
	}

	/* In turn: is there one of that priority and group? */
	bool holds(int32_t priority, int64_t group) const
	{
		const Hint *hint = set_.first_from(first_of(priority, group));
		return hint != nullptr && same_turn(*hint, priority, group);
	}

	/* In turn: the group whose turn was the last of that priority; INT64_MIN: there was none. */
	int64_t last_turn(int32_t priority) const { return turns_[hand_of(priority)]; }
	int64_t hand() const { return hand_; }

	/* What does not fit is left out by leave_out: that hint, or another one. */
	template <typename LeaveOut> void insert(const Hint &given, LeaveOut leave_out)
	{
		Hint hint = placed(given);
		if (!in_turn_)
			insert_smallest<ByKey>(set_, hint, leave_out);
		else if (!set_.full() || set_.contains(hint))
			add(hint);
		else if (const Hint *worse = find_worse(hint))
		{
			Hint out = remove(worse);
			add(hint);
			leave_out(out);
		}
		else
			leave_out(hint);
	}

	/* In turn: the last one of that priority and group goes, for it. False: there is none. */
	bool take_place_of_mate(const Hint &hint)
	{
		const Hint *mate = set_.last_before(last_of(hint.key.priority, hint.group));
		if (mate == nullptr || !same_turn(*mate, hint.key.priority, hint.group))
			return false;
		(void) remove(mate);
		add(placed(hint));
		return true;
	}

	/* What pop takes. */
	const Hint &next() const
	{
		if (!in_turn_)
			return set_.min();
		const Hint *next = set_.first_after(last_of(priority(), last_turn(priority())));
		return next != nullptr && next->key.priority == priority() ? *next : set_.min();
	}

	Hint pop()
	{
		if (!in_turn_)
			return set_.pop_min();
		const Hint &hint = next();
		int64_t &turn = turns_[hand_of(hint.key.priority)];
		before_ = turn;
		turn = hint.group;
		return remove(&hint);
	}

	/* In turn: the last pop has come to nothing, so its group has not had its turn. */
	void return_turn(const Hint &popped)
	{
		if (in_turn_)
			turns_[hand_of(popped.key.priority)] = before_;
	}

private:
	static constexpr uint32_t kHands = 256;

	static uint32_t hand_of(int32_t priority) { return static_cast<uint32_t>(priority) % kHands; }

	Hint placed(const Hint &hint) const
	{
		Hint in_place = hint;
		in_place.in_turn = in_turn_;
		return in_place;
	}

	static Hint first_of(int32_t priority, int64_t group)
	{
		return {.key = {priority, INT64_MIN, INT64_MIN}, .in_turn = true, .group = group};
	}
	static Hint last_of(int32_t priority, int64_t group)
	{
		return {.key = {priority, INT64_MAX, INT64_MAX}, .in_turn = true, .group = group};
	}
	static bool same_turn(const Hint &hint, int32_t priority, int64_t group)
	{
		return hint.key.priority == priority && hint.group == group;
	}

	/* Has it a neighbour of its group? */
	bool has_mate(const Hint &hint) const
	{
		const Hint *before = set_.last_before(hint);
		const Hint *after = set_.first_after(hint);
		return (before != nullptr && same_turn(*before, hint.key.priority, hint.group)) ||
			   (after != nullptr && same_turn(*after, hint.key.priority, hint.group));
	}

	/* An equal one is replaced. */
	void add(const Hint &hint)
	{
		if (!set_.contains(hint))
			mates_ += has_mate(hint);
		set_.insert(hint);
	}

	Hint remove(const Hint *hint)
	{
		mates_ -= has_mate(*hint);
		Hint taken = set_.take(hint);
		taken.in_turn = false;
		return taken;
	}

	/* The window is full: which one is to make room for that hint, which is not among them? NULL: none. */
	const Hint *find_worse(const Hint &hint)
	{
		int32_t lowest = set_.max().key.priority;
		if (hint.key.priority != lowest)
			return lowest < hint.key.priority ? &set_.max() : nullptr;
		const Hint *mate = set_.last_before(last_of(lowest, hint.group));
		if (mate != nullptr && same_turn(*mate, lowest, hint.group))
			return ByKey::less(hint, *mate) ? mate : nullptr;
		return mates_ > 0 ? find_mate(lowest) : nullptr;
	}

	/* The last one of a group that has several of that priority. Looks at some groups only, each time at others. */
	const Hint *find_mate(int32_t priority)
	{
		static constexpr int kLooks = 64;
		for (int i = 0; i < kLooks; i++)
		{
			const Hint *first = set_.first_from(first_of(priority, hand_));
			if (first == nullptr)
				first = set_.first_from(first_of(priority, INT64_MIN));
			const Hint *last = set_.last_before(last_of(priority, first->group));
			hand_ = first->group;
			if (first != last)
				return last;
			hand_ = hand_ < INT64_MAX ? hand_ + 1 : INT64_MIN;
		}
		return nullptr;
	}

	Set set_;
	bool in_turn_;
	uint32_t mates_;		/* those before which one of the same priority and group comes */
	int64_t hand_;			/* of find_mate */
	int64_t before_;		/* the turn that the last pop has ended */
	int64_t turns_[kHands]; /* by hand_of(priority): the group whose turn was the last */
};

} // namespace pgq
