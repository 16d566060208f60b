/*
 * The entries of the groups of one queue (core/group.h): how many jobs of each group are in work, and so which groups have room
 * for one more job.
 *
 * The groups without an entry are called the others. They share one counter of starts (group_rates.h), so either all of them have
 * room or none has.
 *
 * Memory drops a ready row of a group without room; the cursor of the group keeps the smallest dropped key. When the group has room
 * again, ReadyJobs puts a marker at that key, or with fifo at -infinity, since the key of the head is unknown. So memory needs no
 * more than a marker for a group that has room and waiting jobs.
 *
 * Spare entries come from the owner of the queue (give()), and go back to the owner (take_spare()). Pure and unlocked: part of
 * ReadyJobs, which is used under the queue's lock.
 */
#pragma once

#include "core/group_rates.h"

#include <utility>

namespace pgq {

class Groups
{
public:
	void init()
	{
		size_ = spares_ = peak_ = busy_ = 0;
		spare_ = nullptr;
		reset({});
	}

	void reset(const GroupRules &rules)
	{
		assert(size_ == 0);
		Tree::init_header(&by_id_);
		rules_ = rules;
		most_remembered_ = 0;
		rates_.reset(rules);
	}

	const GroupRules &rules() const { return rules_; }
	GroupRates &rates() { return rates_; }
	const GroupRates &rates() const { return rates_; }
	bool in_order(int64_t id) const { return rules_.in_order(id); }

	/* ---- entries ---- */

	int size() const { return size_; }
	int peak() const { return peak_; } /* greatest size since init() */
	/* Return the number of entries of groups without a job in work. remember_at_most() sets its upper bound. */
	int remembered() const { return size_ - busy_; }
	void remember_at_most(int most) { most_remembered_ = most; }
	int most_remembered() const { return most_remembered_; }

	int spares() const { return spares_; }
	void give(Group *group)
	{
		group->by_id.parent = reinterpret_cast<TreeNode *>(spare_);
		spare_ = group;
		spares_++;
	}
	Group *take_spare()
	{
		Group *group = spare_;
		if (group == nullptr)
			return nullptr;
		spare_ = reinterpret_cast<Group *>(group->by_id.parent);
		spares_--;
		return group;
	}

	const Group *find(int64_t id) const
	{
		if (size_ == 0 || id == 0)
			return nullptr;
		TreeNode *n = Tree::find(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}
	Group *find(int64_t id) { return const_cast<Group *>(std::as_const(*this).find(id)); }

	/* Return the entry with the next greater id; NULL: there is none. */
	const Group *next_after(int64_t id) const
	{
		TreeNode *n = Tree::upper_bound(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}

	/* Return the number of jobs in work of all groups; claiming(): only of jobs that claims have not handed out yet. */
	int64_t running() const
	{
		return sum([](const Group *group) { return group->running; });
	}
	int64_t claiming() const
	{
		return sum([](const Group *group) { return group->rate.claiming; });
	}

	template <typename Visit> void for_each(Visit visit)
	{
		for (TreeNode *n = Tree::begin_node(&by_id_), *next; n != &by_id_; n = next)
		{
			next = Tree::next_node(n);
			visit(of(n));
		}
	}

	void remove_first() { remove(of(Tree::begin_node(&by_id_))); }
	/* Remove the entry from the group. The entry becomes a spare one. */
	void remove(Group *group)
	{
		rates_.stop_timing(group);
		busy_ -= group->running > 0;
		Tree::erase(&by_id_, &group->by_id);
		size_--;
		give(group);
	}

	/* ---- room ---- */

	/* Return how many more jobs of the group may be claimed. */
	int32_t room(int64_t id)
	{
		if (Group *group = find(id))
			return room(group);
		return rules_.count() && id != 0 ? std::min(rules_.most(), rates_.others_room())
										 : INT32_MAX;
	}
	int32_t room(Group *group) const
	{
		return std::min(std::max(rules_.most() - group->running, 0), rates_.room(group));
	}

	/* If the group has no room, lower its cursor to the key of the ready row, and return true: memory need not keep the row. */
	bool drop(const Hint &hint) { return drop(hint.group, hint.key); }
	bool drop(int64_t id, const Key &key)
	{
		if (id == 0 || !rules_.count())
			return false;
		Group *group = find(id);
		if (group == nullptr && !rates_.others_have_room())
			rates_.set_others_aside(rules_.fifo ? Key::lowest() : key);
		if (group == nullptr)
			return !rates_.others_have_room();
		if (room(group) > 0)
			return false;
		group->cursor = std::min(group->cursor, key);
		look_at_rate(group);
		return true;
	}

	/*
	 * Return whether the cursor of the row's group covers the row: memory may lack all rows of the group from the cursor on. With
	 * fifo, memory may lack all rows of a group without room: the group has a job in work, or is throttled. The function changes
	 * nothing, since callers may share the queue's lock with other processes.
	 */
	bool cover(const Hint &hint) const
	{
		const Group *group = find(hint.group);
		if (group == nullptr)
			return hint.group != 0 && rates_.others_are_aside() &&
				   !(hint.key < rates_.others_cursor());
		bool full = group->running >= rules_.most() || rates_.throttles(group);
		return (in_order(group->id) && full) || !(hint.key < group->cursor);
	}

	/* Count a lease. The group has an entry, or there is a spare one. claiming: a claim has not handed out the job yet. */
	void occupy(int64_t id, bool claiming)
	{
		Group *group = find(id);
		group = group != nullptr ? group : add(id);
		busy_ += group->running++ == 0;
		group->rate.claiming += claiming;
		look_at_rate(group);
	}

	/* Stop counting a lease. Return the key from which on rows of the group are to be read now; +infinity: no rows. */
	Key release(int64_t id, bool claiming)
	{
		Group *group = find(id);
		assert(group != nullptr && group->running > 0 && group->rate.claiming >= claiming);
		busy_ -= --group->running == 0;
		group->rate.claiming -= claiming;
		return look_again(group);
	}

	/* ---- rates ---- */

	/* Note that a job of the group is handed out. counted: the entry counts the lease of the job, until now as claiming. */
	void note_start(int64_t id, bool counted)
	{
		Group *group = find(id);
		if (group == nullptr)
			return rates_.note_other();
		group->rate.claiming -= counted;
		if (!rates_.on())
			return;
		rates_.starts_of(group).note(1, rates_.now());
		look_at_rate(group);
	}

	/* Count n saved starts at `when`. A new entry counts no other starts. If no entry can be added, count them for the others. */
	void add_starts(int64_t id, int32_t n, int64_t when)
	{
		Group *group = find(id);
		if (group == nullptr && (spares_ == 0 || remembered() >= most_remembered_))
			return rates_.add_others(n, when);
		if (group == nullptr)
		{
			group = add(id);
			group->rate.starts.restart(rules_.period, when);
		}
		SmallRate &starts = rates_.starts_of(group);
		starts.note(std::min(n, INT32_MAX - starts.started(when)), when);
		(void) look_again(group);
	}

	/*
	 * End waits that are over, at most kAtOnce of each kind. For each throttled group that has room now, call found(id, from): rows
	 * of the group from the key `from` on are to be read.
	 */
	template <typename Found> void let_time_pass(int64_t now, Found found)
	{
		static constexpr int kAtOnce = 64;
		rates_.pass(now);
		Group *group;
		for (int i = 0; i < kAtOnce && (group = rates_.take_due()) != nullptr; i++)
		{
			int64_t id = group->id;
			if (Key from = look_again(group); !(from == Key::highest()))
				found(id, from);
		}
		for (int i = 0; i < kAtOnce && (group = rates_.take_faded()) != nullptr; i++)
			(void) look_again(group);
	}

	/* Change the rules. The caller then forgets all hints. The entries stay: a superfluous cursor only costs a visit. */
	void change_rules(const GroupRules &rules, int64_t now)
	{
		rates_.pass(now);
		rates_.change(rules_, rules);
		rules_ = rules;
	}

private:
	static Group *of(const TreeNode *n)
	{
		return container_of<Group>(const_cast<TreeNode *>(n), offsetof(Group, by_id));
	}

	struct ById
	{
		static int64_t get(int64_t id) { return id; }
		static int64_t get(const TreeNode *n) { return of(n)->id; }
		template <typename A, typename B> bool operator()(A a, B b) const
		{
			return get(a) < get(b);
		}
	};

	template <typename Of> int64_t sum(Of number_of) const
	{
		int64_t n = 0;
		for (TreeNode *e = Tree::begin_node(&by_id_); e != &by_id_; e = Tree::next_node(e))
			n += number_of(of(e));
		return n;
	}

	Group *add(int64_t id)
	{
		Group *group = take_spare();
		assert(group != nullptr);
		*group = {};
		group->id = id;
		/* Until now the cursor of the others has covered the rows of the group. */
		group->cursor = rates_.others_are_aside() ? rates_.others_cursor() : Key::highest();
		rates_.begin(group);
		Tree::insert_commit_data position;
		Tree::insert_unique_check(&by_id_, id, ById{}, position);
		Tree::insert_unique_commit(&by_id_, &group->by_id, position);
		if (++size_ > peak_)
			peak_ = size_;
		return group;
	}

	/*
	 * If the group has room, clear its cursor, and return the key from which on rows are to be read. Otherwise return +infinity.
	 * The entry of a group without a job in work may be removed.
	 */
	Key look_again(Group *group)
	{
		bool open = room(group) > 0;
		Key from = !open ? Key::highest() : in_order(group->id) ? Key::lowest() : group->cursor;
		if (open)
			group->cursor = Key::highest();
		look_at_rate(group);
		if (group->running == 0)
			leave(group);
		return from;
	}

	/*
	 * Remove the entry of a group without a job in work, unless the group is throttled, or its starts still count. If too many
	 * groups are remembered then, merge one of them into the others.
	 */
	void leave(Group *group)
	{
		bool waits = group->rate.wait == GroupRate::kThrottled;
		if (!waits && !rates_.keep(group))
			return remove(group);
		if (remembered() <= most_remembered_)
			return;
		Group *fading = rates_.first_fading();
		merge_into_others(fading != nullptr ? fading : group);
	}

	void merge_into_others(Group *group)
	{
		SmallRate starts = rates_.starts_of(group);
		bool waits = group->rate.wait == GroupRate::kThrottled;
		Key cursor = rules_.fifo ? Key::lowest() : group->cursor;
		remove(group);
		rates_.add_to_others(starts);
		if (waits)
			rates_.set_others_aside(cursor);
	}

	/*
	 * Throttle the group if memory may have dropped rows of the group, and only the rate limit keeps them from starting. Otherwise
	 * the group no longer waits for time: it is neither throttled nor fading.
	 */
	void look_at_rate(Group *group)
	{
		bool waits = in_order(group->id) || !(group->cursor == Key::highest());
		if (rates_.on() && waits && group->running < rules_.most() && rates_.room(group) == 0)
			rates_.throttle(group);
		else
			rates_.stop_timing(group);
	}

	GroupRules rules_;
	GroupRates rates_;
	TreeNode by_id_; /* header of the tree of entries, by id */
	int32_t size_;
	int32_t busy_; /* number of entries of groups with jobs in work */
	int32_t peak_;
	int32_t most_remembered_; /* upper bound of remembered() */
	int32_t spares_;
	Group *spare_; /* list of spare entries */
};

} // namespace pgq
