/*
 * The heads of groups of a queue with fifo, as far as they are known: a cache of a fixed size. Losing what it knows costs
 * look-ups, nothing else.
 *
 * Of a group it knows a floor: jobs below that id have ended, or are filed when they come. A visit that has found the
 * head sets the floor to it. Until something of the group ends or changes, the head is known, and jobs behind it may be
 * dropped wherever they are met: whatever ends the head has the group looked at.
 *
 * Pure and unlocked.
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

	/* Jobs of the group below this id need not be looked for. */
	int64_t floor_of(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group == group ? slot.floor : INT64_MIN;
	}

	bool knows(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group == group && slot.known;
	}
	/* INT64_MIN: a visit that is under way will not know the head. */
	int64_t lowest_of(int64_t group) const
	{
		const Slot &slot = slots_[index_of(group)];
		return slot.group != group ? INT64_MAX : slot.again ? INT64_MIN : slot.lowest;
	}

	/* Is that job known to be behind another one? */
	bool hide(const Hint &hint) const
	{
		const Slot &slot = slots_[index_of(hint.group)];
		return slot.group == hint.group && slot.known && hint.key.job_id > slot.floor;
	}

	/* There is this row, due or not. */
	void note(const Hint &hint)
	{
		Slot &slot = slots_[index_of(hint.group)];
		if (slot.group != hint.group)
			return;
		slot.known &= hint.key.job_id >= slot.floor;
		slot.floor = std::min(slot.floor, hint.key.job_id);
		slot.lowest = std::min(slot.lowest, hint.key.job_id);
	}

	/* The head may be another one now. */
	void doubt(int64_t group)
	{
		Slot &slot = slots_[index_of(group)];
		if (slot.group != group)
			return;
		slot.known = false;
		slot.again = true;
	}

	/* A process begins to look for the head. Returns the floor. */
	int64_t begin_visit(int64_t group)
	{
		Slot &slot = slots_[index_of(group)];
		if (slot.group != group)
			slot = {.group = group};
		slot.known = slot.again = false;
		slot.lowest = INT64_MAX;
		return slot.floor;
	}

	/* The process has found that head. */
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
		bool again = false;			/* the head has been doubted since the visit began */
	};
	/* Ids of groups are hashes. */
	static int index_of(int64_t group) { return static_cast<int>(group & (kSlots - 1)); }

	Slot slots_[kSlots];
};

} // namespace pgq
