/*
 * Groups: which jobs of a queue are passed over because enough of their group are in work.
 *
 * A group that has been passed over is aside: from its cursor on its ready rows need not be in the window. When it has
 * room again it is pending: somebody probes it, that is, reads its next rows from the table. An entry is there while jobs
 * of the group run or it is aside; most groups have none.
 *
 * What a cursor goes by is a position: in a queue with fifo the job's id, since there only the first job of a group, its
 * head, may go out; otherwise the key.
 *
 * In a queue with fair a group whose jobs do not all fit into the window is aside from the first that does not, and
 * pending when it has none there. Groups that wait are probed in the order in which they came to, first those whose jobs
 * have the highest priority.
 *
 * A probe goes as a refill does: begin takes the cursor away (+infinity), the caller reads without any lock, finish puts
 * it back. What is filed meanwhile lowers `lowest`. One that does not finish is abandoned: the cursor goes back to its start.
 *
 * Pure and unlocked: part of the Schedule, whose owner holds the queue's lock around every call. Entries are given by the
 * owner, too: group_entries.h. Those that wait: waiting_groups.h.
 */
#pragma once

#include "core/waiting_groups.h"
#include "core/window.h"

namespace pgq {

class Groups : public WaitingGroups
{
public:
	/* No entries, and no spare ones. The window is the queue's. */
	void init(const Window *window)
	{
		window_ = window;
		GroupEntries::init();
		reset({});
	}

	/* Those that there were are spare. */
	void reset(const GroupRules &rules) { WaitingGroups::reset(rules); }

	/* ---- entries ---- */

	/* The entry of that group, which may be new. NULL: there is no spare one. */
	Group *enter(int64_t id)
	{
		Group *group = find(id);
		if (group != nullptr)
			rates_.stop_fading(group);
		if (group != nullptr || (group = add(id)) == nullptr)
			return group;
		/* It was one of those. */
		if (rates_.others_are_aside())
			set_aside(group, rates_.others_cursor());
		return group;
	}

	/*
	 * The same, but if there is no spare one, one is given up that is known for its rate only, or waits for it. NULL: there
	 * is none of those.
	 */
	Group *enter_instead(int64_t id)
	{
		Group *other = find(id) == nullptr ? rates_.first_to_give_up() : nullptr;
		if (other == nullptr)
			return enter(id);
		SmallRate starts = other->rate.starts;
		bool aside = other->aside;
		Key cursor = others_position(other->cursor);
		remove(other);
		Group *group = enter(id);
		rates_.add_to_others(starts);
		if (aside)
			rates_.set_others_aside(cursor);
		return group;
	}

	/* So many have started at that time, before it was known; none before that, if it has no entry. */
	void add_starts(int64_t id, int32_t n, int64_t when)
	{
		bool is_new = find(id) == nullptr;
		Group *group = enter(id);
		if (group == nullptr)
			return rates_.add_others(n, when);
		if (is_new)
			group->rate.starts.restart(rules_.period, when);
		group->rate.starts.note(std::min(n, INT32_MAX - group->rate.starts.started(when)), when);
		leave_if_unused(group);
	}

	/* Is it of use any more? */
	void leave_if_unused(Group *group)
	{
		if (group->running > 0 || group->aside || rates_.keep(group))
			return;
		remove(group);
	}

	/* Whatever was known of it. */
	void remove(Group *group)
	{
		stop_being_aside(group);
		erase(group);
	}

	/*
	 * An entry that may be given up: aside, with room, and not waiting, but perhaps for its turn (fair). Looks at some only,
	 * each time at others. NULL: none of those.
	 */
	Group *next_idle()
	{
		return next_that([this](Group *group) {
			bool waits = group->pending && (!rules_.fair || in_order(group->id));
			return group->aside && group->running == 0 && !waits && !group->probing && room(group);
		});
	}

	/* ---- what the schedule asks ---- */

	/* How many more of its jobs may be claimed. */
	int32_t room(Group *group) const
	{
		if (group->id == 0)
			return INT32_MAX;
		return std::min(std::max(rules_.most() - group->running, 0), rates_.room(group));
	}

	/* Jobs of the group below this id have ended, or are filed when they come. */
	int64_t floor_of(int64_t id) const
	{
		const Group *group = find_aside(id);
		return group != nullptr && !group->probing ? group->floor : INT64_MIN;
	}

	/* Does the group's cursor cover it? */
	bool cover(const Hint &hint) const
	{
		const Group *group = find_aside(hint.group);
		if (group == nullptr)
			return has_others_aside(hint.group) && !(hint.key < rates_.others_cursor());
		return !(position_of(hint) < group->known());
	}

	/* ---- what becomes of a group ---- */

	/* Rows from this position on are to be found by probes. */
	void set_aside(Group *group, const Key &position)
	{
		if (!group->aside)
		{
			rates_.stop_fading(group);
			group->aside = true;
			group->cursor = position;
			group->floor = INT64_MIN;
		}
		else
			lower(group, position);
		look_at_rate(group);
	}

	/* A row of a group that is aside has come, or is not in the window any more. False: its group's cursor covers it, for now. */
	bool meet(Group *group, const Hint &hint)
	{
		Key position = position_of(hint);
		lower_floor(group, hint.key.job_id);
		raise_rank(group, hint.key.priority);
		/* A probe that is under way may have read beyond it. */
		if (!group->probing && !(position < group->cursor))
			return false;
		lower(group, position);
		if (!group->probing && room(group))
			become_pending(group);
		return true;
	}

	/* There is this row, due or not. */
	void lower_floor(Group *group, int64_t job_id)
	{
		if (job_id < group->floor)
			group->floor = job_id;
	}

	/* There may be rows that are filed later than others that come after them. */
	void forget_floors()
	{
		for_each([](Group *group) { group->floor = INT64_MIN; });
	}

	/* If it is aside and has room, it is to be probed. A probe that is under way may have read before. rank: see Group. */
	void look_again(Group *group, int32_t rank = INT32_MAX)
	{
		if (group->probing)
			group->again = true;
		else if (!group->aside || !room(group))
			look_at_rate(group);
		else if (!has_candidate(group))
			become_pending(group, rank);
	}

	/* claiming: by a claim, which has not handed it out yet. */
	void occupy(Group *group, bool claiming)
	{
		busy_ += group->running++ == 0;
		group->rate.claiming += claiming;
	}
	void release(Group *group, bool claiming)
	{
		assert(group->running > 0 && group->rate.claiming >= claiming);
		busy_ -= --group->running == 0;
		group->rate.claiming -= claiming;
		look_again(group);
		leave_if_unused(group);
	}

	/* ---- rates ---- */

	/* Groups whose time has come, some of them, are to be probed; those that are known for nothing any more are not known. */
	void let_time_pass(int64_t now)
	{
		static constexpr int kAtOnce = 64;
		rates_.pass(now);
		Group *group;
		for (int i = 0; i < kAtOnce && (group = rates_.take_due()) != nullptr; i++)
			look_again(group);
		for (int i = 0; i < kAtOnce && (group = rates_.take_faded()) != nullptr; i++)
			leave_if_unused(group);
	}

	/* A job of it is handed out; counted: it is one of those that claims have. */
	void note_start(int64_t id, bool counted)
	{
		Group *group = find(id);
		if (group == nullptr)
			return rates_.note_other();
		group->rate.claiming -= counted;
		if (!rates_.on())
			return;
		group->rate.starts.note(1, rates_.now());
		look_at_rate(group);
	}

	/* ---- probes ---- */

	/* Begin to probe the most urgent ones. Returns how many. */
	int begin_probes(Probe *probes, int most)
	{
		int n = 0;
		assert(probing() == 0);
		while (n < most && any_pending())
		{
			Group *group = first_pending();
			if (!room(group))
			{
				wait_no_more(group);
				look_at_rate(group);
				continue;
			}
			begin_probe(group);
			probes[n++] = {group->id, group->start, group->floor, room_of(group)};
			group->floor = INT64_MAX;
		}
		return n;
	}

	/*
	 * next: the first position that was not looked at. head, in a fifo queue: the job that is the first of the group, if
	 * there is one. The rows that were found are filed after this. NULL: the group has been given up meanwhile.
	 */
	Group *finish_probe(int64_t id, const Key &next, int64_t head)
	{
		Group *group = find(id);
		if (group == nullptr || !group->probing)
			return nullptr;
		end_probe(group, next);
		lower_floor(group, head);
		if (group->lowest < next || group->again)
			look_again(group);
		else
			look_at_rate(group);
		return group;
	}

	/* All that are under way: nothing is known. */
	void abandon_probes()
	{
		for_each_probing([&](Group *group) {
			end_probe(group, group->start);
			group->floor = INT64_MIN;
			look_again(group);
		});
	}

	/* Its rows are all to be met as others are. */
	void end_aside(Group *group)
	{
		stop_being_aside(group);
		leave_if_unused(group);
	}

	/* All rows are read again. */
	void end_all_aside()
	{
		for_each([&](Group *group) { end_aside(group); });
		rates_.end_others_aside();
	}

	/* What was aside by the old ones is not any more. */
	void change_rules(const GroupRules &rules, int64_t now)
	{
		GroupRules old = rules_;
		rates_.pass(now);
		end_all_aside();
		rules_ = rules;
		rates_.change(old, rules);
		for_each([&](Group *group) {
			rates_.adjust(&group->rate.starts, old, rules);
			leave_if_unused(group);
		});
	}

private:
	/* In a queue with fair: may jobs of it go out before those that it is aside for? Then there is no hurry. */
	bool has_candidate(const Group *group) const
	{
		return rules_.fair && !in_order(group->id) &&
			   window_->holds(group->cursor.priority, group->id);
	}

	/* How many rows are wanted. In a queue with fair those that wait share the window. */
	int32_t room_of(Group *group) const
	{
		if (!rules_.fair)
			return room(group);
		uint32_t groups = window_->groups() + static_cast<uint32_t>(waiting_count()) + 1;
		return std::min(room(group), static_cast<int32_t>(window_->capacity() / groups) + 1);
	}

	void stop_being_aside(Group *group)
	{
		wait_no_more(group);
		rates_.stop_timing(group);
		group->aside = false;
	}

	void become_pending(Group *group, int32_t rank = INT32_MAX)
	{
		raise_rank(group, rank);
		if (group->pending)
			return;
		rates_.stop_timing(group);
		wait_for_probe(group, rank);
	}

	/* Is it aside for nothing but its rate? Then time will tell. */
	void look_at_rate(Group *group)
	{
		if (!rates_.on() || !group->aside)
			return;
		bool waits = !group->pending && !group->probing && group->running < rules_.most() &&
					 rates_.room(group) == 0;
		if (waits)
			rates_.throttle(group);
		else
			rates_.stop_timing(group);
	}

	const Window *window_;
};

} // namespace pgq
