/*
 * Schedule: which job of one queue is next.
 *
 *   W  window        ready hints below the cursor, in the order of keys, bounded
 *   C  cursor        every ready row at or beyond it may be missing from W
 *   T  timer         hints not yet due below the timer cursor, by run_at, bounded
 *   TC timer_cursor  every row at or beyond it may be missing from T
 *   D  due_line      "now"; it goes back only by a rewind
 *      groups        those that are passed over, each with a cursor of its own: groups.h
 *
 * Invariant.  For every live, unleased row whose inserting transaction has run
 * its callback: if it is due, it is in W, or key >= C, or (run_at, id) >= TC, or at or
 * beyond the cursor of its group; else it is in T, or (run_at, id) >= TC.  (In a queue with
 * fifo that is so for the first row of each group; the others need nothing before they are
 * first, and whatever ends the first has its group looked at.)  A hint too many is always allowed and
 * a cursor pulled back is always correct, only slower: in doubt, pull back.
 *
 * Due means run_at <= D, or "not delayed": the row's run_at is the moment it was
 * enqueued, and no attempt has failed.  Without the second half a job enqueued just
 * before a failover to a machine whose clock is behind would be neither due nor in
 * the index of delayed rows that the timer is filled from.
 *
 * D moves forward, also while the clock is set back a little.  When the clock is more
 * than the slack behind D (it had been wrong, and was corrected), D goes back to it: a
 * rewind.  Rows that were due are not any more, so W and T are emptied, C becomes
 * -infinity and TC the first moment after D.  That keeps the invariant whatever was in
 * memory: a row that is due has key >= C, one that is not is delayed and has
 * (run_at, id) >= TC.  A refill that is under way goes on: its `lowest` is lowered
 * instead, and a row it has read that is not due any more is filed like any other.
 *
 * Rows that are not delayed and have a run_at beyond D are among the others in the
 * order of the index.  A scan looks for them up to the horizon: no such row that was
 * filed or read has a later one, nor, where rows may be there that were neither, one
 * later than the bound that doubt_horizon() was given.  A survey lowers it again: what a
 * refill from -infinity, and those that go on where it ended, have met up to +infinity.
 *
 * A refill reads rows while others go on working, in three steps: begin takes
 * the cursor away (C = +infinity, so that whatever is filed meanwhile is kept),
 * the caller scans without any lock, merge and finish put the rows in and the
 * cursor back.  What is evicted or refused meanwhile lowers `lowest`, never C.
 * A refill that does not finish is abandoned: the cursor goes back to its start.
 * There is one refill of each kind at a time.
 *
 * Pure and unlocked: the owner holds the queue's lock around every call.
 */
#pragma once

#include "core/oldest_ready.h"
#include "core/ready_jobs.h"
#include "core/steady_clock.h"

namespace pgq {

class Schedule : public ReadyJobs
{
public:
	using Timer = OrderedSet<Hint, ByRunAt>;

	/* slack: how far, in microseconds, the clock may be behind the due line. */
	void init(Node *window, uint32_t window_size, Timer::Node *timer, uint32_t timer_size,
			  int64_t slack = kJump)
	{
		ReadyJobs::init(window, window_size);
		timer_.init(timer, timer_size);
		slack_ = slack;
		reset();
	}

	/* Both cursors at -infinity: everything is still to be read from the heap. */
	void reset(const GroupRules &rules = {})
	{
		ReadyJobs::reset(rules);
		oldest_beyond_.forget();
		timer_.clear();
		timer_cursor_ = TimerKey::lowest();
		due_line_ = INT64_MIN;
		horizon_ = INT64_MIN;
		met_ = INT64_MIN;
		surveyed_ = Key::lowest();
		surveying_ = false;
		fired_ = 0;
		handed_over_ = false;
		timer_read_ = false;
		timer_refill_.active = false;
	}

	/* If the clock was set back: rewind. */
	void notice_step_back(int64_t now)
	{
		if (now < due_line_ && due_line_ - now > slack_)
			rewind(now);
	}

	/* Move the due line to the clock, and the timers it passes into the window. */
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

	/* Have rows become due, since this was asked last, that only a refill will bring in? */
	bool take_handed_over()
	{
		bool handed_over = handed_over_;
		handed_over_ = false;
		return handed_over;
	}

	/* Timers that have fired since this was asked last. */
	uint32_t take_fired()
	{
		uint32_t fired = fired_;
		fired_ = 0;
		return fired;
	}

	/*
	 * File a hint where it belongs. True if the job is ready to run, false if
	 * it waits for its time or for its group.
	 */
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

	/* Are there rows that are due, and that nobody has filed? */
	bool hides_due() const { return timer_hides_due(); }

	/*
	 * Is the smallest hint of the window certainly the smallest of all ready rows? One at the cursor itself is: the row
	 * there is the same job's. (With another group, the window may be too small for both.)
	 */
	bool poppable() const { return has_next() && !timer_hides_due(); }

	Hint pop()
	{
		assert(poppable());
		return pop_next();
	}

	/* The job that was just popped cannot be taken by anybody: its hint is filed again, its group keeps its turn. */
	void take_back(const Hint &hint)
	{
		if (fair())
			turns_.return_turn(hint);
		file(hint);
	}

	/* Nothing can be popped, nothing is hidden: there is no ready row, but of groups that have no room. */
	bool exhausted() const { return knows_all() && !timer_hides_due(); }

	/* The jobs that go out before one that is ready, as far as memory knows; not in turn, where that depends on what comes. */
	struct Ahead
	{
		uint32_t jobs;
		bool or_more;
	};
	Ahead ahead_of(const Hint &hint, uint32_t most) const
	{
		bool beyond = !rules().any() && is_beyond_window(hint.key);
		if (fair() || rules().fifo || !window_.contains(hint))
			return {beyond ? std::min(window_.size(), most) : 0, true};
		uint32_t jobs = window_.count_before(hint, most);
		return {jobs, jobs == most};
	}

	bool scheduled_beyond_timer() const
	{
		return timer_refill_.active || !(timer_cursor_ == TimerKey::highest());
	}

	/* run_at at which fire() will have something to do; INT64_MAX: none known. */
	int64_t next_timer() const
	{
		int64_t beyond = known_to(timer_refill_, timer_cursor_).run_at;
		return timer_.empty() || beyond < timer_.min().key.run_at ? beyond
																  : timer_.min().key.run_at;
	}

	/* Up to here a scan looks for jobs that were due when they were enqueued. */
	int64_t horizon() const { return horizon_ > due_line_ ? horizon_ : due_line_; }

	/* There is a job with that run_at that was due when it was enqueued. */
	void raise_horizon(int64_t run_at)
	{
		if (run_at > horizon_)
			horizon_ = run_at;
		if (run_at > met_)
			met_ = run_at;
	}

	/* Of a row that was read but is not kept. */
	void note_met(const Hint &hint)
	{
		if (!hint.delayed)
			raise_horizon(hint.key.run_at);
	}

	/* There may be jobs that were never filed here; those that were due when enqueued have no run_at beyond bound. */
	void doubt_horizon(int64_t bound)
	{
		if (bound > horizon_)
			horizon_ = bound;
		begin_survey();
		surveying_ = false;
	}

	/* Some rows from this key on, or from this run_at on, are not in memory. */
	void pull_back(const Key &key, const TimerKey &timer_key)
	{
		/* Whatever is due is met by the window's scan then. */
		timer_read_ &= !(key == Key::lowest());
		oldest_beyond_.forget();
		lower_cursor(key);
		lower(timer_refill_, timer_cursor_, timer_key);
		if (!timer_refill_.active)
			hand_over_due();
	}

	/*
	 * The invariant, for the hint of a live and unleased row. Only delayed rows are
	 * in the index that the timer is filled from, so its cursor covers no others.
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
	 * An older hint of the same job that comes no later serves as well: whoever pops
	 * it finds the row and files it again. Looks at every entry.
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
				timer_cursor_ < timer_.min().timer_key() || timer_hides_due());
	}

	Key begin_window_refill(int64_t now)
	{
		assert(!window_refill_.active);
		fire(now);
		if (cursor_ == Key::lowest() && horizon_ > due_line_)
			begin_survey();
		surveying_ = !(surveyed_ < cursor_);
		return begin_sweep();
	}

	/* It may have been due only until the clock was set back. */
	void merge_window_row(const Hint &hint)
	{
		assert(window_refill_.active);
		file(hint);
	}

	/* end: the first key that was not merged. */
	void finish_window_refill(const Key &end)
	{
		finish_sweep(end);
		if (surveying_ && surveyed_ < end)
			surveyed_ = end;
		if (surveyed_ == Key::highest())
			horizon_ = met_;
	}

	void abandon_window_refill() { finish_window_refill(window_refill_.start); }

	TimerKey begin_timer_refill(int64_t now)
	{
		assert(!timer_refill_.active);
		fire(now);
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
		timer_read_ = true;
		hand_over_due();
	}

	void abandon_timer_refill()
	{
		finish_refill(timer_refill_, timer_cursor_, timer_refill_.start);
		hand_over_due();
	}

	/*
	 * A visit has ended, or a step of a lap has met the next group. rows: of that group, from where the visit began, in
	 * its order, those that have no lease, as many as were wanted. next: the first key that was not looked at. head: of a
	 * queue with fifo the id of the group's head, whatever became of it; INT64_MAX: there is none.
	 */
	void finish_visit(const Visit &visit, Hint *rows, int n, const Key &next, int64_t head)
	{
		n = file_timed(rows, n);
		ReadyJobs::finish_visit(visit, rows, n, next, head);
	}
	/* False: the step ends here. */
	bool take_group(const LapStep &step, int64_t group, Hint *rows, int n, const Key &next)
	{
		n = file_timed(rows, n);
		return ReadyJobs::take_group(step, group, rows, n, next);
	}

	bool due(const Hint &hint) const { return hint.key.run_at <= due_line_ || !hint.delayed; }
	int64_t due_line() const { return due_line_; }
	int64_t met() const { return met_; }
	const Key &surveyed() const { return surveyed_; }
	bool surveying() const { return surveying_; }
	const Timer &timer() const { return timer_; }
	const TimerKey &timer_cursor() const { return timer_cursor_; }
	bool timer_refill_active() const { return timer_refill_.active; }
	bool timer_read() const { return timer_read_; }

private:
	/* As after a load, but with all that was met. */
	void rewind(int64_t now)
	{
		doubt_horizon(due_line_);
		due_line_ = now;
		oldest_beyond_.forget();
		read_all_again();
		timer_.clear();
		lower(timer_refill_, timer_cursor_, {due_line_ + 1, INT64_MIN});
	}

	void begin_survey()
	{
		surveyed_ = Key::lowest();
		met_ = INT64_MIN;
	}

	/* The rows that are due keep their order, and come first. Returns how many these are; the others go to the timer. */
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
		return ready;
	}

	/* Without a refill, fire() hands over what the cursor hides, or it is for the next one. */
	bool timer_hides_due() const
	{
		return known_to(timer_refill_, timer_cursor_).run_at <= due_line_;
	}

	void insert_timed(const Hint &hint)
	{
		if (hint.timer_key() < timer_cursor_)
			insert_smallest<ByRunAt>(timer_, hint, [this](const Hint &h) {
				lower(timer_refill_, timer_cursor_, h.timer_key());
			});
	}

	/*
	 * The due line has passed the timer cursor: the rows between them are ready
	 * now, and the window's scan finds them by their key. Where there are rules for groups that
	 * could mean to pass over many rows that are not to go out: there a refill of the timer
	 * reads what the due line has passed, and nothing goes out before.
	 */
	void hand_over_due()
	{
		if (timer_cursor_.run_at > due_line_)
			return;
		/* Before the first timer refill the cursor says nothing: that is loading, not time passing. */
		handed_over_ |= timer_read_;
		if (timer_read_ && rules().any())
			return;
		timer_cursor_ = {due_line_ + 1, INT64_MIN};
		oldest_beyond_.forget();
		lower_cursor(Key::lowest());
	}

	OldestReady oldest_beyond_; /* of what the window does not tell of */
	Timer timer_;				/* T */
	TimerKey timer_cursor_;		/* TC */
	Refill<TimerKey> timer_refill_;
	int64_t due_line_; /* D */
	int64_t slack_;
	int64_t horizon_;
	int64_t met_;	 /* greatest run_at that would raise the horizon, since the survey began */
	Key surveyed_;	 /* rows below this key were met since */
	bool surveying_; /* the window refill that is active belongs to the survey */
	uint32_t fired_;
	bool handed_over_;
	bool timer_read_; /* a timer refill has come to its end since the reset */
};
static_assert(std::is_trivially_copyable_v<Schedule>);

} // namespace pgq
