/*
 * The ready jobs of one queue: window, cursor, and the groups that are passed over. A part of the Schedule, which says
 * what is ready and what all this must hold.
 *
 * In a queue with fair the window has jobs of as many groups as it can. A job may go out if those of a higher priority
 * are known, and of its own priority those of all groups, or so many that they fill half of the window. So a sweep of
 * the refills goes on, beyond jobs of groups that are aside, until it has found that many, or the last row. What it
 * leaves behind without a group being aside for it (there was no entry) waits for another one: the sweep does not go
 * back but for a higher priority, or groups that come late would never have their turn.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/groups.h"
#include "core/window.h"

#include <utility>

namespace pgq {

class ReadyJobs
{
public:
	using Window = pgq::Window;

	const Window &window() const { return window_; }
	const Key &cursor() const { return cursor_; }
	bool window_refill_active() const { return window_refill_.active; }
	bool ready_beyond_window() const
	{
		return window_refill_.active || !(cursor_ == Key::highest());
	}

	/* A refill is worth while: nothing can be popped although rows may be there. */
	bool wants_window_refill() const
	{
		if (window_refill_.active || cursor_ == Key::highest())
			return false;
		return window_.size() <= window_.capacity() / 2 ||
			   (fair() ? comes_before_turns() : cursor_ < window_.first());
	}

	/* ---- groups: of a queue that has rules for them ---- */

	enum class Admission : uint8_t
	{
		kGo,
		kPassedOver, /* its group has no room, or knows a job that comes first */
		kNoEntry,	 /* there is none for its group: the hint is to be filed again */
	};

	/* May the job whose hint was just popped go out? If so, its lease is taken or not: took, or left. */
	Admission admit(const Hint &hint)
	{
		if (groups_.hold_back(hint))
			return Admission::kPassedOver;
		bool counts = groups_.rules().count() && hint.group != 0;
		Group *group = counts ? enter_to_run(hint.group) : groups_.find(hint.group);
		if (group == nullptr)
			return counts ? Admission::kNoEntry : Admission::kGo;
		Key position = groups_.position_of(hint);
		if (!groups_.room(group))
		{
			groups_.set_aside(group, position);
			return Admission::kPassedOver;
		}
		if (group->aside && !(position < group->known()))
		{
			groups_.look_again(group);
			return Admission::kPassedOver;
		}
		return Admission::kGo;
	}

	/* The group has a job more in work. In a queue with fifo all others wait for it. */
	void took(const Hint &hint, bool claiming = true)
	{
		Group *group = groups_.find(hint.group);
		if (group == nullptr)
			return;
		if (groups_.rules().count() && hint.group != 0)
			groups_.occupy(group, claiming);
		if (groups_.in_order(hint.group))
			groups_.set_aside(group, after(hint));
		groups_.look_again(group);
	}
	void left(const Hint &hint)
	{
		if (Group *group = groups_.find(hint.group))
		{
			groups_.look_again(group);
			groups_.leave_if_unused(group);
		}
	}

	/* The same for a job that is in work already. False: there is no entry. */
	bool count_running(const Hint &hint, bool claiming = false)
	{
		Group *group = enter_to_run(hint.group);
		if (group != nullptr)
			took(hint, claiming);
		return group != nullptr;
	}

	/* A job of the group is not in work any more. Those with this hint, or before it, may be to do. */
	void release_group(int64_t id, bool claiming = false)
	{
		if (Group *group = groups_.find(id))
			groups_.release(group, claiming);
	}

	/* A job that was handed out has ended. If too many groups wait, one loses its entry (protocol: short-claims-end). */
	void let_fewer_wait()
	{
		if (!fair() && groups_.has_too_many_aside() && !give_up_idle())
			(void) give_up_pending();
	}

	/* It was in its group's way, or is: not the first one of a queue with fifo. */
	void pass_over(const Hint &hint)
	{
		if (Group *group = groups_.find(hint.group))
			groups_.set_aside(group, groups_.position_of(hint));
	}

	/* A row of the group is gone. Whatever it was, in a queue with fifo another one may be the first now. */
	void look_at_group(int64_t id)
	{
		if (groups_.has_others_aside(id))
			return;
		bool in_order = groups_.in_order(id);
		Group *group = in_order ? enter_group(id) : groups_.find(id);
		if (group == nullptr && in_order)
			lower_cursor(Key::lowest());
		if (group != nullptr && in_order && !group->aside)
			groups_.set_aside(group, Key::lowest());
		if (group != nullptr)
			groups_.look_again(group);
	}

	/* To be asked if nothing can be popped: is there a group to probe? In a queue with fair, sweep and groups take turns. */
	bool wants_probes() const
	{
		return groups_.any_pending() && groups_.probing() == 0 &&
			   !(fair() && sweep_is_next_ && wants_window_refill());
	}

	int begin_probes(Probe *probes, int most)
	{
		sweep_is_next_ = true;
		return groups_.begin_probes(probes, most);
	}

	void abandon_probes() { groups_.abandon_probes(); }

	/* Everything is to be read again. */
	void change_group_rules(const GroupRules &rules, int64_t now)
	{
		bool turns = rules.fair != fair();
		groups_.change_rules(rules, now);
		if (turns)
			window_.reset(rules.fair);
		lower_cursor(Key::lowest());
	}

	/* On the monotonic clock. Groups may have room by that. True: more rows are to be read by it. */
	bool let_time_pass(int64_t now)
	{
		Key from;
		groups_.let_time_pass(now);
		if (!groups_.rates().others_may_go_on(&from))
			return false;
		lower_cursor(from);
		return true;
	}

	/* In a queue with fair: from here on rows are left for the next sweep; +infinity: none. */
	const Key &left_behind() const { return left_behind_; }
	bool crowded() const { return crowded_; }
	bool sweep_is_next() const { return sweep_is_next_; }

	Groups &groups() { return groups_; }
	const Groups &groups() const { return groups_; }

protected:
	void init(Window::Node *window, uint32_t window_size)
	{
		window_.init(window, window_size);
		groups_.init(&window_);
	}
	void reset(const GroupRules &rules)
	{
		groups_.reset(rules);
		window_.reset(rules.fair);
		cursor_ = Key::lowest();
		left_behind_ = Key::highest();
		crowded_ = sweep_is_next_ = false;
		window_refill_.active = false;
	}

	bool fair() const { return groups_.rules().fair; }

	/* Rows from this key on are not in memory, perhaps. */
	void lower_cursor(const Key &key)
	{
		if (!fair() || window_refill_.active || cursor_ == Key::highest() ||
			key.priority > cursor_.priority)
			lower(window_refill_, cursor_, key);
		else if (key < cursor_)
			leave_behind(key);
	}

	/* May rows with this key be there that are not in memory? */
	bool is_beyond_window(const Key &key) const
	{
		return !(key < known_to(window_refill_, cursor_)) || !(key < left_behind_);
	}

	Key begin_sweep()
	{
		sweep_is_next_ = false;
		crowded_ &= window_.size() > window_.capacity() / 2;
		return begin_refill(window_refill_, cursor_);
	}

	/* end: the first key that was not merged. What is behind is the next sweep's. */
	void finish_sweep(const Key &end)
	{
		if (fair())
		{
			if (window_refill_.lowest < end)
				leave_behind(window_refill_.lowest);
			window_refill_.lowest = end;
		}
		finish_refill(window_refill_, cursor_, end);
		begin_another_sweep();
	}

	/* Of a rewind: those that were due are not, perhaps. */
	void read_all_again()
	{
		window_.clear();
		groups_.end_all_aside();
		lower_cursor(Key::lowest());
	}

	/* Is something to be read before the first of the window may go out? */
	bool comes_before_window() const
	{
		if (fair())
			return comes_before_turns() || groups_wait_for_turns();
		const Key &first = window_.first();
		bool rows =
			window_refill_.active ? !(first < known_to(window_refill_, cursor_)) : cursor_ < first;
		return rows || groups_.block(first);
	}

	Hint pop_window()
	{
		groups_.note_pop();
		return window_.pop();
	}

	/* False: it waits for its group. */
	bool insert_ready(const Hint &hint)
	{
		Group *group = groups_.find_aside(hint.group);
		if (group != nullptr && !is_candidate(group, hint))
			return groups_.meet(group, hint);
		if (groups_.meet_others(hint))
			return false;
		insert_in_window(hint);
		return true;
	}

	void insert_in_window(const Hint &hint)
	{
		if (hint.key < cursor_)
			window_.insert(hint, [this](const Hint &h) { leave_out(h); });
	}

	/*
	 * A probe has ended. The candidates that it has found are filed by file, which says whether one is ready.
	 * rows: of the group, from where the probe began, in its order, but those that are leased; as many as there is room.
	 * next: the first position that was not looked at. head: see Groups.
	 */
	template <typename File>
	void finish_probe(int64_t id, const Hint *rows, int n, const Key &next, int64_t head, File file)
	{
		Group *group = groups_.finish_probe(id, next, head);
		if (group == nullptr)
			return;
		bool found = false;
		for (int i = 0; i < n; i++)
		{
			/* For what did not fit its entry may have been given up: then all are met as others are. */
			group = groups_.find_aside(id);
			if (group == nullptr || groups_.position_of(rows[i]) < group->cursor)
				found |= file(rows[i]);
		}
		if ((group = groups_.find_aside(id)) == nullptr)
			return;
		if (group->cursor == Key::highest() || has_caught_up(group))
			groups_.end_aside(group);
		else if (!groups_.in_order(id) && (fair() || !found))
			groups_.look_again(group);
	}

	Window window_; /* W */
	Key cursor_;	/* C */
	Refill<Key> window_refill_;
	/* Of a queue with fair: */
	Key left_behind_; /* of rows before the cursor from here on some are not in memory; +infinity: all are */
	bool crowded_; /* rows were left behind since the window was half empty */
	bool sweep_is_next_;
	Groups groups_;

private:
	/* Rows before the next one, or so few groups of its priority that there is room for more? */
	bool comes_before_turns() const
	{
		const Key &known = known_to(window_refill_, cursor_);
		if (known == Key::highest())
			return false;
		if (known.priority != window_.priority())
			return known.priority > window_.priority();
		return !crowded_ && (window_.wants_groups() || !(window_.next().key < known));
	}

	/* So many pops a group waits, if there are many others. */
	int64_t patience() const { return window_.capacity() / 2 + 1; }

	bool groups_wait_for_turns() const
	{
		return groups_.wait(window_.priority(), window_.wants_groups() ? 0 : patience());
	}

	/* Of a group that is aside: is the window the place for it? */
	bool is_candidate(const Group *group, const Hint &hint) const
	{
		return fair() && !groups_.in_order(hint.group) && !group->probing &&
			   hint.key < group->cursor;
	}

	/* Of a queue with fifo: has a probe found it? */
	bool is_known_head(const Group *group, const Hint &hint) const
	{
		return groups_.in_order(hint.group) && group->aside &&
			   groups_.position_of(hint) < group->cursor;
	}

	/* It does not fit into the window: a cursor is pulled back to it. */
	void leave_out(const Hint &hint)
	{
		Group *group = fair() ? enter_aside(hint.group) : groups_.find_aside(hint.group);
		if (group != nullptr && fair())
		{
			bool known = is_known_head(group, hint);
			bool found_by_probe = known && !group->pending && after(hint) == group->cursor;
			if (found_by_probe && window_.take_place_of_mate(hint))
				return;
			groups_.set_aside(group, groups_.position_of(hint));
			groups_.look_again(group, known ? hint.key.priority : INT32_MAX);
		}
		else if (group != nullptr && !groups_.in_order(hint.group))
			(void) groups_.meet(group, hint);
		else
		{
			crowded_ = true;
			lower_cursor(hint.key);
		}
	}

	void leave_behind(const Key &key) { left_behind_ = std::min(left_behind_, key); }

	/* If this one has come to its end, or to lower priorities than what is behind. */
	void begin_another_sweep()
	{
		bool ended = cursor_ == Key::highest() || cursor_.priority < left_behind_.priority;
		if (ended)
			cursor_ = std::exchange(left_behind_, Key::highest());
	}

	static Key after(const Hint &hint) { return {0, 0, hint.key.job_id + 1}; }

	/*
	 * An entry is given up for it if need be; what its cursor covered is to be read again. In a queue with fifo that
	 * costs little: one of many is given up before there is need. One that waits for its rate is the last to go.
	 */
	Group *enter_group(int64_t id)
	{
		static constexpr int kMany = 1024;
		bool enough = groups_.size() >= kMany || groups_.keeps_enough_aside();
		if (groups_.rates().keeps_enough())
			if (Group *group = groups_.enter_instead(id))
				return group;
		if (!enough || !groups_.in_order(id) || groups_.find(id) != nullptr)
			if (Group *group = groups_.enter(id))
				return group;
		(void) give_up_idle();
		return groups_.spares() > 0 ? groups_.enter(id) : groups_.enter_instead(id);
	}

	bool give_up_idle()
	{
		crowded_ = true;
		Group *idle = groups_.next_idle();
		if (idle == nullptr)
			return false;
		if (!groups_.in_order(idle->id))
			lower_cursor(idle->cursor);
		groups_.end_aside(idle);
		return true;
	}

	/* Where there are enough, in place of another one that is aside. */
	Group *enter_aside(int64_t id)
	{
		if (groups_.keeps_enough_aside() && groups_.find(id) == nullptr && !give_up_idle())
			return nullptr;
		return enter_group(id);
	}

	bool give_up_pending()
	{
		Group *pending = groups_.last_pending();
		if (pending == nullptr)
			return false;
		lower_cursor(groups_.first_key(pending));
		groups_.end_aside(pending);
		return true;
	}

	/* If need be in place of one that waits, whose rows might find no place in a window full of those without an entry. */
	Group *enter_to_run(int64_t id)
	{
		Group *group = enter_group(id);
		return group == nullptr && give_up_pending() ? groups_.enter_instead(id) : group;
	}

	/* All its rows from its cursor on, a key, are beyond the window's, too. A refill has passed over rows of it. */
	bool has_caught_up(const Group *group) const
	{
		return !groups_.in_order(group->id) && !window_refill_.active && !(group->cursor < cursor_);
	}
};

} // namespace pgq
