/*
 * The ready jobs of a queue that are in memory, in the order in which they go out: by priority, run_at and job_id.
 *
 * In a queue with rules for groups there may be markers among them: rows of that group from that key on may be missing.
 * A marker takes a place as a job does, and is the first thing to be dealt with when it is the first of the window.
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/cursor.h"
#include "core/ordered_set.h"

namespace pgq {

class Window
{
public:
	using Set = OrderedSet<Hint, ByKey>;
	using Node = Set::Node;

	void init(Node *storage, uint32_t capacity) { set_.init(storage, capacity); }
	void clear() { set_.clear(); }

	uint32_t size() const { return set_.size(); }
	uint32_t capacity() const { return set_.capacity(); }
	uint32_t peak() const { return set_.peak(); }
	bool empty() const { return set_.empty(); }

	const Hint &first() const { return set_.min(); }
	bool contains(const Hint &hint) const { return set_.contains(hint); }
	template <typename Visit> void for_each(Visit visit) const { set_.for_each(visit); }

	/* Return the first job of that priority or a lower one; NULL: there is none. */
	const Hint *first_of_priority(int32_t priority) const
	{
		return set_.first_from(
			{.key = {priority, INT64_MIN, INT64_MIN}, .marker = true, .group = INT64_MIN});
	}

	/* Count the jobs that go out before this one, but at most so many. */
	uint32_t count_before(const Hint &hint, uint32_t most) const
	{
		return set_.count_before(hint, most, [](const Hint &h) { return !h.marker; });
	}

	/* What does not fit is left out by leave_out: that hint, or another one. */
	template <typename LeaveOut> void insert(const Hint &hint, LeaveOut leave_out)
	{
		insert_smallest<ByKey>(set_, hint, leave_out);
	}
	Hint pop() { return set_.pop_min(); }

	/* ---- markers ---- */

	static Hint marker_of(int64_t group, const Key &from)
	{
		return {.key = from, .place = {}, .delayed = false, .marker = true, .group = group};
	}

	/* Call visit with the first markers. Looks at a bounded number of places. visit may insert and remove its marker. */
	template <typename Visit> void for_first_markers(Visit visit) const
	{
		static constexpr int kLooks = 64;
		const Hint *next = set_.empty() ? nullptr : &set_.min();
		for (int i = 0; i < kLooks && next != nullptr; i++)
		{
			Hint hint = *next;
			if (hint.marker)
				visit(hint);
			next = set_.first_after(hint);
		}
	}

	/* A process begins to read the rows of that marker. Whatever puts the same marker again ends that. */
	void begin_visit(const Hint &marker)
	{
		Hint visited = marker;
		visited.visited = true;
		set_.insert(visited);
	}

	void remove(const Hint &marker) { set_.take(set_.first_from(marker)); }

	/* Remove that marker if it is still the one that the process has visited. */
	bool end_visit(int64_t group, const Key &from)
	{
		const Hint *marker = set_.first_from(marker_of(group, from));
		bool same = marker != nullptr && marker->marker && marker->visited &&
					marker->group == group && marker->key == from;
		if (same)
			set_.take(marker);
		return same;
	}

	/* Does a marker cover the row of that hint? */
	bool covers(const Hint &hint) const
	{
		bool covered = false;
		set_.for_each([&](const Hint &h) {
			covered |= h.marker && h.group == hint.group && !(hint.key < h.key);
		});
		return covered;
	}

private:
	Set set_;
};

} // namespace pgq
