/*
 * Which groups of a queue run, and so which have room for more: the entries of core/group.h.
 *
 * A group without room has an entry, since it runs or is remembered for its rate. What is met of its rows is dropped,
 * and the entry's cursor remembers the smallest key. When the group has room again the owner puts a marker there; in a
 * queue with fifo the marker is before all keys, since nobody knows which row is the first. So nothing has to be known
 * of a group that waits but for its marker, and nothing that a group needs can be missing.
 *
 * Pure and unlocked: part of ReadyJobs. Entries are given and taken by the owner: give, take_spare.
 */
#pragma once

#include "core/group_rates.h"

namespace pgq {

class Groups
{
public:
	/* No entries, and no spare ones. */
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
	int peak() const { return peak_; } /* the greatest size there ever was */
	int remembered() const { return size_ - busy_; }
	/* So many entries may be kept of groups that do not run. */
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

	Group *find(int64_t id) const
	{
		if (size_ == 0 || id == 0)
			return nullptr;
		TreeNode *n = Tree::find(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}

	/* The first one with a greater id; NULL: none. */
	const Group *next_after(int64_t id) const
	{
		TreeNode *n = Tree::upper_bound(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}

	/* Jobs in work, and those of them that claims have: of all groups. */
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
	/* Forget the group. */
	void remove(Group *group)
	{
		rates_.stop_timing(group);
		busy_ -= group->running > 0;
		Tree::erase(&by_id_, &group->by_id);
		size_--;
		give(group);
	}

	/* ---- room ---- */

	/* How many more jobs of the group may be claimed. */
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

	/*
	 * A ready row of a group that has no room is not to be kept in memory: its key is remembered. False: the group has
	 * room, the row is to be kept.
	 */
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

	/* A row that the group's cursor covers, or that of the others. */
	bool cover(const Hint &hint) const
	{
		Group *group = find(hint.group);
		if (group == nullptr)
			return hint.group != 0 && rates_.others_are_aside() &&
				   !(hint.key < rates_.others_cursor());
		return (in_order(group->id) && room(group) == 0) || !(hint.key < group->cursor);
	}

	/* A job of the group has a lease that counts; there is an entry for it, or a spare one. claiming: a claim has it. */
	void occupy(int64_t id, bool claiming)
	{
		Group *group = find(id);
		group = group != nullptr ? group : add(id);
		busy_ += group->running++ == 0;
		group->rate.claiming += claiming;
		look_at_rate(group);
	}

	/* That lease counts no more. Returns where rows of the group are to be looked for now; +infinity: nowhere. */
	Key release(int64_t id, bool claiming)
	{
		Group *group = find(id);
		assert(group != nullptr && group->running > 0 && group->rate.claiming >= claiming);
		busy_ -= --group->running == 0;
		group->rate.claiming -= claiming;
		return look_again(group);
	}

	/* ---- rates ---- */

	/* A job of the group is handed out; counted: it was one of those that claims have. */
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

	/* So many have started at that time, before the group was known; none before that, if it has no entry. */
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

	/* Groups whose time has come, some of them: calls found with the id, and where their rows are to be looked for. */
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

	/*
	 * All rows are read again under these rules. Entries stay: what runs of a group does not depend on the rules, and a
	 * cursor too many costs a look-up.
	 */
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
		/* It was one of those without an entry. */
		group->cursor = rates_.others_are_aside() ? rates_.others_cursor() : Key::highest();
		rates_.begin(group);
		Tree::insert_commit_data position;
		Tree::insert_unique_check(&by_id_, id, ById{}, position);
		Tree::insert_unique_commit(&by_id_, &group->by_id, position);
		if (++size_ > peak_)
			peak_ = size_;
		return group;
	}

	/* If the group has room, its cursor is over, and perhaps its entry. Returns where to look for rows of it. */
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

	/* The group does not run: is it of any more use? */
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

	/* Does nothing but its rate keep rows of the group back? Then time will tell. */
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
	TreeNode by_id_; /* header: all */
	int32_t size_;
	int32_t busy_; /* entries of groups that run */
	int32_t peak_;
	int32_t most_remembered_;
	int32_t spares_;
	Group *spare_;
};

} // namespace pgq
