/*
 * A cache of the heads of groups, in a queue with fifo. A group that is pushed out of the cache only costs look-ups.
 *
 * Of each group the cache has a floor: jobs with a smaller id have ended, or will be filed when their transactions commit. A visit
 * that finds the head sets the floor to the id of the head. Then the head is known, until a job of the group ends or changes.
 * Memory may drop the jobs behind a known head: the end of the head makes a process look for the next one.
 *
 * Pure and unlocked: part of ReadyJobs.
 */
#pragma once

#include "core/key.h"

#include <algorithm>
#include <cstdint>

namespace pgq {

class Heads
{
public:
	void forget()
	{
		for (Slot &slot : slots_)
			slot = {};
	}

	/* Return the job_id from which on the head of the group is to be looked for. */
	int64_t floor_of(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group == group ? slot.floor : INT64_MIN;
	}

	/* Return whether the head of the group is known: the floor is its id. */
	bool knows(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group == group && slot.known;
	}
	/* Return the smallest id that was filed since the visit began; INT64_MIN: doubt() was called since then. */
	int64_t lowest_of(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group != group ? INT64_MAX : slot.again ? INT64_MIN : slot.lowest;
	}

	/* Return whether the job is behind the known head of its group. */
	bool hide(const Hint &hint) const
	{
		const Slot &slot = slots_[index_of(hint.group)];
		return slot.group == hint.group && slot.known && hint.key.job_id > slot.floor;
	}

	/* Note that a row with this hint was filed, due or not. */
	void note(const Hint &hint)
	{
		Slot &slot = slots_[index_of(hint.group)];
		if (slot.group != hint.group)
			return;
		slot.known &= hint.key.job_id >= slot.floor;
		slot.floor = std::min(slot.floor, hint.key.job_id);
		slot.lowest = std::min(slot.lowest, hint.key.job_id);
	}

	/* Note that the group may have another head now. */
	void doubt(int64_t group)
	{
		Slot &slot = slots_[index_of(group)];
		if (slot.group != group)
			return;
		slot.known = false;
		slot.again = true;
	}

	/* Begin a visit, which looks for the head. Return the floor. */
	int64_t begin_visit(int64_t group)
	{
		Slot &slot = slots_[index_of(group)];
		if (slot.group != group)
			slot = {.group = group};
		slot.known = slot.again = false;
		slot.lowest = INT64_MAX;
		return slot.floor;
	}

	/* End the visit, which has found this head. The head is known unless a row was filed before it, or doubt() was called. */
	void end_visit(int64_t group, int64_t head)
	{
		Slot &slot = slots_[index_of(group)];
		if (slot.group != group)
			return;
		slot.floor = std::min(slot.lowest, head);
		slot.known = slot.lowest >= head && !slot.again;
	}

private:
	static constexpr int kSlots = 64;

	struct Slot
	{
		int64_t group;
		int64_t floor = INT64_MIN;
		int64_t lowest = INT64_MAX; /* smallest id that was filed since the visit began */
		bool known = false;			/* floor is the id of the head */
		bool again = false;			/* doubt() was called since the visit began */
	};
	/* The ids of groups are hashes, so their last bits are evenly distributed. */
	static int index_of(int64_t group) { return static_cast<int>(group & (kSlots - 1)); }

	Slot slots_[kSlots];
};

} // namespace pgq
