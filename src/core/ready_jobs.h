/*
 * The ready jobs of one queue: window, cursor, and the groups that are passed over. A part of the Schedule, which says
 * what is ready and what all this must hold.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/cursor.h"
#include "core/groups.h"
#include "core/ordered_set.h"

namespace pgq {

class ReadyJobs
{
public:
	using Window = OrderedSet<Hint, ByKey>;

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
		return !window_refill_.active && !(cursor_ == Key::highest()) &&
			   (window_.size() <= window_.capacity() / 2 || cursor_ < window_.min().key);
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
		Group *group = enter_group(hint.group);
		if (group == nullptr)
			return Admission::kNoEntry;
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
		groups_.occupy(group, claiming);
		if (groups_.rules().fifo)
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
		if (enter_group(hint.group) == nullptr)
			return false;
		took(hint, claiming);
		return true;
	}

	/* A job of the group is not in work any more. Those with this hint, or before it, may be to do. */
	void release_group(int64_t id, bool claiming = false)
	{
		if (Group *group = groups_.find(id))
			groups_.release(group, claiming);
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
		if (id == 0 || groups_.has_others_aside(id))
			return;
		Group *group = groups_.rules().fifo ? enter_group(id) : groups_.find(id);
		if (group == nullptr && groups_.rules().fifo)
			lower_cursor(Key::lowest());
		if (group == nullptr)
			return;
		if (groups_.rules().fifo && !group->aside)
			groups_.set_aside(group, Key::lowest());
		groups_.look_again(group);
	}

	/* To be asked if nothing can be popped: is there a group to probe? */
	bool wants_probes() const { return groups_.any_pending() && groups_.probing() == 0; }

	int begin_probes(Probe *probes, int most) { return groups_.begin_probes(probes, most); }

	void abandon_probes() { groups_.abandon_probes(); }

	/* Everything is to be read again. */
	void change_group_rules(const GroupRules &rules, int64_t now)
	{
		groups_.change_rules(rules, now);
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

	Groups &groups() { return groups_; }
	const Groups &groups() const { return groups_; }

protected:
	void init(Window::Node *window, uint32_t window_size)
	{
		window_.init(window, window_size);
		groups_.init();
	}
	void reset(const GroupRules &rules)
	{
		groups_.reset(rules);
		window_.clear();
		cursor_ = Key::lowest();
		window_refill_.active = false;
	}

	/* Rows from this key on are not in memory, perhaps. */
	void lower_cursor(const Key &key) { lower(window_refill_, cursor_, key); }

	/* Of a rewind: those that were due are not, perhaps. */
	void read_all_again()
	{
		window_.clear();
		groups_.end_all_aside();
		lower_cursor(Key::lowest());
	}

	/* Are there perhaps ready rows before this one which are not in memory? */
	bool begins_before(const Key &key) const
	{
		return window_refill_.active ? !(key < known_to(window_refill_, cursor_)) : cursor_ < key;
	}

	/* False: it waits for its group. */
	bool insert_ready(const Hint &hint)
	{
		if (Group *group = groups_.find_aside(hint.group))
			return groups_.meet(group, hint);
		if (groups_.meet_others(hint))
			return false;
		insert_in_window(hint);
		return true;
	}

	void insert_in_window(const Hint &hint)
	{
		if (hint.key < cursor_)
			insert_smallest<ByKey>(window_, hint, [this](const Hint &h) { leave_out(h); });
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
			if (groups_.position_of(rows[i]) < group->cursor)
				found |= file(rows[i]);
		if (group->cursor == Key::highest() || has_caught_up(group))
			groups_.end_aside(group);
		else if (!found && !groups_.rules().fifo)
			groups_.look_again(group);
	}

	Window window_; /* W */
	Key cursor_;	/* C */
	Refill<Key> window_refill_;
	Groups groups_;

private:
	/* It does not fit into the window: a cursor is pulled back to it. */
	void leave_out(const Hint &hint)
	{
		Group *group = groups_.find_aside(hint.group);
		if (group != nullptr && !groups_.rules().fifo)
			(void) groups_.meet(group, hint);
		else
			lower_cursor(hint.key);
	}

	static Key after(const Hint &hint) { return {0, 0, hint.key.job_id + 1}; }

	/*
	 * An entry is given up for it if need be; what its cursor covered is to be read again. In a queue with fifo that
	 * costs little: one of many is given up before there is need. One that waits for its rate is the last to go.
	 */
	Group *enter_group(int64_t id)
	{
		static constexpr int kMany = 1024;
		bool spare_one = groups_.rules().fifo && groups_.size() >= kMany;
		if (groups_.rates().keeps_enough())
			if (Group *group = groups_.enter_instead(id))
				return group;
		if (!spare_one || groups_.find(id) != nullptr)
			if (Group *group = groups_.enter(id))
				return group;
		Group *idle = groups_.next_idle();
		if (idle != nullptr && !groups_.rules().fifo)
			lower_cursor(idle->cursor);
		if (idle != nullptr)
			groups_.end_aside(idle);
		if (groups_.spares() > 0)
			return groups_.enter(id);
		if (Group *group = groups_.enter_instead(id))
			return group;
		return groups_.rules().fifo ? nullptr : enter_instead_of_pending(id);
	}

	/* Its candidates might find no place in the window for what has no entry. */
	Group *enter_instead_of_pending(int64_t id)
	{
		Group *pending = groups_.last_pending();
		if (pending == nullptr)
			return nullptr;
		lower_cursor(pending->cursor);
		groups_.end_aside(pending);
		return groups_.enter_instead(id);
	}

	/*
	 * All its rows from its cursor on are beyond the window's, too. While a refill is under way nobody knows: it has passed
	 * over rows of the group that it read. And a cursor of a queue with fifo says nothing of keys.
	 */
	bool has_caught_up(const Group *group) const
	{
		return !groups_.rules().fifo && !window_refill_.active && !(group->cursor < cursor_);
	}
};

} // namespace pgq
