/*
 * The ready jobs of one queue: a window with a cursor, or in a queue with fair turns; and the groups that have no room. A
 * part of the Schedule, which says what is ready and what all this must hold.
 *
 * A claim asks in this order, and each answer but the last brings it nearer to a job (protocol: claims-make-progress):
 *
 *   wants_window_refill   rows that come before the first of the window may be missing: a refill reads them (fair:
 *                  wants_step, a step of the lap)
 *   wants_visit    the first is a marker: a visit reads rows of its group
 *   poppable       the first is a job: it goes out, or is dropped
 *   exhausted      there is no job
 *
 * The measure, without fair: the smallest key that a missing row may have. A refill raises it, a visit raises the marker
 * that is the first or replaces it by a job; a pop takes a job, or hands it to a group without room, whence only the end
 * of a lease brings it back. With fair: the number of groups that are before the next job and not known. A step visits
 * groups, or lowers the lap's priority; a visit and a pop do as before.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/groups.h"
#include "core/heads.h"
#include "core/turns.h"
#include "core/window.h"

#include <utility>

namespace pgq {

class ReadyJobs
{
public:
	/* Memory for one place, whatever the queue's options. */
	union Node
	{
		Window::Node by_key;
		Turns::Node in_turn;
	};
	static constexpr uint32_t nodes(uint32_t capacity) { return Turns::nodes(capacity); }

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
	/* Is a process reading rows that come before the next job? */
	bool refill_active() const { return fair() ? turns_.lap().reading() : window_refill_.active; }

	/* A refill is worth while, now or soon. */
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

	/* Before that: markers of groups that have no room any more are not in the way. */
	void clear_way()
	{
		static constexpr int kAtOnce = 64;
		for (int i = 0; i < kAtOnce && !fair() && !window_.empty() && window_.first().marker; i++)
			if (!pass_full(window_.first()))
				break;
	}

	/* ---- groups ---- */

	/* May the job that was just popped go out? If so, its lease is taken or not: took, or left. */
	bool admit(const Hint &hint)
	{
		return !rules().count() || !(groups_.drop(hint) || hides(hint));
	}

	/* Its lease counts from now on. */
	void took(const Hint &hint, bool claiming = true)
	{
		groups_.occupy(hint.group, claiming);
		if (!fair() || groups_.room(hint.group) > 0)
			return;
		Key from = turns_.drop(hint.group);
		if (!(from == Key::highest()))
			(void) groups_.drop(hint.group, from);
	}

	/* A job was popped, and its lease not taken. */
	void left(const Hint &hint) { look_at_group(hint.group); }

	/* A lease of the group counts no more. */
	void release_group(int64_t id, bool claiming = false)
	{
		if (Key from = groups_.release(id, claiming); !(from == Key::highest()))
			look_from(id, from);
	}

	/* A row of the group is gone, or another one. Whatever it was, in a queue with fifo another row may be the first. */
	void look_at_group(int64_t id)
	{
		if (!rules().in_order(id))
			return;
		heads_.doubt(id);
		if (groups_.room(id) > 0)
			look_from(id, Key::lowest());
	}

	/* Earlier jobs of the group than this one have ended, or are filed when they come. */
	int64_t floor_of(int64_t group) const
	{
		return rules().in_order(group) ? heads_.floor_of(group) : INT64_MIN;
	}

	/* How often a group got a marker since this was asked last: there may be a job for a claim that waits. */
	uint32_t take_news() { return std::exchange(news_, 0); }

	void change_group_rules(const GroupRules &rules, int64_t now)
	{
		groups_.change_rules(rules, now);
		read_all_again();
	}

	/* On the monotonic clock. Groups may have room by that. True: more rows are to be read by it. */
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

	/* Returns how many. */
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

	/* The lap has only to be told that nobody reads. */
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

	/* Rows from this key on are not in memory, perhaps. With fair nobody knows of which groups. */
	void lower_cursor(const Key &key)
	{
		if (fair())
			turns_.doubt(key);
		else
			lower(window_refill_, cursor_, key);
		if (rules().fifo)
			heads_.forget();
	}

	/* May rows with this key be there that are not in memory? */
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

	/* A ready row is there. False: it waits for its group. */
	bool insert_ready(const Hint &hint)
	{
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

	/* There is this row, due or not. */
	void note_row(const Hint &hint)
	{
		if (rules().in_order(hint.group))
			heads_.note(hint);
	}

	/*
	 * A visit has ended. jobs: rows that it has found, from the marker on, that are due and have no lease; next: the first
	 * key it has not read. With fifo: whatever was found, head is its id, or INT64_MAX if there is none.
	 */
	void finish_visit(const Visit &visit, const Hint *jobs, int n, const Key &next, int64_t head)
	{
		int64_t group = visit.group;
		bool in_order = rules().in_order(group);
		bool current = fair() ? turns_.is_visited(group) : window_.end_visit(group, visit.from);
		if (!current)
			return;
		if (in_order && head != INT64_MAX)
			heads_.end_visit(group, head);
		if (fair())
			return turns_.end_visit(group, jobs, n, next, in_order);
		for (int i = 0; i < n; i++)
			keep(jobs[i]);
		if (!(next == Key::highest()) && !groups_.drop(group, next))
			keep(Window::marker_of(group, next));
	}

	/* The next group that a step has met; as finish_visit. False: the step ends here. */
	bool take_group(const LapStep &step, int64_t group, const Hint *jobs, int n, const Key &next)
	{
		bool full = groups_.drop(group, n > 0 ? jobs[0].key : next);
		return turns_.take_group(step, group, !full, jobs, n, next);
	}

	bool covered_by_group(const Hint &hint) const
	{
		bool in_order = rules().in_order(hint.group);
		if (groups_.cover(hint) || (in_order && heads_.hide(hint)))
			return true;
		return fair() ? turns_.covers(hint, in_order) : rules().any() && window_.covers(hint);
	}

	Window window_; /* W, without fair */
	Key cursor_;	/* C */
	Refill<Key> window_refill_;
	Turns turns_; /* with fair */
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

	/* Are rows to be read before the first of the window may go out? One at the cursor itself is the same job's. */
	bool comes_before_window() const
	{
		const Key &first = window_.first().key;
		return window_refill_.active ? !(first < known_to(window_refill_, cursor_))
									 : cursor_ < first;
	}

	bool hides(const Hint &hint) const { return rules().in_order(hint.group) && heads_.hide(hint); }

	/* The group has room, and rows of it from this key on may be missing. */
	void look_from(int64_t id, const Key &from)
	{
		news_++;
		heads_.doubt(id);
		fair() ? turns_.mark(id, from) : keep(Window::marker_of(id, from));
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

	/* A marker of a group that has no room any more is its entry's from here on. */
	bool pass_full(const Hint &marker)
	{
		bool full = groups_.drop(marker);
		if (full)
			window_.remove(marker);
		return full;
	}

	Heads heads_;
	bool visiting_;
	uint32_t news_;
};

} // namespace pgq
