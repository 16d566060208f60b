/*
 * The window: the ready jobs of a queue that are in memory, in the order in which they go out. Its size is bounded.
 *
 * In a queue with rules for groups there may be markers among the jobs. A marker has a group and a key: memory may lack rows of the
 * group from this key on. When a marker is the first hint, a visit must read these rows before a job goes out.
 *
 * Pure and unlocked: part of ReadyJobs.
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

	/* Return the first hint of that priority or a lower one; NULL: there is none. */
	const Hint *first_of_priority(int32_t priority) const
	{
		return set_.first_from(
			{.key = {priority, INT64_MIN, INT64_MIN}, .marker = true, .group = INT64_MIN});
	}

	/*
	 * Return how many jobs go out before this one, but at most `most`. If there is a marker among their hints, set *complete to
	 * false. left_out: do not count the jobs of this group; 0: count all jobs.
	 */
	uint32_t count_before(const Hint &hint, int64_t left_out, uint32_t most, bool *complete) const
	{
		return set_.count_before(hint, most, [&](const Hint &h) {
			*complete &= !h.marker;
			return !h.marker && (left_out == 0 || h.group != left_out);
		});
	}

	/* Insert a hint. If the window is full, call leave_out() with the hint that has no room. */
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

	/* Call visit() for the markers among the first kLooks hints. visit() may change or remove its marker. */
	template <typename Visit> void for_first_markers(Visit visit) const
	{
		static constexpr int kLooks = 64;
		set_.for_first(kLooks, [&](const Hint &hint) {
			if (hint.marker)
				visit(Hint(hint));
		});
	}

	/* Return whether the group has a marker at exactly this key that no process is visiting. */
	bool is_marked(int64_t group, const Key &from) const
	{
		Hint wanted = marker_of(group, from);
		const Hint *marker = set_.first_from(wanted);
		return marker != nullptr && !ByKey::less(wanted, *marker) && !marker->visited;
	}

	/* Note that a process begins to read the rows of the marker. The visit is void if the same marker is inserted again. */
	void begin_visit(const Hint &marker)
	{
		Hint visited = marker;
		visited.visited = true;
		set_.insert(visited);
	}

	void remove(const Hint &marker) { set_.take(set_.first_from(marker)); }

	/* Remove a marker that is still being visited. Return false if the visit is void. */
	bool end_visit(int64_t group, const Key &from)
	{
		const Hint *marker = set_.first_from(marker_of(group, from));
		bool same = marker != nullptr && marker->marker && marker->visited &&
					marker->group == group && marker->key == from;
		if (same)
			set_.take(marker);
		return same;
	}

	/* Return whether the window has a marker of the row's group at the key of the row or before. Looks at all hints. */
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
