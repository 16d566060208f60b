/*
 * Groups that wait: those that are to be probed, and those that are being probed, the most urgent first.
 *
 * Urgent is what may keep others back: the group with the smallest key; in a queue with fifo any, since nobody knows the
 * keys of their heads; in a queue with fair the one with the highest priority, and of those the one that has waited longest.
 *
 * Pure and unlocked: part of Groups.
 */
#pragma once

#include "core/group_entries.h"

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace pgq {

class WaitingGroups : public GroupEntries
{
public:
	int probing() const { return probing_; }
	bool any_waiting() const { return waiting_count_ > 0; }
	bool any_pending() const { return waiting_count_ > probing_; }

	/* Does a group have to be probed before a job with this key may go out? Not in a queue with fair. */
	bool block(const Key &key) const
	{
		return waiting_count_ > 0 && urgency(first_waiting()) < key;
	}

	/* In a queue with fair: does one wait that may have jobs of a higher priority, or of that one since so many pops? */
	bool wait(int32_t priority, int64_t pops) const
	{
		if (waiting_count_ == 0)
			return false;
		Key first = urgency(first_waiting());
		return first.priority > priority ||
			   (first.priority == priority && pops_ - first.run_at >= pops);
	}

	/* How often a group came to be pending, since this was asked last. */
	uint32_t take_news()
	{
		uint32_t news = news_;
		news_ = 0;
		return news;
	}

	void note_pop() { pops_++; }
	/* Pops since it came to be pending. */
	int64_t waits_since(const Group *group) const { return pops_ - group->since; }

	/* The least urgent of those that are to be probed, and have no job in work. Looks at some only. NULL: none. */
	Group *last_pending() const
	{
		static constexpr int kLooks = 64;
		TreeNode *end = Tree::end_node(const_cast<TreeNode *>(&waiting_));
		TreeNode *n = end;
		for (int i = 0; i < kLooks && i < waiting_count_; i++)
		{
			n = Tree::prev_node(n);
			if (of_waiting(n)->pending && of_waiting(n)->running == 0)
				return of_waiting(n);
		}
		return nullptr;
	}

	/* Any row of a group that waits to be probed has this key or a greater one, if it is not in the window. */
	Key first_key(const Group *group) const
	{
		return in_order(group->id) ? Key{group->rank, INT64_MIN, INT64_MIN} : group->cursor;
	}

protected:
	void reset(const GroupRules &rules)
	{
		GroupEntries::reset(rules);
		Tree::init_header(&waiting_);
		waiting_count_ = probing_ = 0;
		news_ = 0;
		pops_ = 0;
	}

	int32_t waiting_count() const { return waiting_count_; }

	/* Calls visit with each that is being probed; visit may have it wait no more. */
	template <typename Visit> void for_each_probing(Visit visit)
	{
		for (TreeNode *n = Tree::begin_node(&waiting_), *next; n != &waiting_; n = next)
		{
			Group *group = of_waiting(n);
			next = Tree::next_node(n);
			if (group->probing)
				visit(group);
		}
	}

	Group *first_pending() const
	{
		TreeNode *n = Tree::begin_node(&waiting_);
		while (of_waiting(n)->probing)
			n = Tree::next_node(n);
		return of_waiting(n);
	}

	/* rank: the priority of its first job, in a queue with fair and fifo; not known: INT32_MAX. */
	void wait_for_probe(Group *group, int32_t rank)
	{
		group->pending = true;
		group->rank = rank;
		group->since = pops_;
		start_waiting(group);
		news_++;
	}

	/* It is neither to be probed nor being probed. */
	void wait_no_more(Group *group)
	{
		if (group->pending || group->probing)
			stop_waiting(group);
		probing_ -= group->probing;
		group->pending = group->probing = false;
	}

	void begin_probe(Group *group)
	{
		group->pending = group->again = false;
		group->probing = true;
		group->start = group->cursor;
		group->lowest = Key::highest();
		group->cursor = Key::highest();
		probing_++;
	}

	void end_probe(Group *group, const Key &next)
	{
		wait_no_more(group);
		group->cursor = group->lowest < next ? group->lowest : next;
	}

	/* Where it stands among those that wait follows. */
	void lower(Group *group, const Key &position)
	{
		Key &bound = group->probing ? group->lowest : group->cursor;
		if (!(position < bound))
			return;
		bool waits = group->pending || group->probing;
		if (waits)
			stop_waiting(group);
		bound = position;
		group->rank = INT32_MAX;
		if (waits)
			start_waiting(group);
	}

	/* Its first job may have this priority. */
	void raise_rank(Group *group, int32_t priority)
	{
		if (!group->pending || priority <= group->rank)
			return;
		stop_waiting(group);
		group->rank = priority;
		start_waiting(group);
	}

private:
	static Group *of_waiting(const TreeNode *n)
	{
		return container_of<Group>(const_cast<TreeNode *>(n), offsetof(Group, waiting));
	}

	/* The smallest key that a row of it may have which is not in the window. Of a head nobody knows that. */
	Key urgency(const Group *group) const
	{
		if (rules_.fair)
			return {in_order(group->id) ? group->rank : group->known().priority, group->since, 0};
		return rules_.fifo ? Key::lowest() : group->known();
	}
	const Group *first_waiting() const { return of_waiting(Tree::begin_node(&waiting_)); }

	struct ByUrgency
	{
		const WaitingGroups *groups;
		bool operator()(const TreeNode *a, const TreeNode *b) const
		{
			Key x = groups->urgency(of_waiting(a));
			Key y = groups->urgency(of_waiting(b));
			return x == y ? of_waiting(a)->id < of_waiting(b)->id : x < y;
		}
	};

	void start_waiting(Group *group)
	{
		Tree::insert_equal_upper_bound(&waiting_, &group->waiting, ByUrgency{this});
		waiting_count_++;
	}
	void stop_waiting(Group *group)
	{
		Tree::erase(&waiting_, &group->waiting);
		waiting_count_--;
	}

	TreeNode waiting_; /* header: pending and probing ones, the most urgent first */
	int32_t waiting_count_;
	int32_t probing_;
	int64_t pops_;
	uint32_t news_;
};

} // namespace pgq
