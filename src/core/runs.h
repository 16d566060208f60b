/*
 * Runs, in a queue with fair. The run of a group has the jobs of the group that are in memory, in the order of their keys, and may
 * have a marker: memory may lack jobs of the group from the marker's key on.
 *
 * Runs are found by group, and by turn. The priority of a run is that of its first job or marker. The hand of a priority is the
 * group that had the last turn. Of the runs of the highest priority, the first one behind the hand on the circle of groups (lap.h)
 * has the next turn. There are kHands hands; priorities whose difference is a multiple of kHands share a hand.
 *
 * Each run and each job takes a node of an array that the owner provides. Pure and unlocked: part of Turns.
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
		TreeNode turn;	  /* node of the tree of runs */
		Key from;		  /* if more: key of the marker */
		int32_t priority; /* of the first job or marker */
		int32_t size;	  /* number of jobs */
		bool more;		  /* there is a marker */
		uint8_t visit; /* 1 + index in lowest_ of the visit of the marker; 0: none is under way */
	};

	/* A run, or a job of a run. In the tree, a run stands before its jobs. */
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

	/* Nodes beyond the capacity: a capacity of 1 has nodes for a run with one job, a run without jobs, and the run of group 0. */
	static constexpr uint32_t kLeast = 3;
	/* Further nodes, for a run and a job that are inserted before other nodes are evicted. */
	static constexpr uint32_t kSpare = 2;

	/* Return how many nodes the owner must provide. */
	static constexpr uint32_t nodes(uint32_t capacity) { return capacity + kLeast + kSpare; }

	uint32_t size() const { return used_; }
	uint32_t peak() const { return peak_; }
	bool empty() const { return runs_ == 0; }
	int64_t hand_of(int32_t priority) const { return hands_[index_of(priority)]; }

	/*
	 * A turn that was given. before: the group at which the hand stood before the turn; number: the
	 * number of the turn among the turns of this hand. return_turn() needs both to undo the turn.
	 */
	struct Given
	{
		int64_t before;
		uint16_t number;
	};
	/* Return the last turn that was given. */
	const Given &last_turn() const { return last_; }
	/* Return the number of the last turn of this hand that was given and not returned. Numbers begin again after 65,535. */
	uint16_t turns_of(int32_t priority) const { return given_[index_of(priority)]; }

	/*
	 * Undo the turn of a job that was popped and not handed out, unless the hand has given a turn since. Return whether the turn was
	 * undone.
	 */
	bool return_turn(const Hint &popped, const Given &turn)
	{
		uint16_t &given = given_[index_of(popped.key.priority)];
		if (given != turn.number)
			return false;
		hand(popped.key.priority) = turn.before;
		given--;
		return true;
	}

	/* ---- for views and checks ---- */

	bool contains(const Hint &hint) const
	{
		Node *job = of(Tree::lower_bound(&nodes_, Place{hint.group, false, hint.key}, ByGroup{}));
		return &job->links != &nodes_ && !job->is_run && job->group == hint.group &&
			   job->hint.key == hint.key;
	}

	template <typename Visit> void for_each(Visit visit) const
	{
		for (TreeNode *n = Tree::begin_node(&nodes_); n != &nodes_; n = Tree::next_node(n))
			if (!of(n)->is_run)
				visit(of(n)->hint);
	}

	/* Call visit(group, number of jobs, key of the marker or NULL, whether a visit is under way, lowest_of()) for each run. */
	template <typename Visit> void for_each_run(Visit visit) const
	{
		for (TreeNode *n = Tree::begin_node(&nodes_); n != &nodes_; n = Tree::next_node(n))
			if (Node *node = of(n); node->is_run)
				visit(node->group, node->run.size, node->run.more ? &node->run.from : nullptr,
					  node->run.visit != 0,
					  node->run.visit != 0 ? lowest_of(node->run) : Key::highest());
	}

protected:
	void init(Node *storage, uint32_t capacity)
	{
		storage_ = storage;
		capacity_ = capacity + kLeast;
		peak_ = 0;
	}
	void reset_hands()
	{
		std::fill(std::begin(hands_), std::end(hands_), INT64_MAX);
		std::fill(std::begin(given_), std::end(given_), 0);
		last_ = {INT64_MAX, 0};
	}
	int64_t &hand(int32_t priority) { return hands_[index_of(priority)]; }
	void give_turn(int32_t priority, int64_t group)
	{
		last_ = {hand_of(priority), ++given_[index_of(priority)]};
		hand(priority) = group;
	}

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

	/* Return the first or the last job of a run that has jobs. */
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

	/* Add a job, or replace the hint of the same job: the row may have moved. */
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

	/* Remove the last job of the run. Afterwards the run has a marker at the key of this job or before. */
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

	/* Note that memory does not keep a job of the group with this key. A visit that is under way may have missed the job. */
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
		struct Turn
		{
			int32_t priority;
			int64_t group;
		};
		static Turn get(const Turn &turn) { return turn; }
		static Turn get(const TreeNode *n) { return {of_turn(n)->run.priority, of_turn(n)->group}; }
		template <typename A, typename B> bool operator()(const A &x, const B &y) const
		{
			Turn a = get(x);
			Turn b = get(y);
			return a.priority != b.priority ? a.priority > b.priority : a.group < b.group;
		}
	};
	using Turn = ByTurn::Turn;

	static bool is_marker_first(Node *run)
	{
		const Run &r = run->run;
		return r.more && (r.size == 0 || !(first_of(run)->hint.key < r.from));
	}
	static Key first_key(Node *run)
	{
		return is_marker_first(run) ? run->run.from : first_of(run)->hint.key;
	}

	/* Return the run of this priority whose turn comes next after the turn of the group. The priority must have a run. */
	Node *next_after(int32_t priority, int64_t group) const
	{
		TreeNode *n = Tree::upper_bound(&turns_, Turn{priority, group}, ByTurn{});
		if (n == &turns_ || of_turn(n)->run.priority != priority)
			n = Tree::lower_bound(&turns_, Turn{priority, INT64_MIN}, ByTurn{});
		return of_turn(n);
	}
	Node *next() const
	{
		int32_t priority = of_turn(Tree::begin_node(&turns_))->run.priority;
		return next_after(priority, hand_of(priority));
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

	/* Update the priority of a run whose first job or marker has changed. Remove a run that has neither jobs nor a marker. */
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

	/* A run and the first run of the same priority, while going from the run whose turn is last to the run whose turn is next. */
	struct FromLast
	{
		Node *run;
		Node *first;
	};

	FromLast from_last() const
	{
		return last_like(of_turn(Tree::prev_node(const_cast<TreeNode *>(&turns_))));
	}
	/* Go to the run whose turn comes just before. The present run must not be the first of all (next()). */
	void go_back(FromLast *turn) const
	{
		if (turn->run != turn->first)
		{
			turn->run = before_on_circle(turn->run);
			return;
		}
		Turn lowest{turn->run->run.priority, INT64_MIN};
		*turn = last_like(of_turn(Tree::prev_node(Tree::lower_bound(&turns_, lowest, ByTurn{}))));
	}

	/* Return how many jobs a run may have: at most kMost, and so few that the jobs of all runs take about half of the nodes. */
	int32_t quota() const { return quota_of(runs_); }
	/* Return what quota() would be with that number of runs. */
	int32_t quota_of(uint32_t runs) const
	{
		static constexpr uint32_t kMost = 32;
		return static_cast<int32_t>(std::min(capacity_ / (2 * (runs + 1)) + 1, kMost));
	}
	bool is_overfull() const { return used_ > capacity_; }

	TreeNode nodes_; /* header of the tree of runs and jobs, by group and key */
	TreeNode turns_; /* header of the tree of runs, by priority and group */

private:
	/* Return the run of the same priority that is before this one on the circle. */
	Node *before_on_circle(Node *run) const
	{
		int32_t priority = run->run.priority;
		TreeNode *n = &run->run.turn;
		if (n == Tree::begin_node(&turns_) || of_turn(Tree::prev_node(n))->run.priority != priority)
			n = Tree::upper_bound(&turns_, Turn{priority, INT64_MAX}, ByTurn{});
		return of_turn(Tree::prev_node(n));
	}

	/* Return the last and the first run of the priority that this run has. */
	FromLast last_like(Node *run) const
	{
		int32_t priority = run->run.priority;
		Node *first = next_after(priority, hand_of(priority));
		return {before_on_circle(first), first};
	}

	static constexpr uint32_t kHands = 256;
	static uint32_t index_of(int32_t priority) { return static_cast<uint32_t>(priority) % kHands; }

	Node *storage_;
	Node *unused_; /* list of returned nodes, linked through links.parent */
	uint32_t capacity_;
	uint32_t fresh_; /* nodes from this number on were not used since clear() */
	uint32_t used_;
	uint32_t peak_; /* greatest used_ since init() */
	uint32_t runs_; /* number of runs */
	int64_t hands_[kHands];
	uint16_t given_[kHands]; /* for each hand: turns_of() */
	Given last_;
	Key lowest_[kVisitsMax]; /* for each visit: smallest key that was passed to note_met() so far */
};

} // namespace pgq
