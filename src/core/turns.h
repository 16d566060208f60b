/*
 * The ready jobs of a queue with fair: groups take turns.
 *
 * Of each group that is here there is a run: its first jobs, in their order, and perhaps a marker: from that key on jobs
 * of it may be missing. In a queue with fifo the run has one job, the smallest id. Jobs without a group are group 0.
 *
 * The next job is the first of a group whose first job or marker has the highest priority, of these groups the next one
 * behind the hand of that priority, on the circle of their ids. There are kHands hands; priorities that differ by a
 * multiple of that share one. A marker that comes first has to be visited.
 *
 * What does not fit is the last job, or else the run, of the group whose turn is last. Of groups without a run a lap
 * knows what may be missing: lap.h. The run of group 0 stays, since no lap visits that group.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/group.h"
#include "core/lap.h"
#include "core/window.h"

#include <cassert>
#include <iterator>

namespace pgq {

class Turns
{
	struct Run
	{
		TreeNode turn;
		Key from;	 /* if more */
		Key lowest;	 /* visited: the smallest key at or beyond the marker that was met since */
		int32_t priority; /* of what comes first */
		int32_t size;
		bool more;
		bool visited;
	};

public:
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

	void init(Node *storage, uint32_t capacity)
	{
		storage_ = storage;
		capacity_ = capacity + kLeast;
		peak_ = 0;
		reset();
	}

	void reset()
	{
		std::fill(std::begin(hands_), std::end(hands_), INT64_MAX);
		lap_ = {};
		clear();
	}

	/* Nothing is known. */
	void clear()
	{
		Tree::init_header(&nodes_);
		Tree::init_header(&turns_);
		unused_ = nullptr;
		fresh_ = used_ = runs_ = 0;
		lap_.begin(INT32_MAX, hand_of(INT32_MAX));
		mark(0, Key::lowest());
	}

	uint32_t size() const { return used_; }
	uint32_t peak() const { return peak_; }
	bool empty() const { return runs_ == 0; }
	const Lap &lap() const { return lap_; }

	/* ---- jobs ---- */

	/* Whether it is kept or not, it is known from here on, or will be found. in_order: only the group's head goes out. */
	void insert(const Hint &hint, bool in_order)
	{
		Node *run = find(hint.group);
		if (run == nullptr)
			return insert_first(hint);
		Run &r = run->run;
		if (r.more && !(hint.key < r.from))
			return note_met(r, hint.key);
		if (in_order && r.size > 0)
		{
			/* Unless the known one is not there any more: then a visit at that place finds the head. */
			if (first_of(run)->hint.key.job_id < hint.key.job_id)
				return hint.key < first_of(run)->hint.key ? mark(hint.group, hint.key) : void();
			remove_jobs(run);
		}
		add(run, hint);
		while (r.size > quota())
			remove_last(run);
		order(run);
		shrink();
	}

	/* Rows of the group from this key on may be missing. */
	void mark(int64_t group, const Key &from)
	{
		Node *run = find(group);
		int64_t bound = group == 0 ? Lap::kNone : lap_.bound(group);
		if (run == nullptr && bound != Lap::kNone)
			return add_run(group, std::min(from, first_of_priority(bound)));
		if (run == nullptr)
			return add_run(group, from);
		note_met(run->run, from);
		run->run.from = run->run.more ? std::min(run->run.from, from) : from;
		run->run.more = true;
		order(run);
	}

	/* Forget the group, which has no room. Returns from where on its rows may be missing; +infinity: nowhere. */
	Key drop(int64_t group)
	{
		Node *run = find(group);
		Key from = run != nullptr ? first_key(run) : Key::highest();
		if (run != nullptr)
			remove_run(run);
		return from;
	}

	/* The lap has to visit more groups before a job may go out. */
	bool wants_step() const { return runs_ == 0 ? lap_.on() : !lets_go(next()); }
	bool wants_visit() const { return runs_ > 0 && lets_go(next()) && is_marker_first(next()); }
	bool poppable() const { return runs_ > 0 && lets_go(next()) && !is_marker_first(next()); }
	bool all_known() const { return runs_ == 0 && !lap_.on(); }

	Hint pop()
	{
		Node *run = next();
		Node *first = first_of(run);
		Hint hint = first->hint;
		int64_t &hand = hands_[index_of(hint.key.priority)];
		before_ = hand;
		hand = hint.group;
		remove_job(run, first);
		order(run);
		return hint;
	}

	/* The last pop has come to nothing, so the group has not had its turn. */
	void return_turn(const Hint &popped) { hands_[index_of(popped.key.priority)] = before_; }

	int64_t hand_of(int32_t priority) const { return hands_[index_of(priority)]; }

	/* ---- visits of markers ---- */

	/* Those whose turn is next. fifo: what is known of a head behind a marker is in doubt. Returns how many. */
	int begin_visits(Visit *visits, int most, bool fifo)
	{
		static constexpr int kLooks = 64;
		int n = 0;
		Node *first = next();
		Node *run = first;
		for (int i = 0; i < kLooks && n < most && (i == 0 || run != first); i++)
		{
			if (is_marker_first(run))
			{
				if (fifo && run->group != 0)
					remove_jobs(run);
				run->run.visited = true;
				run->run.lowest = Key::highest();
				visits[n++] = {.group = run->group, .from = run->run.from, .floor = 0, .room = quota()};
			}
			run = next_after(run->run.priority, run->group);
		}
		return n;
	}

	/* Is the run of the group still the one that is visited? */
	bool is_visited(int64_t group) const
	{
		Node *run = find(group);
		return run != nullptr && run->run.visited;
	}

	/* Jobs that were found, from the marker on; next: the first key that may be missing. */
	void end_visit(int64_t group, const Hint *jobs, int n, const Key &next, bool in_order)
	{
		Node *run = find(group);
		if (run == nullptr || !run->run.visited)
			return;
		Run &r = run->run;
		r.visited = false;
		if (in_order && r.size > 0 && n > 0)
		{
			/* It was filed since the visit began. */
			if (first_of(run)->hint.key.job_id < jobs[0].key.job_id)
				n = 0;
			else
				remove_jobs(run);
		}
		r.from = std::min(next, r.lowest);
		r.more = !(r.from == Key::highest());
		fill(run, jobs, n);
	}

	/* ---- steps of a lap ---- */

	LapStep begin_step()
	{
		LapStep step = lap_.begin_step();
		step.room = quota();
		return step;
	}
	void abandon_step() { lap_.end_step(); }

	/* highest: the highest priority of any row that the step may have met, or kNone. False: the step is void. */
	bool look_at_step(LapStep *step, int64_t highest)
	{
		if (step->lap != lap_.serial())
			return false;
		highest = std::max(highest, lap_.left());
		if (lap_.spoilt() || highest >= lap_.priority())
			return true;
		if (highest == Lap::kNone)
		{
			lap_.end();
			return false;
		}
		auto priority = static_cast<int32_t>(highest);
		lap_.begin(priority, hand_of(priority));
		step->lap = lap_.serial();
		return lap_.arc_begin() == step->from;
	}

	/*
	 * The next group that the step has met, with its first jobs; next: its first key that may be missing. has_room: else
	 * its jobs are not kept. False: what the step has read behind it is void.
	 */
	bool take_group(const LapStep &step, int64_t group, bool has_room, const Hint *jobs, int n,
					const Key &next)
	{
		if (step.lap != lap_.serial() || lap_.spoils(group))
			return false;
		visit_up_to(group);
		bool more = !(next == Key::highest());
		if (has_room && (n > 0 || more) && find(group) == nullptr)
		{
			Node *run = new_run(group, next);
			run->run.more = more;
			fill(run, jobs, n);
		}
		return step.lap == lap_.serial();
	}

	/* The step has met all groups that it was to read. */
	void take_rest(const LapStep &step)
	{
		if (step.lap == lap_.serial() && !lap_.spoilt())
			visit_up_to(step.to);
	}
	void end_step() { lap_.end_step(); }

	/* ---- for views and checks ---- */

	bool contains(const Hint &hint) const
	{
		Node *job = of(Tree::lower_bound(&nodes_, Place{hint.group, false, hint.key}, ByGroup{}));
		return &job->links != &nodes_ && !job->is_run && job->group == hint.group &&
			   job->hint.key == hint.key;
	}

	bool covers(const Hint &hint, bool in_order) const
	{
		Node *run = find(hint.group);
		if (run == nullptr)
			return hint.group != 0 && hint.key.priority <= lap_.bound(hint.group);
		bool behind = in_order && run->run.size > 0 &&
					  first_of(run)->hint.key.job_id < hint.key.job_id;
		return behind || (run->run.more && !(hint.key < run->run.from)) || contains(hint);
	}

	template <typename Visit> void for_each(Visit visit) const
	{
		for (TreeNode *n = Tree::begin_node(&nodes_); n != &nodes_; n = Tree::next_node(n))
			if (!of(n)->is_run)
				visit(of(n)->hint);
	}

	/* Call visit with what there is of each run: group, size, marker (NULL: none), visited, lowest. */
	template <typename Visit> void for_each_run(Visit visit) const
	{
		for (TreeNode *n = Tree::begin_node(&nodes_); n != &nodes_; n = Tree::next_node(n))
			if (Node *node = of(n); node->is_run)
				visit(node->group, node->run.size, node->run.more ? &node->run.from : nullptr,
					  node->run.visited, node->run.lowest);
	}

private:
	static constexpr uint32_t kHands = 256;
	static uint32_t index_of(int32_t priority) { return static_cast<uint32_t>(priority) % kHands; }

	static Key first_of_priority(int64_t priority)
	{
		return {static_cast<int32_t>(priority), INT64_MIN, INT64_MIN};
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

	static void note_met(Run &r, const Key &key)
	{
		if (r.visited)
			r.lowest = std::min(r.lowest, key);
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

	/* The run whose turn comes after that of the group. */
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
	bool lets_go(Node *run) const
	{
		return lap_.lets_go(run->run.priority, run->group, hand_of(run->run.priority));
	}

	/* The run whose turn is before that of the group, which is the hand's if that is the last one. */
	Node *last_up_to(int32_t priority, int64_t group) const
	{
		TreeNode *n = Tree::upper_bound(&turns_, Turn{priority, group}, ByTurn{});
		if (n == Tree::begin_node(&turns_) ||
			of_turn(Tree::prev_node(n))->run.priority != priority)
			n = Tree::upper_bound(&turns_, Turn{priority, INT64_MAX}, ByTurn{});
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
	void add_run(int64_t group, const Key &from)
	{
		(void) new_run(group, from);
		shrink();
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

	/* A group of which nothing is in memory. */
	void insert_first(const Hint &hint)
	{
		int64_t bound = hint.group == 0 ? Lap::kNone : lap_.bound(hint.group);
		int32_t priority = hint.key.priority;
		if (hint.group != 0 && lap_.finds(priority, hint.group, hand_of(priority)))
			return;
		if (priority <= bound)
			return add_run(hint.group, first_of_priority(bound));
		Node *run = new_run(hint.group, bound != Lap::kNone ? first_of_priority(bound) : hint.key);
		run->run.more = bound != Lap::kNone;
		add(run, hint);
		order(run);
		shrink();
	}

	/* Jobs that were read of it. */
	void fill(Node *run, const Hint *jobs, int n)
	{
		int64_t group = run->group;
		for (int i = 0; i < n; i++)
		{
			if (run->run.more && !(jobs[i].key < run->run.from))
				continue;
			add(run, jobs[i]);
			order(run);
			shrink();
			if ((run = find(group)) == nullptr)
				return;
		}
		order(run);
	}

	/* As many jobs as a run may have: all runs together, half of what there is room for. */
	int32_t quota() const
	{
		static constexpr uint32_t kMost = 32;
		return static_cast<int32_t>(std::min(capacity_ / (2 * (runs_ + 1)) + 1, kMost));
	}

	/* ---- what does not fit ---- */

	void shrink()
	{
		while (used_ > capacity_)
			evict();
	}

	/*
	 * The last job of a run goes, of those whose turn is last rather one that has several. If there is none in sight, a
	 * run goes that has a marker only.
	 */
	void evict()
	{
		static constexpr int kLooks = 32;
		Node *first = next();
		Node *lone = nullptr;
		Node *bare = nullptr;
		Node *run = last();
		for (int i = 0; i < kLooks && run != first; i++, run = before(run))
		{
			if (run->run.size > 1)
				return shorten(run);
			if (run->run.size == 1 && lone == nullptr)
				lone = run;
			if (run->run.size == 0 && run->group != 0 && bare == nullptr)
				bare = run;
		}
		if (lone != nullptr || bare == nullptr)
			return shorten(lone != nullptr ? lone : first);
		int64_t group = bare->group;
		int32_t priority = bare->run.priority;
		remove_run(bare);
		lap_.lose(priority, group, hand_of(priority));
	}

	void shorten(Node *run)
	{
		remove_last(run);
		order(run);
	}

	/* The run whose turn is last. */
	Node *last() const
	{
		int32_t priority = of_turn(Tree::prev_node(Tree::end_node(const_cast<TreeNode *>(&turns_))))->run.priority;
		return last_up_to(priority, hand_of(priority));
	}

	/* The run whose turn is before that one's; there is one. */
	Node *before(Node *run) const
	{
		int32_t priority = run->run.priority;
		if (run != next_after(priority, hand_of(priority)))
			return last_up_to(priority, pgq::before(run->group));
		TreeNode *first = Tree::lower_bound(&turns_, Turn{priority, INT64_MIN}, ByTurn{});
		priority = of_turn(Tree::prev_node(first))->run.priority;
		return last_up_to(priority, hand_of(priority));
	}

	void visit_up_to(int64_t group)
	{
		if (!lap_.visit_up_to(group))
			return;
		int64_t left = lap_.left();
		auto priority = static_cast<int32_t>(left);
		left == Lap::kNone ? lap_.end() : lap_.begin(priority, hand_of(priority));
	}

	Node *storage_;
	Node *unused_; /* returned nodes, linked through links.parent */
	TreeNode nodes_;
	TreeNode turns_;
	uint32_t capacity_;
	uint32_t fresh_; /* nodes from here on were never used (and never touched) */
	uint32_t used_;
	uint32_t peak_;
	uint32_t runs_;
	int64_t before_; /* the turn that the last pop has ended */
	int64_t hands_[kHands];
	Lap lap_;
};

} // namespace pgq
