/*
 * Schedule: which job of one queue is next. Memory has
 *
 *   W  window        ready hints below the cursor, ordered by key; bounded
 *   C  cursor        ready rows whose key is C or beyond may be missing in W
 *   T  timer         hints below the timer cursor that are not yet due, ordered by run_at; bounded
 *   TC timer_cursor  rows whose (run_at, id) is TC or beyond may be missing in T
 *   D  due_line      the time up to which jobs are due; goes back only by a rewind
 *      groups        for each group without room a cursor of its own: groups.h; for a group with room perhaps a marker: window.h
 *
 * Invariant, for every live row that has no lease and whose inserting transaction has run its callback. If the row is due, then it
 * is in W, or its key is C or beyond, or its (run_at, id) is TC or beyond, or its key is at or beyond the cursor or a marker of its
 * group. If the row is not due, then it is in T, or its (run_at, id) is TC or beyond. (In a queue with fair, turns.h says the same
 * without W and C. In a queue with fifo, the invariant holds for the first row of each group. The later rows of a group need no
 * place in memory: when the first row ends, the group gets a marker.) A superfluous hint is always allowed. To pull a cursor back
 * is always correct, only slower: in doubt, pull back.
 *
 * Due means that run_at <= D, or that the row is not delayed: the job was due when it was enqueued, and no attempt has failed.
 * The second condition helps, for example, a job that was enqueued just before a failover to a machine whose clock is behind.
 * Without this condition, the job would be neither due nor in the index of delayed rows, from which the timer is filled.
 *
 * D moves forward, and stays while the clock is behind D by no more than the slack. If the clock is further behind D (it was
 * wrong, and has been corrected), D goes back to the clock: a rewind. Rows that were due may not be due any more. So W and T are
 * emptied, C becomes -infinity, and TC the first moment after D. That keeps the invariant, whatever was in memory: a row that is
 * due has a key >= C, and a row that is not due is delayed and has (run_at, id) >= TC. A refill that is under way goes on: its
 * `lowest` (see below) is lowered instead of the cursor, and rows that it has read are filed as usual, even if not due any more.
 *
 * In the index of all rows by priority and run_at, a row that is not delayed but has a run_at beyond D stands among rows that are
 * not due. So the scan of a window refill looks for such rows up to the horizon (horizon.h). In a queue with fair, whose window
 * is not refilled, a claim lowers the horizon when memory knows all rows and none is ready (note_exhausted()).
 *
 * A refill reads rows while other processes go on working, in three steps. `begin` sets C to +infinity, so that all hints that
 * are filed during the refill are kept. The caller scans the rows without any lock. `merge` and `finish` file the rows and set
 * the cursor again. `lowest` is the smallest key to which C would have been lowered during the refill, for example by a hint
 * that is evicted or refused. C ends at `lowest` or at the end of the scan, whichever is smaller. A refill that does not finish is
 * abandoned: the cursor goes back to its start. There is at most one refill of the window and one of the timer at a time.
 *
 * Pure and unlocked: the owner holds the queue's lock around every call.
 */
#pragma once

#include "core/horizon.h"
#include "core/oldest_ready.h"
#include "core/ready_jobs.h"
#include "core/steady_clock.h"

#include <utility>

namespace pgq {

class Schedule : public ReadyJobs
{
public:
	using Timer = OrderedSet<Hint, ByRunAt>;

	/* slack: how far the clock may be behind the due line without a rewind, in microseconds. */
	void init(Node *window, uint32_t window_size, Timer::Node *timer, uint32_t timer_size,
			  int64_t slack = kJump)
	{
		ReadyJobs::init(window, window_size);
		timer_.init(timer, timer_size);
		slack_ = slack;
		reset();
	}

	/* Set both cursors to -infinity: all rows are still to be read from the table. */
	void reset(const GroupRules &rules = {})
	{
		ReadyJobs::reset(rules);
		oldest_beyond_.forget();
		timer_.clear();
		timer_cursor_ = TimerKey::lowest();
		due_line_ = INT64_MIN;
		horizon_.reset();
		fired_ = 0;
		handed_over_ = false;
		timer_read_ = false;
		timer_pulled_ = false;
		late_refills_ = 0;
		timer_refill_.active = false;
	}

	/* Rewind, if the clock was set back by more than the slack. */
	void notice_step_back(int64_t now)
	{
		if (now < due_line_ && due_line_ - now > slack_)
			rewind(now);
	}

	/* Move the due line forward to the clock. Move hints that are due now from the timer into the window. */
	void fire(int64_t now)
	{
		notice_step_back(now);
		if (now > due_line_)
			due_line_ = now;
		while (!timer_.empty() && timer_.min().key.run_at <= due_line_)
		{
			Hint hint = timer_.pop_min();
			oldest_beyond_.note(hint);
			fired_ += insert_ready(hint);
		}
		if (!timer_refill_.active)
			hand_over_due();
	}

	/* Return whether, since the last call, rows have become due that only a refill will bring into memory. */
	bool take_handed_over() { return std::exchange(handed_over_, false); }

	/* Return how many jobs of the timer have become ready since the last call. */
	uint32_t take_fired() { return std::exchange(fired_, 0); }

	/* File a hint in window or timer. Return true if the job is ready; false if it waits for its run_at, or for room in its group. */
	bool file(const Hint &hint)
	{
		note_met(hint);
		note_row(hint);
		if (due(hint))
		{
			oldest_beyond_.note(hint);
			return insert_ready(hint);
		}
		insert_timed(hint);
		return false;
	}

	OldestInWindow oldest_in_window(int most) const
	{
		return groups_.rules().any() ? OldestInWindow{nullptr, OldestReady::kAll}
									 : oldest_in(window_, known_to(window_refill_, cursor_), most);
	}
	const OldestReady &oldest_beyond() const { return oldest_beyond_; }
	OldestReady &oldest_beyond() { return oldest_beyond_; }

	/* Return whether memory may lack due rows that only a refill of the timer will bring. */
	bool hides_due() const { return known_to(timer_refill_, timer_cursor_).run_at <= due_line_; }

	/*
	 * Return whether the next hint may be popped: memory lacks no ready row that goes out before it. The hint may be exactly at the
	 * cursor, where the row is the same job. (If the group of the row was changed, the window may lack one of its two hints.)
	 */
	bool poppable() const { return has_next() && !hides_due(); }

	Hint pop()
	{
		assert(poppable());
		return pop_next();
	}

	/* File again the hint of a job that was just popped: the job cannot be claimed now. Its group keeps its turn. */
	void take_back(const Hint &hint)
	{
		return_turn(hint);
		file(hint);
	}

	/* Return whether there is no ready row, neither in memory nor beyond a cursor, except rows of groups without room. */
	bool exhausted() const { return knows_all() && !hides_due(); }

	/*
	 * Note that a claim ends because the queue is exhausted. With fair, all ready rows have then been met since the last call of
	 * doubt_horizon(), unless a group without room or (fifo) a head hides rows that were not read.
	 */
	void note_exhausted()
	{
		bool hidden = rules().fifo || groups_.size() > 0 || groups_.rates().others_are_aside();
		if (fair() && !hidden && exhausted())
			horizon_.lower();
	}

	/*
	 * How many jobs go out before a ready job, according to memory. or_more: there may be more, because memory lacks rows, or
	 * because the queue has the option fair, where jobs that are enqueued later may go out earlier. With fifo, jobs of the same
	 * group are not counted: the caller knows from the table which of them come first.
	 */
	struct Ahead
	{
		uint32_t jobs;
		bool or_more;
	};
	Ahead ahead_of(const Hint &hint, uint32_t most) const
	{
		bool kept = !fair() && window_.contains(hint);
		if (fair() || !(kept || is_beyond_window(hint.key) || is_behind_known(hint)))
			return {0, true};
		bool complete = true;
		int64_t left_out = rules().fifo ? hint.group : 0;
		uint32_t jobs = window_.count_before(hint, left_out, most, &complete);
		return {jobs, !kept || !complete || jobs == most};
	}

	bool scheduled_beyond_timer() const
	{
		return timer_refill_.active || !(timer_cursor_ == TimerKey::highest());
	}

	/* Return the run_at at which fire() will have something to do; INT64_MAX: no such run_at is known. */
	int64_t next_timer() const
	{
		int64_t beyond = known_to(timer_refill_, timer_cursor_).run_at;
		return timer_.empty() || beyond < timer_.min().key.run_at ? beyond
																  : timer_.min().key.run_at;
	}

	/* Return the run_at up to which a scan looks for jobs that were due when they were enqueued. */
	int64_t horizon() const { return std::max(horizon_.bound(), due_line_); }

	/* Note that there is a job with this run_at that was due when it was enqueued. */
	void raise_horizon(int64_t run_at) { horizon_.raise(run_at); }

	/* Call this for each row that was read, even if its hint is not kept: a row that is not delayed raises the horizon. */
	void note_met(const Hint &hint)
	{
		if (!hint.delayed)
			raise_horizon(hint.key.run_at);
	}

	/*
	 * Note that memory may lack jobs that were never filed. bound: an upper bound of the run_at of such jobs that were due when
	 * they were enqueued.
	 */
	void doubt_horizon(int64_t bound) { horizon_.doubt(bound); }

	/* Note that memory may lack rows from this key on, and rows from this timer key on. */
	void pull_back(const Key &key, const TimerKey &timer_key)
	{
		/* If memory may lack all rows, the next refill of the window finds all due rows, without the timer: see hand_over_due(). */
		timer_read_ &= !(key == Key::lowest());
		timer_pulled_ |= key == Key::lowest();
		oldest_beyond_.forget();
		lower_cursor(key);
		lower(timer_refill_, timer_cursor_, timer_key);
		if (!timer_refill_.active)
			hand_over_due();
	}

	/* Note that memory may lack these rows. In a queue with rules for groups, only rows of their groups are read again, if possible. */
	void pull_back(const ChangedRows &rows)
	{
		horizon_.raise(rows.horizon);
		bool done = look_at_groups_of(rows);
		/* With fifo, a row that has left its group makes another job the head, whose key may be smaller. */
		Key all = rules().fifo ? Key::lowest() : rows.key;
		pull_back(done ? Key::highest() : all, rows.timer_key);
	}

	/*
	 * Return whether the invariant, stated at the top of this file, is true for the hint of a live
	 * row without a lease. The timer is filled from the index of delayed rows, so the timer cursor
	 * covers delayed rows only.
	 */
	bool covers(const Hint &hint) const
	{
		if (hint.delayed && !(hint.timer_key() < known_to(timer_refill_, timer_cursor_)))
			return true;
		bool kept = fair() ? turns_.contains(hint) : window_.contains(hint);
		if (!due(hint))
			return kept || timer_.contains(hint);
		return kept || (!fair() && is_beyond_window(hint.key)) || covered_by_group(hint);
	}

	/*
	 * Return whether memory has a hint of the same job that goes out no later than this one. A claim that pops such a hint finds
	 * the row and files this hint again. Looks at all hints.
	 */
	bool leads_to(const Hint &hint) const
	{
		bool found = false;
		auto look = [&](const Hint &h) {
			found |= !h.marker && h.key.job_id == hint.key.job_id && h.group == hint.group &&
					 !(hint.key < h.key);
		};
		fair() ? turns_.for_each(look) : window_.for_each(look);
		if (!due(hint))
			timer_.for_each([&](const Hint &h) {
				found |= h.key.job_id == hint.key.job_id && h.group == hint.group &&
						 !(hint.key < h.key) && !(hint.key.run_at < h.key.run_at);
			});
		return found;
	}

	bool wants_timer_refill() const
	{
		return !timer_refill_.active && !(timer_cursor_ == TimerKey::highest()) &&
			   (timer_.size() <= timer_.capacity() / 2 ||
				timer_cursor_ < timer_.min().timer_key() || hides_due());
	}

	Key begin_window_refill(int64_t now)
	{
		assert(!window_refill_.active);
		fire(now);
		horizon_.begin_refill(cursor_, due_line_);
		return begin_sweep();
	}

	/* File a row that the refill has read. If the clock was set back since, the row may not be due any more. */
	void merge_window_row(const Hint &hint)
	{
		assert(window_refill_.active);
		file(hint);
	}

	/* End the refill. end: the first key that was not merged. */
	void finish_window_refill(const Key &end)
	{
		finish_sweep(end);
		horizon_.end_refill(end);
	}

	void abandon_window_refill() { finish_window_refill(window_refill_.start); }

	TimerKey begin_timer_refill(int64_t now)
	{
		assert(!timer_refill_.active);
		fire(now);
		timer_pulled_ = false;
		return begin_refill(timer_refill_, timer_cursor_);
	}

	void merge_timer_row(const Hint &hint)
	{
		assert(timer_refill_.active);
		file(hint);
	}

	void finish_timer_refill(const TimerKey &end)
	{
		finish_refill(timer_refill_, timer_cursor_, end);
		timer_read_ = !(rules().any() && timer_pulled_);
		late_refills_ = timer_cursor_.run_at <= due_line_ ? late_refills_ + 1 : 0;
		hand_over_due();
	}

	void abandon_timer_refill()
	{
		finish_refill(timer_refill_, timer_cursor_, timer_refill_.start);
		hand_over_due();
	}

	/*
	 * End a visit. rows: rows of the group without a lease, from visit.from on, in key order. next: from this key on, memory may
	 * lack rows. head: in a queue with fifo, the job_id of the group's head, even if the head has a lease; INT64_MAX: none.
	 */
	void finish_visit(const Visit &visit, Hint *rows, int n, const Key &next, int64_t head)
	{
		n = file_timed(rows, n);
		ReadyJobs::finish_visit(visit, rows, n, next, head);
	}

	/* Take over the next group of a step, with rows as in finish_visit(). Return false if later groups must not be taken. */
	bool take_group(const LapStep &step, int64_t group, Hint *rows, int n, const Key &next)
	{
		n = file_timed(rows, n);
		return ReadyJobs::take_group(step, group, rows, n, next);
	}

	bool due(const Hint &hint) const { return hint.key.run_at <= due_line_ || !hint.delayed; }
	int64_t due_line() const { return due_line_; }
	const Horizon &survey() const { return horizon_; }
	const Timer &timer() const { return timer_; }
	const TimerKey &timer_cursor() const { return timer_cursor_; }
	bool timer_refill_active() const { return timer_refill_.active; }
	bool timer_read() const { return timer_read_; }
	bool timer_pulled() const { return timer_pulled_; }
	int late_refills() const { return late_refills_; }

private:
	/* Go back to `now`, and read all rows again. Jobs that were due when enqueued may have a run_at up to the old due line. */
	void rewind(int64_t now)
	{
		doubt_horizon(due_line_);
		due_line_ = now;
		oldest_beyond_.forget();
		read_all_again();
		timer_.clear();
		lower(timer_refill_, timer_cursor_, {due_line_ + 1, INT64_MIN});
	}

	/* Move the due rows to the front, in their order, and file the other rows in the timer. Returns the number of due rows. */
	int file_timed(Hint *rows, int n)
	{
		int ready = 0;
		for (int i = 0; i < n; i++)
		{
			note_met(rows[i]);
			if (due(rows[i]))
				rows[ready++] = rows[i];
			else
				insert_timed(rows[i]);
		}
		/* Jobs that have become due since the reading began may have a higher priority than look_at_step() knows. */
		for (int i = 0; i < ready; i++)
			turns_.note_ready(rows[i].key.priority);
		return ready;
	}

	void insert_timed(const Hint &hint)
	{
		if (hint.timer_key() < timer_cursor_)
			insert_smallest<ByRunAt>(timer_, hint, [this](const Hint &h) {
				lower(timer_refill_, timer_cursor_, h.timer_key());
			});
	}

	/*
	 * If the due line has passed the timer cursor, rows between the cursor and the line are ready now. Let a refill of the window
	 * find these rows by their key. In a queue with rules for groups, that refill could meet many rows of groups without room. So
	 * in such a queue a refill of the timer reads the rows between cursor and line, and until then no job goes out
	 * (hides_due()). But if kLateRefills consecutive refills of the timer have not got past the due line, many rows have
	 * become due at once, and a refill of the window finds these rows.
	 */
	void hand_over_due()
	{
		if (timer_cursor_.run_at > due_line_)
			return;
		/*
		 * Before the first timer refill, the timer cursor is at -infinity because rows were not read yet, not because time has
		 * passed.
		 */
		handed_over_ |= timer_read_;
		if (timer_read_ && rules().any() && late_refills_ < kLateRefills)
			return;
		late_refills_ = 0;
		/* With rules for groups, do this only once: from now on refills of the timer read the rows that the due line passes. */
		timer_read_ |= rules().any();
		timer_cursor_ = {due_line_ + 1, INT64_MIN};
		oldest_beyond_.forget();
		lower_cursor(Key::lowest());
	}

	static constexpr int kLateRefills = 4;

	OldestReady oldest_beyond_; /* oldest job of the priorities of which the window may lack jobs */
	Timer timer_;				/* T */
	TimerKey timer_cursor_;		/* TC */
	Refill<TimerKey> timer_refill_;
	int64_t due_line_; /* D */
	int64_t slack_;
	Horizon horizon_;
	uint32_t fired_;
	int late_refills_; /* number of consecutive timer refills, up to the last one, that did not get past the due line */
	bool handed_over_;
	bool
		timer_read_; /* timer refill, or hand_over_due(), since the last pull_back() to the lowest key */
	bool timer_pulled_; /* pull_back() to the lowest key since the last timer refill began */
};
static_assert(std::is_trivially_copyable_v<Schedule>);

} // namespace pgq
