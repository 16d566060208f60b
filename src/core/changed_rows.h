/*
 * Rows of a queue that were inserted or changed, and whose hints were not filed: memory may lack
 * these rows. Only the smallest keys are kept, of all rows together and of the rows of each group,
 * for a few groups. Schedule::pull_back() lets claims read rows from these keys on. Takes no lock:
 * the owner of such a record says which lock protects it.
 */
#pragma once

#include "core/key.h"

#include <algorithm>

namespace pgq {

struct ChangedRows
{
	static constexpr int kGroupsMax = 8;
	static constexpr int kTooMany = kGroupsMax + 1;

	Key key;			/* smallest key of the rows that are not delayed (Hint::delayed) */
	TimerKey timer_key; /* smallest timer key of the delayed rows */
	int64_t horizon;	/* latest run_at of the rows that are not delayed */
	int32_t groups;		/* number of groups that the rows have, group 0 included; or kTooMany */
	struct
	{
		int64_t group;
		Key key;	  /* like ChangedRows::key, of the group's rows */
	} of[kGroupsMax]; /* the groups, unless there are too many */

	static constexpr ChangedRows none()
	{
		ChangedRows rows{};
		rows.key = Key::highest();
		rows.timer_key = TimerKey::highest();
		rows.horizon = INT64_MIN;
		return rows;
	}

	/* Return a record of all rows of the group, or of all rows of the queue. */
	static constexpr ChangedRows all_of(int64_t group)
	{
		ChangedRows rows = none();
		rows.add(group, Key::lowest());
		rows.timer_key = TimerKey::lowest();
		return rows;
	}
	static constexpr ChangedRows all()
	{
		ChangedRows rows = all_of(0);
		rows.groups = kTooMany;
		return rows;
	}

	constexpr bool knows_groups() const { return groups != kTooMany; }

	void add(const Hint &hint)
	{
		if (hint.delayed)
			timer_key = std::min(timer_key, hint.timer_key());
		else
			horizon = std::max(horizon, hint.key.run_at);
		add(hint.group, hint.delayed ? Key::highest() : hint.key);
	}

	/* Add rows of a group that are not delayed. from: a bound of their keys; +infinity: there are only delayed rows. */
	constexpr void add(int64_t group, const Key &from)
	{
		key = std::min(key, from);
		if (!knows_groups())
			return;
		int i = 0;
		while (i < groups && of[i].group != group)
			i++;
		if (i == kGroupsMax)
		{
			groups = kTooMany;
			return;
		}
		of[i] = {group, i < groups ? std::min(of[i].key, from) : from};
		groups = std::max(groups, i + 1);
	}

	void add(const ChangedRows &other)
	{
		key = std::min(key, other.key);
		timer_key = std::min(timer_key, other.timer_key);
		horizon = std::max(horizon, other.horizon);
		if (!other.knows_groups())
			groups = kTooMany;
		for (int i = 0; i < other.groups && knows_groups(); i++)
			add(other.of[i].group, other.of[i].key);
	}
};

} // namespace pgq
