/*
 * The ready jobs of a queue with fair, in which groups take turns: a run (runs.h) for each group in memory, and a lap (lap.h) for
 * the groups without a run. Jobs without a group are group 0. In a queue with fifo, the run of a group other than 0 has at most one
 * job: the one with the smallest id among the jobs of the group that memory has met.
 *
 * If the run whose turn is next begins with a marker, a visit must read rows of its group before a job goes out. If there are too
 * many nodes, a run whose turn is late loses its last job, or is evicted. The run of group 0 is never evicted, since no lap reads
 * group 0. So memory has each ready job, or the job is covered: a marker, the lap or (fifo) an earlier job will lead to the job.
 *
 * Pure and unlocked: part of ReadyJobs.
 */
#pragma once

#include "core/runs.h"

namespace pgq {

class Turns : public Runs
{
public:
	void init(Node *storage, uint32_t capacity)
	{
		Runs::init(storage, capacity);
		reset();
	}

	void reset()
	{
		reset_hands();
		lap_ = {};
		groups_ = groups_of_step_ = 0;
		clear();
	}

	/* Forget all runs. Memory may lack all rows. */
	void clear() { clear(Key::lowest()); }

	/* Forget all runs: memory may lack rows from this key on. A new lap covers rows with a group, a marker rows without a group. */
	void doubt(const Key &key)
	{
		Node *run = find(0);
		clear(run != nullptr ? std::min(first_key(run), key) : key);
	}

	const Lap &lap() const { return lap_; }

	/* ---- jobs ---- */

	/* Note that there is a ready job of this priority, in memory or not. */
	void note_ready(int32_t priority)
	{
		top_ = std::max(top_, priority);
		met_ = std::max(met_, priority);
	}

	/* Insert a ready job, unless a marker, the lap or (fifo) another job covers it. in_order: only the group's head goes out. */
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
			/*
			 * The job of the run has the smaller id, but its row may be gone. Then the new hint may be the head: if it has the
			 * smaller key, put a marker there, so that a visit looks for the head.
			 */
			if (first_of(run)->hint.key.job_id < hint.key.job_id)
				return hint.key < first_of(run)->hint.key ? mark(hint.group, hint.key) : void();
			/* The new hint has the smaller id, but its row may be gone. So leave a marker in the place of the job of the run. */
			remove_last(run);
		}
		add(run, hint);
		while (r.size > quota())
			remove_last(run);
		order(run);
		shrink();
	}

	/* Return whether the group has a marker at this key or before that no process is visiting. */
	bool is_marked(int64_t group, const Key &from) const
	{
		Node *run = find(group);
		return run != nullptr && run->run.more && !(below_top(from) < run->run.from) &&
			   run->run.visit == 0;
	}

	/* Put a marker: memory may lack rows of the group from this key on. */
	void mark(int64_t group, const Key &wanted)
	{
		Key from = below_top(wanted);
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

	/* Remove the run of a group without room. Return the key from which memory may lack its rows; +infinity: there was no run. */
	Key drop(int64_t group)
	{
		Node *run = find(group);
		Key from = run != nullptr ? first_key(run) : Key::highest();
		if (run != nullptr)
			remove_run(run);
		return from;
	}

	/*
	 * The action that must come before a job can go out: a step of the lap, a visit, or nothing
	 * (kPop). kNone: there is no job.
	 */
	enum class Next : uint8_t
	{
		kNone,
		kStep,
		kVisit,
		kPop,
	};
	Next what_is_next() const
	{
		if (empty())
			return lap_.on() ? Next::kStep : Next::kNone;
		Node *run = next();
		if (!lets_go(run))
			return Next::kStep;
		return is_marker_first(run) ? Next::kVisit : Next::kPop;
	}
	bool poppable() const { return what_is_next() == Next::kPop; }
	bool all_known() const { return empty() && !lap_.on(); }

	Hint pop()
	{
		Node *run = next();
		Node *first = first_of(run);
		Hint hint = first->hint;
		give_turn(hint.key.priority, hint.group);
		remove_job(run, first);
		order(run);
		return hint;
	}

	/* Call return_turn() for a job that was popped some time ago. */
	bool return_turn_late(const Hint &popped, const Given &turn)
	{
		bool returned = return_turn(popped, turn);
		if (returned)
			lap_.reach_back(popped.key.priority, turn.before);
		return returned;
	}

	/* ---- visits of markers ---- */

	/*
	 * Begin visits of at most `most` markers: among the next kLooks runs of the highest priority, visit those that begin with a
	 * marker. Return the number of visits. fifo: also remove the jobs of these runs.
	 */
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
				begin_visit(run->run, n);
				visits[n++] = {
					.group = run->group, .from = run->run.from, .floor = 0, .room = quota()};
			}
			run = next_after(run->run.priority, run->group);
		}
		return n;
	}

	/* Return whether the group has a run whose marker is being visited. */
	bool is_visited(int64_t group) const
	{
		Node *run = find(group);
		return run != nullptr && run->run.visit != 0;
	}

	/* End a visit. jobs: the jobs that it has found, from the marker on; next: from this key on, memory may lack jobs. */
	void end_visit(int64_t group, const Hint *jobs, int n, const Key &next, bool in_order)
	{
		Node *run = find(group);
		if (run == nullptr || run->run.visit == 0)
			return;
		Run &r = run->run;
		Key from = std::min(next, lowest_of(r));
		r.visit = 0;
		if (in_order && r.size > 0 && n > 0)
		{
			/* The job of the run was filed since the visit began. Keep only the job with the smaller id. */
			if (first_of(run)->hint.key.job_id < jobs[0].key.job_id)
				n = 0;
			else
				remove_jobs(run);
		}
		r.from = from;
		r.more = !(r.from == Key::highest());
		if (group == 0 && n == 0)
			pass_turn(run);
		fill(run, jobs, n);
	}

	/* ---- steps of a lap ---- */

	LapStep begin_step()
	{
		LapStep step = lap_.begin_step();
		step.room = std::min(quota(), std::max<int32_t>(quota_of(groups_) - 1, 1));
		groups_of_step_ = 0;
		met_ = INT32_MIN;
		return step;
	}

	/*
	 * Return whether take_group() may be called for the groups of the step. highest: highest priority of a due row, not counting
	 * priorities above the lap's; kNone: there is no such row.
	 */
	bool look_at_step(LapStep *step, int64_t highest)
	{
		if (step->lap != lap_.serial())
			return false;
		if (step->priority >= top_)
			top_ = std::max(met_, static_cast<int32_t>(std::max<int64_t>(highest, INT32_MIN)));
		highest = std::max(highest, lap_.left());
		if (lap_.spoilt() || highest >= lap_.priority())
			return true;
		if (highest == Lap::kNone)
		{
			lap_.end();
			return false;
		}
		/*
		 * No row that was read has the priority of the lap. Go on with a lap of a lower priority:
		 * the highest one among the rows.
		 */
		auto priority = static_cast<int32_t>(highest);
		lap_.begin(priority, hand_of(priority));
		step->lap = lap_.serial();
		return lap_.arc_begin() == step->from;
	}

	/*
	 * Make a run of the next group of the step, if the group has room. jobs: the first jobs of the group; next: from this key on,
	 * memory may lack jobs of the group. Return false if take_group() must not be called for later groups.
	 */
	bool take_group(const LapStep &step, int64_t group, bool has_room, const Hint *jobs, int n,
					const Key &next)
	{
		if (step.lap != lap_.serial() || lap_.spoils(group))
			return false;
		groups_ = groups_on_circle(++groups_of_step_, step.from, group);
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

	/* Note that the step has read all groups up to step.to. */
	void take_rest(const LapStep &step)
	{
		if (step.lap == lap_.serial() && !lap_.spoilt())
			visit_up_to(step.to);
	}
	void end_step() { lap_.end_step(); }

	/* ---- for views and checks ---- */

	bool covers(const Hint &hint, bool in_order) const
	{
		Node *run = find(hint.group);
		if (run == nullptr)
			return hint.group != 0 && hint.key.priority <= lap_.bound(hint.group);
		bool behind =
			in_order && run->run.size > 0 && first_of(run)->hint.key.job_id < hint.key.job_id;
		return behind || (run->run.more && !(hint.key < run->run.from)) || contains(hint);
	}

private:
	/* Return the first key from this one on that a ready row may have. */
	Key below_top(const Key &from) const { return std::max(from, first_of_priority(top_)); }

	static Key first_of_priority(int64_t priority)
	{
		return {static_cast<int32_t>(priority), INT64_MIN, INT64_MIN};
	}

	bool lets_go(Node *run) const
	{
		return lap_.lets_go(run->run.priority, run->group, hand_of(run->run.priority));
	}

	void add_run(int64_t group, const Key &from)
	{
		(void) new_run(group, from);
		shrink();
	}

	void clear(const Key &ungrouped)
	{
		Runs::clear();
		top_ = met_ = INT32_MAX;
		lap_.begin(INT32_MAX, hand_of(INT32_MAX));
		mark(0, ungrouped);
	}

	/* Insert a job of a group without a run. */
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

	/* Add those of the n jobs that come before the marker. If there are too many nodes, the run itself may be evicted. */
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
		shrink();
	}

	/* ---- eviction ---- */

	void shrink()
	{
		while (is_overfull())
			evict();
	}

	/*
	 * Look at the kLooks runs whose turns are last, except the run whose turn is next. Remove the last job of the last run with
	 * several jobs, or else of the last run with one job. If these runs have only markers, remove the last run of them, but not the
	 * run of group 0. If that leaves none, remove the last job of the run whose turn is next.
	 */
	void evict()
	{
		static constexpr int kLooks = 32;
		Node *first = next();
		Node *lone = nullptr;
		Node *bare = nullptr;
		FromLast turn = from_last();
		for (int i = 0; i < kLooks && turn.run != first; i++, go_back(&turn))
		{
			Node *run = turn.run;
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

	void visit_up_to(int64_t group)
	{
		if (!lap_.visit_up_to(group))
			return;
		int64_t left = lap_.left();
		auto priority = static_cast<int32_t>(left);
		left == Lap::kNone ? lap_.end() : lap_.begin(priority, hand_of(priority));
	}

	/* End the turn of the run of group 0, if it is the next run: the visit has passed over many rows, and found no job. */
	void pass_turn(Node *run)
	{
		if (run == next() && lets_go(run))
			hand(run->run.priority) = run->group;
	}

	/*
	 * Upper bound of the priorities of ready jobs, also of those that memory lacks. In a queue with fifo, the end of a job makes a
	 * process look for the next job of the group. Its priority is unknown, so the marker gets this bound: with the highest possible
	 * priority, it would come before all jobs.
	 */
	int32_t top_;
	int32_t met_; /* highest priority that was passed to note_ready() since the step began */
	/*
	 * Estimated number of groups on the circle: the last step has found groups_of_step_ groups on its part of the circle, and the
	 * ids of groups are evenly distributed hashes. If the estimate is wrong, steps read more or fewer rows than memory has room for.
	 */
	uint32_t groups_;
	uint32_t groups_of_step_;
	Lap lap_;
};

} // namespace pgq
