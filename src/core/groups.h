/*
 * Groups: which jobs of a queue are passed over because enough of their group are in work.
 *
 * A group that has been passed over is aside: from its cursor on its ready rows need not be in the window. When it has
 * room again it is pending: somebody probes it, that is, reads its next rows from the table. An entry is there while jobs
 * of the group run or it is aside; most groups have none.
 *
 * What a cursor goes by is a position: in a queue with fifo the job's id, since there only the first job of a group, its
 * head, may go out; otherwise the key.
 *
 * In a queue with fair a group whose jobs do not all fit into the window is aside from the first that does not, and
 * pending when it has none there. Groups that wait are probed in the order in which they came to, first those whose jobs
 * have the highest priority.
 *
 * A probe goes as a refill does: begin takes the cursor away (+infinity), the caller reads without any lock, finish puts
 * it back. What is filed meanwhile lowers `lowest`. One that does not finish is abandoned: the cursor goes back to its start.
 *
 * Pure and unlocked: part of the Schedule, whose owner holds the queue's lock around every call. Entries are given by the
 * owner, too (give, take_spare).
 */
#pragma once

#include "core/group.h"
#include "core/window.h"

#include <cassert>
#include <climits>
#include <cstdint>

namespace pgq {

class Groups
{
public:
	/* No entries, and no spare ones. The window is the queue's. */
	void init(const Window *window)
	{
		window_ = window;
		size_ = spares_ = peak_ = 0;
		spare_ = nullptr;
		reset({});
	}

	/* Those that there were are spare. */
	void reset(const GroupRules &rules)
	{
		assert(size_ == 0);
		Tree::init_header(&by_id_);
		Tree::init_header(&waiting_);
		rules_ = rules;
		waiting_count_ = probing_ = 0;
		news_ = 0;
		pops_ = 0;
		hand_ = INT64_MIN;
	}

	const GroupRules &rules() const { return rules_; }
	int size() const { return size_; }
	int peak() const { return peak_; } /* the greatest size there ever was */
	int probing() const { return probing_; }
	bool any_waiting() const { return waiting_count_ > 0; }
	bool any_pending() const { return waiting_count_ > probing_; }

	/* ---- entries ---- */

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

	/* The entry of that group, which may be new. NULL: there is no spare one. */
	Group *enter(int64_t id)
	{
		Group *group = find(id);
		if (group != nullptr || (group = take_spare()) == nullptr)
			return group;
		*group = {};
		group->id = id;
		group->cursor = group->start = group->lowest = Key::highest();
		Tree::insert_commit_data position;
		Tree::insert_unique_check(&by_id_, id, ById{}, position);
		Tree::insert_unique_commit(&by_id_, &group->by_id, position);
		if (++size_ > peak_)
			peak_ = size_;
		return group;
	}

	/* Is it of use any more? */
	void leave_if_unused(Group *group)
	{
		if (group->running > 0 || group->aside)
			return;
		assert(!group->pending && !group->probing);
		Tree::erase(&by_id_, &group->by_id);
		size_--;
		give(group);
	}

	/*
	 * An entry that may be given up: aside, and neither in work nor waiting, but perhaps for its turn (fair). Looks at some
	 * only, each time at others. NULL: none of those.
	 */
	Group *next_idle()
	{
		static constexpr int kLooks = 64;
		TreeNode *n = Tree::upper_bound(&by_id_, hand_, ById{});
		for (int i = 0; i < kLooks && i < size_; i++, n = Tree::next_node(n))
		{
			if (n == &by_id_)
				n = Tree::begin_node(&by_id_);
			Group *group = of(n);
			hand_ = group->id;
			bool waits = group->pending && (!rules_.fair || in_order(group->id));
			if (group->running == 0 && !waits && !group->probing)
				return group;
		}
		return nullptr;
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

	/* ---- what the schedule asks ---- */

	/* Is there a first one, before which no other may go out? */
	bool in_order(int64_t id) const { return rules_.fifo && id != 0; }
	Key position_of(const Hint &hint) const
	{
		return in_order(hint.group) ? Key{0, 0, hint.key.job_id} : hint.key;
	}
	bool room(const Group *group) const { return group->id == 0 || group->running < rules_.most(); }

	void note_pop() { pops_++; }
	/* Pops since it came to be pending. */
	int64_t waits_since(const Group *group) const { return pops_ - group->since; }

	/* Jobs of the group below this id have ended, or are filed when they come. */
	int64_t floor_of(int64_t id) const
	{
		const Group *group = find_aside(id);
		return group != nullptr && !group->probing ? group->floor : INT64_MIN;
	}

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

	/* Does the group's cursor cover it? */
	bool cover(const Hint &hint) const
	{
		const Group *group = find_aside(hint.group);
		return group != nullptr && !(position_of(hint) < group->known());
	}

	/* How often a group came to be pending, since this was asked last. */
	uint32_t take_news()
	{
		uint32_t news = news_;
		news_ = 0;
		return news;
	}

	/* ---- what becomes of a group ---- */

	/* Rows from this position on are to be found by probes. */
	void set_aside(Group *group, const Key &position)
	{
		if (!group->aside)
		{
			group->aside = true;
			group->cursor = position;
			group->floor = INT64_MIN;
		}
		else
			lower(group, position);
	}

	/* A row of a group that is aside has come, or is not in the window any more. False: its group's cursor covers it, for now. */
	bool meet(Group *group, const Hint &hint)
	{
		Key position = position_of(hint);
		lower_floor(group, hint.key.job_id);
		raise_rank(group, hint.key.priority);
		/* A probe that is under way may have read beyond it. */
		if (!group->probing && !(position < group->cursor))
			return false;
		lower(group, position);
		if (!group->probing && room(group))
			become_pending(group);
		return true;
	}

	/* There is this row, due or not. */
	void lower_floor(Group *group, int64_t job_id)
	{
		if (job_id < group->floor)
			group->floor = job_id;
	}

	/* There may be rows that are filed later than others that come after them. */
	void forget_floors()
	{
		for_each([](Group *group) { group->floor = INT64_MIN; });
	}

	/* If it is aside and has room, it is to be probed. A probe that is under way may have read before. rank: see Group. */
	void look_again(Group *group, int32_t rank = INT32_MAX)
	{
		if (group->probing)
			group->again = true;
		else if (group->aside && room(group) && !has_candidate(group))
			become_pending(group, rank);
	}

	void occupy(Group *group) { group->running++; }
	void release(Group *group)
	{
		assert(group->running > 0);
		group->running--;
		look_again(group);
		leave_if_unused(group);
	}

	/* ---- probes ---- */

	/* Begin to probe the most urgent ones. Returns how many. */
	int begin_probes(Probe *probes, int most)
	{
		int n = 0;
		assert(probing_ == 0);
		while (n < most && waiting_count_ > probing_)
		{
			Group *group = first_pending();
			if (!room(group))
			{
				stop_waiting(group);
				group->pending = false;
				continue;
			}
			group->pending = group->again = false;
			group->probing = true;
			group->start = group->cursor;
			group->lowest = Key::highest();
			group->cursor = Key::highest();
			probing_++;
			probes[n++] = {group->id, group->start, group->floor, room_of(group)};
			group->floor = INT64_MAX;
		}
		return n;
	}

	/*
	 * next: the first position that was not looked at. head, in a fifo queue: the job that is the first of the group, if
	 * there is one. The rows that were found are filed after this. NULL: the group has been given up meanwhile.
	 */
	Group *finish_probe(int64_t id, const Key &next, int64_t head)
	{
		Group *group = find(id);
		if (group == nullptr || !group->probing)
			return nullptr;
		end_probe(group, next);
		lower_floor(group, head);
		if (group->lowest < next || group->again)
			look_again(group);
		return group;
	}

	/* All that are under way: nothing is known. */
	void abandon_probes()
	{
		for (TreeNode *n = Tree::begin_node(&waiting_), *next; n != &waiting_; n = next)
		{
			Group *group = of_waiting(n);
			next = Tree::next_node(n);
			if (!group->probing)
				continue;
			end_probe(group, group->start);
			group->floor = INT64_MIN;
			look_again(group);
		}
	}

	/* Its rows are all to be met as others are. */
	void end_aside(Group *group)
	{
		if (group->pending || group->probing)
			stop_waiting(group);
		probing_ -= group->probing;
		group->aside = group->pending = group->probing = false;
		leave_if_unused(group);
	}

	/* All rows are read again. */
	void end_all_aside()
	{
		for_each([&](Group *group) { end_aside(group); });
	}

	/* What was aside by the old ones is not any more. */
	void change_rules(const GroupRules &rules)
	{
		end_all_aside();
		rules_ = rules;
	}

private:
	static Group *of(const TreeNode *n)
	{
		return container_of<Group>(const_cast<TreeNode *>(n), offsetof(Group, by_id));
	}
	static Group *of_waiting(const TreeNode *n)
	{
		return container_of<Group>(const_cast<TreeNode *>(n), offsetof(Group, waiting));
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

	/* In a queue with fair: may jobs of it go out before those that it is aside for? Then there is no hurry. */
	bool has_candidate(const Group *group) const
	{
		return rules_.fair && !in_order(group->id) &&
			   window_->holds(group->cursor.priority, group->id);
	}

	/* How many rows are wanted. In a queue with fair those that wait share the window. */
	int32_t room_of(const Group *group) const
	{
		int32_t room = group->id == 0 ? INT32_MAX : rules_.most() - group->running;
		if (!rules_.fair)
			return room;
		uint32_t groups = window_->groups() + static_cast<uint32_t>(waiting_count_) + 1;
		return std::min(room, static_cast<int32_t>(window_->capacity() / groups) + 1);
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
		const Groups *groups;
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

	void become_pending(Group *group, int32_t rank = INT32_MAX)
	{
		raise_rank(group, rank);
		if (group->pending)
			return;
		group->pending = true;
		group->rank = rank;
		group->since = pops_;
		start_waiting(group);
		news_++;
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

	Group *first_pending() const
	{
		TreeNode *n = Tree::begin_node(&waiting_);
		while (of_waiting(n)->probing)
			n = Tree::next_node(n);
		return of_waiting(n);
	}

	void end_probe(Group *group, const Key &next)
	{
		stop_waiting(group);
		group->probing = false;
		probing_--;
		group->cursor = group->lowest < next ? group->lowest : next;
	}

	TreeNode by_id_;   /* header: all */
	TreeNode waiting_; /* header: pending and probing ones, the most urgent first */
	GroupRules rules_;
	int32_t size_;
	int32_t peak_;
	int32_t waiting_count_;
	int32_t probing_;
	int32_t spares_;
	Group *spare_;
	const Window *window_;
	int64_t pops_;
	uint32_t news_;
	int64_t hand_; /* of next_idle */
};

} // namespace pgq
