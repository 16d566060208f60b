/*
 * A cache of the heads of groups, in a queue with fifo. The cache has a slot for as many groups as the window has places. If a
 * group loses its slot, a process only has to look for its head again.
 *
 * Of each group the cache has a floor, which is a job_id: jobs of the group with a smaller id have ended, or will be filed when
 * their transactions commit. A visit that finds the head sets the floor to the id of the head. Then the head is known, until a job
 * of the group ends or changes, or a job with a smaller id is filed. Memory may drop the jobs behind a known head: the end of the
 * head makes a process look for the next head.
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
	struct Slot
	{
		int64_t group;
		int64_t floor;
		int64_t lowest; /* smallest id that was filed since the visit began */
		uint32_t epoch; /* the slot is in use if this is the epoch of the cache */
		bool known;		/* the head is known: its id is `floor` */
		bool again;		/* doubt() was called since the visit began */
		bool idle;		/* the last visit has found no job, and no job was filed since it began */
	};

	/* The slots need not be initialized. */
	void init(Slot *slots, uint32_t n)
	{
		slots_ = slots;
		size_ = n;
		epoch_ = turn_ = 0;
	}

	void forget()
	{
		if (epoch_ != 0)
			epoch_++;
	}

	/* Return the job_id from which on the head of the group is to be looked for. */
	int64_t floor_of(int64_t group) const
	{
		const Slot *slot = find(group);
		return slot != nullptr ? slot->floor : INT64_MIN;
	}

	/* Return whether the head of the group is known: the floor is its id. */
	bool knows(int64_t group) const
	{
		const Slot *slot = find(group);
		return slot != nullptr && slot->known;
	}
	/* Return the smallest id that was filed since the visit began; INT64_MIN: doubt() was called since then. */
	int64_t lowest_of(int64_t group) const
	{
		const Slot *slot = find(group);
		return slot == nullptr ? INT64_MAX : slot->again ? INT64_MIN : slot->lowest;
	}

	/* Return whether the job is behind the known head of its group. */
	bool hide(const Hint &hint) const
	{
		const Slot *slot = find(hint.group);
		return slot != nullptr && slot->known && hint.key.job_id > slot->floor;
	}

	/* Note that a row with this hint was filed, due or not. */
	void note(const Hint &hint)
	{
		Slot *slot = find(hint.group);
		if (slot == nullptr)
			return;
		slot->known &= hint.key.job_id >= slot->floor;
		slot->floor = std::min(slot->floor, hint.key.job_id);
		slot->lowest = std::min(slot->lowest, hint.key.job_id);
		slot->idle = false;
	}

	/* Note that the group may have another head now. */
	void doubt(int64_t group)
	{
		Slot *slot = find(group);
		if (slot == nullptr)
			return;
		slot->known = false;
		slot->again = true;
	}

	/* Note that any row of the group may have been filed. */
	void forget(int64_t group) { note({.key = Key::lowest(), .group = group}); }

	/* Begin a visit, which looks for the head. Return the floor. */
	int64_t begin_visit(int64_t group)
	{
		Slot *slot = find(group);
		if (slot == nullptr)
		{
			slot = slot_to_take(group);
			*slot = {};
			slot->group = group;
			slot->floor = INT64_MIN;
			slot->epoch = epoch_;
		}
		slot->known = slot->again = slot->idle = false;
		slot->lowest = INT64_MAX;
		return slot->floor;
	}

	/*
	 * End the visit, which has found this head; INT64_MAX: there is no job. The head is known now, unless a row with a smaller id
	 * was filed or doubt() was called since the visit began.
	 */
	void end_visit(int64_t group, int64_t head)
	{
		Slot *slot = find(group);
		if (slot == nullptr)
			return;
		bool alone = slot->lowest >= head && !slot->again;
		slot->idle = alone && head == INT64_MAX;
		slot->known = alone && head != INT64_MAX;
		if (head != INT64_MAX)
			slot->floor = std::min(slot->lowest, head);
	}

private:
	/* Number of slots among which a group has its slot: first_slot_of() and the slots behind that. */
	static constexpr uint32_t kProbes = 8;

	/* The ids of groups are hashes, so their last bits are evenly distributed. */
	Slot *first_slot_of(int64_t group) const
	{
		return &slots_[static_cast<uint64_t>(group) % size_];
	}
	Slot *next_slot(Slot *slot) const { return slot + 1 == slots_ + size_ ? slots_ : slot + 1; }
	bool is_used(const Slot *slot) const { return slot->epoch == epoch_; }

	/* A group takes the first unused slot, so its own slot is never behind an unused one. */
	Slot *find(int64_t group) const
	{
		if (epoch_ == 0)
			return nullptr;
		Slot *slot = first_slot_of(group);
		for (uint32_t i = 0; i < kProbes && is_used(slot); i++, slot = next_slot(slot))
			if (slot->group == group)
				return slot;
		return nullptr;
	}

	/*
	 * Return the slot to use for the group, out of the kProbes slots that the group may have: an
	 * unused slot; else the slot of an idle group; else each of the slots in turn.
	 */
	Slot *slot_to_take(int64_t group)
	{
		if (epoch_ == 0)
		{
			std::for_each_n(slots_, size_, [](Slot &slot) { slot.epoch = 0; });
			epoch_ = 1;
		}
		uint32_t turn = turn_++ % kProbes;
		Slot *of_turn = nullptr;
		Slot *idle = nullptr;
		Slot *slot = first_slot_of(group);
		for (uint32_t i = 0; i < kProbes; i++, slot = next_slot(slot))
		{
			if (!is_used(slot))
				return slot;
			of_turn = i == turn ? slot : of_turn;
			idle = slot->idle && idle == nullptr ? slot : idle;
		}
		return idle != nullptr ? idle : of_turn;
	}

	Slot *slots_;
	uint32_t size_;
	uint32_t epoch_; /* changes when all slots are forgotten; 0: the slots are not initialized */
	uint32_t turn_;	 /* number of calls of slot_to_take() */
};

} // namespace pgq
