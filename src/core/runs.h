/*
 * Runs: of each group that is in memory its first jobs, in their order, and perhaps a marker: from that key on jobs of the
 * group may be missing. Runs are found by group, and by turn: the next run is, of those whose first job or marker has the
 * highest priority, the next one behind the hand of that priority, on the circle of the groups' ids. There are kHands
 * hands; priorities that differ by a multiple of that share one.
 *
 * Pure and unlocked: part of Turns.
 */
#pragma once

#include "core/group.h"
#include "core/lap.h"

#include <cassert>
#include <iterator>

namespace pgq {

class Runs
{
public:
	struct Run
	{
		TreeNode turn;
		Key from;		  /* if more */
		int32_t priority; /* of what comes first */
		int32_t size;
		bool more;
		uint8_t visit; /* 0: the marker is not visited; else its place among the visits, plus one */
	};

	/* A run, which comes first, or a job of it. */
	struct Node
	{
		TreeNode links;
		int64_t group;
		bool is_run;
		union
		{
			Run run;
			Hint hint;
		};
	};

	/* A run without a job, a run with one, and one for group 0. */
	static constexpr uint32_t kLeast = 3;
	/* What is inserted, before another one makes room. */
	static constexpr uint32_t kSpare = 2;

	/* So many nodes there must be. */
	static constexpr uint32_t nodes(uint32_t capacity) { return capacity + kLeast + kSpare; }

	uint32_t size() const { return used_; }
	uint32_t peak() const { return peak_; }
	bool empty() const { return runs_ == 0; }
	int64_t hand_of(int32_t priority) const { return hands_[index_of(priority)]; }

protected:
	void init(Node *storage, uint32_t capacity)
	{
		storage_ = storage;
		capacity_ = capacity + kLeast;
		peak_ = 0;
	}
	void reset_hands() { std::fill(std::begin(hands_), std::end(hands_), INT64_MAX); }
	int64_t &hand(int32_t priority) { return hands_[index_of(priority)]; }

	void clear()
	{
		Tree::init_header(&nodes_);
		Tree::init_header(&turns_);
		unused_ = nullptr;
		fresh_ = used_ = runs_ = 0;
	}

	/* ---- nodes, by group and key ---- */

	struct Place
	{
		int64_t group;
		bool is_run;
		Key key;
	};

	static Node *of(const TreeNode *n)
	{
		return container_of<Node>(const_cast<TreeNode *>(n), offsetof(Node, links));
	}
	static Node *of_turn(const TreeNode *n)
	{
		return container_of<Node>(const_cast<TreeNode *>(n),
								  offsetof(Node, run) + offsetof(Run, turn));
	}

	struct ByGroup
	{
		static Place get(const Place &place) { return place; }
		static Place get(const TreeNode *n)
		{
			const Node *node = of(n);
			return {node->group, node->is_run, node->is_run ? Key::lowest() : node->hint.key};
		}
		template <typename A, typename B> bool operator()(const A &x, const B &y) const
		{
			Place a = get(x);
			Place b = get(y);
			if (a.group != b.group)
				return a.group < b.group;
			return a.is_run != b.is_run ? a.is_run : a.key < b.key;
		}
	};

	Node *find(int64_t group) const
	{
		TreeNode *n = Tree::lower_bound(&nodes_, Place{group, true, Key::lowest()}, ByGroup{});
		return n != &nodes_ && of(n)->group == group && of(n)->is_run ? of(n) : nullptr;
	}

	/* Of a run that has a job. */
	static Node *first_of(Node *run) { return of(Tree::next_node(&run->links)); }
	Node *last_of(Node *run) const
	{
		return of(Tree::prev_node(
			Tree::upper_bound(&nodes_, Place{run->group, false, Key::highest()}, ByGroup{})));
	}

	Node *take_node(int64_t group, bool is_run)
	{
		Node *node = unused_;
		if (node != nullptr)
			unused_ = reinterpret_cast<Node *>(node->links.parent);
		else
		{
			assert(fresh_ < capacity_ + kSpare);
			node = &storage_[fresh_++];
		}
		node->group = group;
		node->is_run = is_run;
		used_++;
		peak_ = std::max(peak_, used_);
		return node;
	}
	void give_back(Node *node)
	{
		Tree::erase(&nodes_, &node->links);
		node->links.parent = reinterpret_cast<TreeNode *>(unused_);
		unused_ = node;
		used_--;
	}

	/* A hint of the same job is replaced: the row may have moved. */
	void add(Node *run, const Hint &hint)
	{
		Tree::insert_commit_data position;
		auto [equal, is_new] = Tree::insert_unique_check(
			&nodes_, Place{hint.group, false, hint.key}, ByGroup{}, position);
		if (!is_new)
		{
			of(equal)->hint = hint;
			return;
		}
		Node *node = take_node(hint.group, false);
		node->hint = hint;
		Tree::insert_unique_commit(&nodes_, &node->links, position);
		run->run.size++;
	}

	void remove_job(Node *run, Node *job)
	{
		give_back(job);
		run->run.size--;
	}
	void remove_jobs(Node *run)
	{
		while (run->run.size > 0)
			remove_job(run, first_of(run));
	}

	/* Its last job may be missing from here on. */
	void remove_last(Node *run)
	{
		Run &r = run->run;
		Node *last = last_of(run);
		Key key = last->hint.key;
		note_met(r, key);
		r.from = r.more ? std::min(r.from, key) : key;
		r.more = true;
		remove_job(run, last);
	}

	/* A job of the group with this key is not kept. */
	void note_met(const Run &r, const Key &key)
	{
		if (r.visit != 0)
			lowest_[r.visit - 1] = std::min(lowest_[r.visit - 1], key);
	}
	const Key &lowest_of(const Run &r) const { return lowest_[r.visit - 1]; }
	void begin_visit(Run &r, int i)
	{
		r.visit = static_cast<uint8_t>(i + 1);
		lowest_[i] = Key::highest();
	}

	/* ---- runs, by turn ---- */

	struct ByTurn
	{
		struct QueuePass
		{
			int32_t priority;
			int64_t group;
		};
		static QueuePass get(const QueuePass &turn) { return turn; }
		static QueuePass get(const TreeNode *n) { return {of_turn(n)->run.priority, of_turn(n)->group}; }
		template <typename A, typename B> bool operator()(const A &x, const B &y) const
		{
			QueuePass a = get(x);
			QueuePass b = get(y);
			return a.priority != b.priority ? a.priority > b.priority : a.group < b.group;
		}
	};
	using QueuePass = ByTurn::QueuePass;

	static bool is_marker_first(Node *run)
	{
		const Run &r = run->run;
		return r.more && (r.size == 0 || !(first_of(run)->hint.key < r.from));
	}
	static Key first_key(Node *run)
	{
		return is_marker_first(run) ? run->run.from : first_of(run)->hint.key;
	}

	/* The run whose turn comes after that of the group. */
	Node *next_after(int32_t priority, int64_t group) const
	{
		TreeNode *n = Tree::upper_bound(&turns_, QueuePass{priority, group}, ByTurn{});
		if (n == &turns_ || of_turn(n)->run.priority != priority)
			n = Tree::lower_bound(&turns_, QueuePass{priority, INT64_MIN}, ByTurn{});
		return of_turn(n);
	}
	Node *next() const
	{
		int32_t priority = of_turn(Tree::begin_node(&turns_))->run.priority;
		return next_after(priority, hand_of(priority));
	}

	/* The run whose turn is before that of the group, which is the hand's if that is the last one. */
	Node *last_up_to(int32_t priority, int64_t group) const
	{
		TreeNode *n = Tree::upper_bound(&turns_, QueuePass{priority, group}, ByTurn{});
		if (n == Tree::begin_node(&turns_) || of_turn(Tree::prev_node(n))->run.priority != priority)
			n = Tree::upper_bound(&turns_, QueuePass{priority, INT64_MAX}, ByTurn{});
		return of_turn(Tree::prev_node(n));
	}

	Node *new_run(int64_t group, const Key &from)
	{
		Node *run = take_node(group, true);
		run->run = {};
		run->run.from = from;
		run->run.more = true;
		run->run.priority = from.priority;
		Tree::insert_equal_upper_bound(&nodes_, &run->links, ByGroup{});
		Tree::insert_equal_upper_bound(&turns_, &run->run.turn, ByTurn{});
		runs_++;
		return run;
	}
	void remove_run(Node *run)
	{
		remove_jobs(run);
		Tree::erase(&turns_, &run->run.turn);
		give_back(run);
		runs_--;
	}

	/* Its first job or its marker may be another one. */
	void order(Node *run)
	{
		Run &r = run->run;
		if (r.size == 0 && !r.more)
			return remove_run(run);
		int32_t priority = first_key(run).priority;
		if (priority == r.priority)
			return;
		Tree::erase(&turns_, &r.turn);
		r.priority = priority;
		Tree::insert_equal_upper_bound(&turns_, &r.turn, ByTurn{});
	}

	/* The run whose turn is last. */
	Node *last() const
	{
		int32_t priority =
			of_turn(Tree::prev_node(Tree::end_node(const_cast<TreeNode *>(&turns_))))->run.priority;
		return last_up_to(priority, hand_of(priority));
	}

	/* The run whose turn is before that one's; there is one. */
	Node *before(Node *run) const
	{
		int32_t priority = run->run.priority;
		if (run != next_after(priority, hand_of(priority)))
			return last_up_to(priority, pgq::before(run->group));
		TreeNode *first = Tree::lower_bound(&turns_, QueuePass{priority, INT64_MIN}, ByTurn{});
		priority = of_turn(Tree::prev_node(first))->run.priority;
		return last_up_to(priority, hand_of(priority));
	}

	/* As many jobs as a run may have: all runs together, half of what there is room for. */
	int32_t quota() const
	{
		static constexpr uint32_t kMost = 32;
		return static_cast<int32_t>(std::min(capacity_ / (2 * (runs_ + 1)) + 1, kMost));
	}
	bool is_overfull() const { return used_ > capacity_; }

	TreeNode nodes_; /* header: all, by group and key */
	TreeNode turns_; /* header: runs, by turn */

private:
	static constexpr uint32_t kHands = 256;
	static uint32_t index_of(int32_t priority) { return static_cast<uint32_t>(priority) % kHands; }

	Node *storage_;
	Node *unused_; /* returned nodes, linked through links.parent */
	uint32_t capacity_;
	uint32_t fresh_; /* nodes from here on were never used (and never touched) */
	uint32_t used_;
	uint32_t peak_;
	uint32_t runs_;
	int64_t hands_[kHands];
	Key lowest_
		[kVisitsMax]; /* visits: the smallest key at or beyond the marker that was met since */
};

} // namespace pgq
