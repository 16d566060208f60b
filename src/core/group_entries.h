/*
 * The entries of groups: found by their ids, and given by the owner (give, take_spare). Of groups without an entry only
 * the rates of all together are known: group_rates.h.
 *
 * Pure and unlocked: part of Groups.
 */
#pragma once

#include "core/group_rates.h"

#include <cassert>
#include <climits>
#include <cstdint>

namespace pgq {

class GroupEntries
{
public:
	const GroupRules &rules() const { return rules_; }
	GroupRates &rates() { return rates_; }
	const GroupRates &rates() const { return rates_; }
	int size() const { return size_; }
	int peak() const { return peak_; } /* the greatest size there ever was */
	int busy() const { return busy_; } /* groups with jobs in work */

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
		if (group != nullptr)
		{
			spare_ = reinterpret_cast<Group *>(group->by_id.parent);
			spares_--;
		}
		return group;
	}

	Group *find(int64_t id) const
	{
		if (size_ == 0 || (id == 0 && !rules_.fair))
			return nullptr;
		TreeNode *n = Tree::find(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}

	Group *find_aside(int64_t id) const
	{
		Group *group = find(id);
		return group != nullptr && group->aside ? group : nullptr;
	}

	/* The first one with a greater id; NULL: none. */
	const Group *next_after(int64_t id) const
	{
		TreeNode *n = Tree::upper_bound(&by_id_, id, ById{});
		return n == &by_id_ ? nullptr : of(n);
	}

	template <typename Visit> void for_each(Visit visit)
	{
		for (TreeNode *n = Tree::begin_node(&by_id_), *next; n != &by_id_; n = next)
		{
			next = Tree::next_node(n);
			visit(of(n));
		}
	}

	/* Of all. */
	int64_t running() const
	{
		int64_t n = 0;
		for (TreeNode *e = Tree::begin_node(&by_id_); e != &by_id_; e = Tree::next_node(e))
			n += of(e)->running;
		return n;
	}

	int64_t claiming() const
	{
		int64_t n = 0;
		for (TreeNode *e = Tree::begin_node(&by_id_); e != &by_id_; e = Tree::next_node(e))
			n += of(e)->rate.claiming;
		return n;
	}

	/* Is there a first one, before which no other may go out? */
	bool in_order(int64_t id) const { return rules_.fifo && id != 0; }
	Key position_of(const Hint &hint) const
	{
		return in_order(hint.group) ? Key{0, 0, hint.key.job_id} : hint.key;
	}

	/* If so many have no job in work, another one is given up for one that comes to be aside. */
	void put_aside_at_most(int most) { most_aside_ = most; }
	bool keeps_enough_aside() const { return size_ - busy_ >= most_aside_; }
	bool has_too_many_aside() const { return size_ - busy_ > most_aside_; }

	/* ---- groups without an entry ---- */

	/* A group without an entry, of those that are aside. */
	bool has_others_aside(int64_t id) const
	{
		return rates_.others_are_aside() && id != 0 && find(id) == nullptr;
	}

	/* It has no entry and may not start now: it and its like are aside. */
	bool hold_back(const Hint &hint)
	{
		if (!rates_.on() || rates_.others_have_room() || find(hint.group) != nullptr)
			return false;
		rates_.set_others_aside(others_position(hint.key));
		return true;
	}

	/* A row has come, or is not in the window any more. True: it is one of those. */
	bool meet_others(const Hint &hint)
	{
		if (!has_others_aside(hint.group))
			return false;
		rates_.set_others_aside(others_position(hint.key));
		return true;
	}

protected:
	/* No entries, and no spare ones. */
	void init()
	{
		size_ = spares_ = peak_ = busy_ = 0;
		most_aside_ = INT_MAX;
		spare_ = nullptr;
	}

	void reset(const GroupRules &rules)
	{
		assert(size_ == 0);
		Tree::init_header(&by_id_);
		rules_ = rules;
		hand_ = INT64_MIN;
		rates_.reset(rules);
	}

	/* A new one. NULL: there is no spare one. */
	Group *add(int64_t id)
	{
		Group *group = take_spare();
		if (group == nullptr)
			return nullptr;
		*group = {};
		group->id = id;
		group->cursor = group->start = group->lowest = Key::highest();
		rates_.begin(group);
		Tree::insert_commit_data position;
		Tree::insert_unique_check(&by_id_, id, ById{}, position);
		Tree::insert_unique_commit(&by_id_, &group->by_id, position);
		if (++size_ > peak_)
			peak_ = size_;
		return group;
	}

	void erase(Group *group)
	{
		Tree::erase(&by_id_, &group->by_id);
		size_--;
		give(group);
	}

	/* Goes round. Looks at some only, each time at others. */
	template <typename Wanted> Group *next_that(Wanted wanted)
	{
		static constexpr int kLooks = 64;
		TreeNode *n = Tree::upper_bound(&by_id_, hand_, ById{});
		for (int i = 0; i < kLooks && i < size_; i++, n = Tree::next_node(n))
		{
			if (n == &by_id_)
				n = Tree::begin_node(&by_id_);
			Group *group = of(n);
			hand_ = group->id;
			if (wanted(group))
				return group;
		}
		return nullptr;
	}

	/* A queue with fifo reads all again: its cursors go by other positions. */
	Key others_position(const Key &key) const { return rules_.fifo ? Key::lowest() : key; }

	GroupRules rules_;
	GroupRates rates_;
	int32_t busy_;

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

	TreeNode by_id_; /* header: all */
	int32_t size_;
	int32_t peak_;
	int32_t most_aside_;
	int32_t spares_;
	Group *spare_;
	int64_t hand_; /* of next_that */
};

} // namespace pgq
