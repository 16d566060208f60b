/*
 * The ready jobs of one queue in memory. A queue with fair has them in turns (turns.h), any other queue in a window with a cursor.
 * The groups (groups.h) say which jobs have room. Part of Schedule, which says when a job is due, and states the invariant.
 *
 * A claim calls these functions in this order, and does what the first true answer demands (protocol: claims-make-progress):
 *
 *   poppable               the next hint is a job: pop it; it goes out, or is dropped because its group has no room
 *   wants_visit            the next hint is a marker: visit the group, that is, read its rows
 *   wants_step             (fair) memory may lack the run whose turn is next: make a step of the lap, which reads rows of groups
 *   wants_window_refill    (without fair) the window may lack rows that would come first: refill the window
 *   exhausted              no job is ready: end the claim
 *
 * Each action makes progress. Without fair, a refill or a visit raises the smallest key of the rows that memory may lack, or brings
 * jobs before this key; with fair, a step shortens the arc of the lap or lowers its priority. A dropped job waits for its group.
 *
 * Pure and unlocked: the queue's lock is held around every call.
 */
#pragma once

#include "core/changed_rows.h"
#include "core/groups.h"
#include "core/heads.h"
#include "core/turns.h"
#include "core/window.h"

#include <utility>

namespace pgq {

class ReadyJobs
{
public:
	/* Memory for one node, with fair or without. */
	union Node
	{
		Window::Node by_key;
		Turns::Node in_turn;
	};
	/* Return how many nodes the owner provides: nodes of jobs, and behind these the memory of heads_. */
	static constexpr uint32_t nodes(uint32_t capacity)
	{
		uint64_t bytes = uint64_t{capacity} * sizeof(Heads::Slot);
		return Turns::nodes(capacity) +
			   static_cast<uint32_t>((bytes + sizeof(Node) - 1) / sizeof(Node));
	}

	const Window &window() const { return window_; }
	const Turns &turns() const { return turns_; }
	const Key &cursor() const { return cursor_; }
	const Heads &heads() const { return heads_; }
	bool visiting() const { return visiting_; }
	const Groups &groups() const { return groups_; }
	Groups &groups() { return groups_; }
	const GroupRules &rules() const { return groups_.rules(); }
	uint32_t size() const { return fair() ? turns_.size() : window_.size(); }
	uint32_t peak() const { return std::max(window_.peak(), turns_.peak()); }

	/* ---- what a claim asks ---- */

	bool window_refill_active() const { return window_refill_.active; }

	/* Return whether a refill of the window is useful: a claim needs the refill, or the window is half empty. */
	bool wants_window_refill() const
	{
		return !fair() && !window_refill_.active && !(cursor_ == Key::highest()) &&
			   (window_.size() <= window_.capacity() / 2 || cursor_ < window_.first().key);
	}
	bool wants_step() const
	{
		return fair() && !turns_.lap().reading() && turns_.what_is_next() == Turns::Next::kStep;
	}

	bool wants_visit() const
	{
		if (visiting_)
			return false;
		return fair() ? turns_.what_is_next() == Turns::Next::kVisit
					  : !window_.empty() && window_.first().marker && !comes_before_window();
	}

	/* Remove markers of groups without room from the front of the window. Call this before poppable() and wants_visit(). */
	void clear_way()
	{
		static constexpr int kAtOnce = 64;
		for (int i = 0; i < kAtOnce && !fair() && !window_.empty() && window_.first().marker; i++)
			if (!pass_full(window_.first()))
				break;
	}

	/* ---- groups ---- */

	/* Return whether the popped job may go out. If so, the caller tries to take its lease, and calls took() or left(). */
	bool admit(const Hint &hint)
	{
		return !rules().count() || !(groups_.drop(hint) || hides(hint));
	}

	/* Count the lease of the job in its group. claiming: the job was not handed out yet. */
	void took(const Hint &hint, bool claiming = true)
	{
		groups_.occupy(hint.group, claiming);
		if (!fair() || groups_.room(hint.group) > 0)
			return;
		Key from = turns_.drop(hint.group);
		if (!(from == Key::highest()))
			(void) groups_.drop(hint.group, from);
	}

	/* Note that the lease of the popped job was not taken. */
	void left(const Hint &hint) { look_at_group(hint.group); }

	/* With fair: let the group of the job that was just popped keep its turn. */
	void return_turn(const Hint &popped)
	{
		if (fair())
			(void) turns_.return_turn(popped, turns_.last_turn());
	}
	/*
	 * Like the function before, for a job that was popped some time ago. turn: last_turn() after
	 * the pop. Return whether the group keeps its turn.
	 */
	bool return_turn_late(const Hint &popped, const Turns::Given &turn)
	{
		return fair() && turns_.return_turn_late(popped, turn);
	}
	const Turns::Given &last_turn() const { return turns_.last_turn(); }

	/* Stop counting a lease in the group. */
	void release_group(int64_t id, bool claiming = false)
	{
		if (Key from = groups_.release(id, claiming); !(from == Key::highest()))
			look_from(id, from);
	}

	/* Note that a row of the group is gone or has changed. In a queue with fifo the group may have another head now. */
	void look_at_group(int64_t id)
	{
		if (!rules().in_order(id))
			return;
		heads_.doubt(id);
		if (groups_.room(id) > 0)
			look_from(id, Key::lowest());
	}

	/* Return the job_id from which on the head of the group is to be looked for: Heads::floor_of(). */
	int64_t floor_of(int64_t group) const
	{
		return rules().in_order(group) ? heads_.floor_of(group) : INT64_MIN;
	}

	/*
	 * Return how many new markers were put since the last call. Each marker may lead to a job, so
	 * the caller wakes a waiter.
	 */
	uint32_t take_news() { return std::exchange(news_, 0); }

	void change_group_rules(const GroupRules &rules, int64_t now)
	{
		groups_.change_rules(rules, now);
		read_all_again();
	}

	/*
	 * End the waits of groups for their rates that are over at the monotonic time `now`: put markers for these groups. Return true
	 * if the others have room again: the cursor was lowered for them.
	 */
	bool let_time_pass(int64_t now)
	{
		Key from;
		groups_.let_time_pass(now, [this](int64_t id, const Key &key) { look_from(id, key); });
		if (!groups_.rates().others_may_go_on(&from))
			return false;
		lower_cursor(from);
		return true;
	}

	/* ---- visits ---- */

	/* Begin visits of the first markers, at most `most` of them. Return their number. */
	int begin_visits(Visit *visits, int most)
	{
		visiting_ = true;
		int n = fair() ? turns_.begin_visits(visits, most, rules().fifo)
					   : begin_visits_in_window(visits, most);
		for (Visit *visit = visits; visit < visits + n; visit++)
		{
			visit->room = std::min(visit->room, groups_.room(visit->group));
			if (rules().in_order(visit->group))
				visit->floor = heads_.begin_visit(visit->group);
		}
		return n;
	}
	void end_visits() { visiting_ = false; }

	LapStep begin_step() { return turns_.begin_step(); }
	void end_step() { turns_.end_step(); }
	bool look_at_step(LapStep *step, int64_t highest) { return turns_.look_at_step(step, highest); }
	void take_rest(const LapStep &step) { turns_.take_rest(step); }

protected:
	void init(Node *storage, uint32_t capacity)
	{
		window_.init(&storage->by_key, capacity);
		turns_.init(&storage->in_turn, capacity);
		groups_.init();
		heads_.init(reinterpret_cast<Heads::Slot *>(storage + Turns::nodes(capacity)), capacity);
	}

	void reset(const GroupRules &rules)
	{
		groups_.reset(rules);
		turns_.reset();
		window_refill_.active = false;
		visiting_ = false;
		news_ = 0;
		forget_all();
	}

	bool fair() const { return rules().fair; }

	bool has_next() const
	{
		if (fair())
			return turns_.poppable();
		return !window_.empty() && !window_.first().marker && !comes_before_window();
	}
	bool knows_all() const
	{
		if (fair())
			return turns_.all_known();
		return window_.empty() && !window_refill_.active && cursor_ == Key::highest();
	}

	Hint pop_next() { return fair() ? turns_.pop() : window_.pop(); }

	/* Note that memory may lack rows from this key on. */
	void lower_cursor(const Key &key)
	{
		if (key == Key::highest())
			return;
		if (fair())
			turns_.doubt(key);
		else
			lower(window_refill_, cursor_, key);
		if (rules().fifo)
			heads_.forget();
	}

	/*
	 * Let claims read the rows of these groups, of which memory may lack rows. Return false if that does not suffice: the caller then
	 * lowers the cursor.
	 */
	bool look_at_groups_of(const ChangedRows &rows)
	{
		if (!rules().any() || !rows.knows_groups())
			return false;
		for (int i = 0; i < rows.groups; i++)
			look_for(rows.of[i].group, rows.of[i].key);
		return true;
	}

	/* Return whether the window may lack a row with this key. */
	bool is_beyond_window(const Key &key) const
	{
		return !(key < known_to(window_refill_, cursor_));
	}

	Key begin_sweep() { return begin_refill(window_refill_, cursor_); }
	void finish_sweep(const Key &end) { finish_refill(window_refill_, cursor_, end); }

	void read_all_again()
	{
		groups_.rates().end_others_aside();
		forget_all();
	}

	/* Insert a ready row. Return false if the row has to wait: its group has no room, or the row is behind the known head. */
	bool insert_ready(const Hint &hint)
	{
		turns_.note_ready(hint.key.priority);
		if (rules().count() && (groups_.drop(hint) || hides(hint)))
			return false;
		keep(hint);
		return true;
	}
	void keep(const Hint &hint)
	{
		if (fair())
			turns_.insert(hint, rules().in_order(hint.group));
		else if (hint.key < cursor_)
			window_.insert(hint, [this](const Hint &h) { lower(window_refill_, cursor_, h.key); });
	}

	/* Note that a row with this hint was filed, due or not. */
	void note_row(const Hint &hint)
	{
		if (rules().in_order(hint.group))
			heads_.note(hint);
	}

	/* End a visit (see Schedule::finish_visit()). All jobs that are passed are due. */
	void finish_visit(const Visit &visit, const Hint *jobs, int n, const Key &next, int64_t head)
	{
		int64_t group = visit.group;
		bool in_order = rules().in_order(group);
		bool current = fair() ? turns_.is_visited(group) : window_.end_visit(group, visit.from);
		if (!current)
			return;
		if (in_order)
			heads_.end_visit(group, head);
		if (fair() && groups_.drop(group, visit.from))
		{
			Key from = turns_.drop(group);
			if (!(from == Key::highest()))
				(void) groups_.drop(group, from);
			return;
		}
		if (fair())
			return turns_.end_visit(group, jobs, n, next, in_order);
		for (int i = 0; i < n; i++)
			keep(jobs[i]);
		if (!(next == Key::highest()) && !groups_.drop(group, next))
			keep(Window::marker_of(group, next));
	}

	/* Take over a group that a step has read (see Schedule::take_group()). All jobs that are passed are due. */
	bool take_group(const LapStep &step, int64_t group, const Hint *jobs, int n, const Key &next)
	{
		bool full = groups_.drop(group, n > 0 ? jobs[0].key : next);
		return turns_.take_group(step, group, !full, jobs, n, next);
	}

	/* Without fair: return whether memory has left the row out because of the known head or a marker of its group. */
	bool is_behind_known(const Hint &hint) const
	{
		return rules().any() && (hides(hint) || window_.covers(hint));
	}

	bool covered_by_group(const Hint &hint) const
	{
		if (groups_.cover(hint))
			return true;
		if (!fair())
			return is_behind_known(hint);
		return hides(hint) || turns_.covers(hint, rules().in_order(hint.group));
	}

	Window window_; /* W in schedule.h; used only without fair */
	Key cursor_;	/* C in schedule.h */
	Refill<Key> window_refill_;
	Turns turns_; /* used only with fair */
	Groups groups_;

private:
	void forget_all()
	{
		heads_.forget();
		window_.clear();
		lower(window_refill_, cursor_, Key::lowest());
		if (!window_refill_.active)
			cursor_ = Key::lowest();
		turns_.clear();
	}

	/* Return whether the window may lack rows before its first hint. A row with the key of this hint belongs to the same job. */
	bool comes_before_window() const
	{
		const Key &first = window_.first().key;
		return window_refill_.active ? !(first < known_to(window_refill_, cursor_))
									 : cursor_ < first;
	}

	bool hides(const Hint &hint) const { return rules().in_order(hint.group) && heads_.hide(hint); }

	/* Put a marker: the group has room, and memory may lack its rows from this key on. */
	void look_from(int64_t id, const Key &from)
	{
		news_ += fair() ? !turns_.is_marked(id, from) : !window_.is_marked(id, from);
		heads_.doubt(id);
		fair() ? turns_.mark(id, from) : keep(Window::marker_of(id, from));
	}

	/* Note that memory may lack ready rows of the group from this key on, and with fifo any row; +infinity: only rows that are not due. */
	void look_for(int64_t id, const Key &key)
	{
		bool in_order = rules().in_order(id);
		if (in_order)
			heads_.forget(id);
		else if (key == Key::highest())
			return;
		turns_.note_ready(key.priority);
		Key from = in_order ? Key::lowest() : key;
		if (id == 0 && !fair())
			lower(window_refill_, cursor_, from);
		else if (!groups_.drop(id, from))
			look_from(id, from);
	}

	int begin_visits_in_window(Visit *visits, int most)
	{
		int n = 0;
		window_.for_first_markers([&](const Hint &marker) {
			if (n < most && !pass_full(marker))
			{
				visits[n++] = {
					.group = marker.group, .from = marker.key, .floor = 0, .room = INT32_MAX};
				window_.begin_visit(marker);
			}
		});
		return n;
	}

	/* If the group of a marker has no room, lower its cursor to the key of the marker, remove the marker, and return true. */
	bool pass_full(const Hint &marker)
	{
		bool full = groups_.drop(marker);
		if (full)
			window_.remove(marker);
		return full;
	}

	Heads heads_;
	bool visiting_; /* visits are under way */
	uint32_t news_; /* number of markers that were put since take_news() */
};

} // namespace pgq
