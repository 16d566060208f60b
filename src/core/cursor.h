/*
 * A cursor: everything below it is in memory, and a refill takes it away and puts it back. Keep the smallest in memory:
 * what does not fit pulls the cursor back to itself.
 */
#pragma once

#include "core/key.h"

#include <cassert>

namespace pgq {

template <typename K> struct Refill
{
	bool active;
	K start;  /* the cursor when the refill began */
	K lowest; /* smallest key evicted, refused or pulled back to since */
};

/* Everything below this key is in memory. */
template <typename K>
inline const K &
known_to(const Refill<K> &refill, const K &cursor)
{
	if (!refill.active)
		return cursor;
	return refill.lowest < refill.start ? refill.lowest : refill.start;
}

template <typename K>
void
lower(Refill<K> &refill, K &cursor, const K &key)
{
	K &bound = refill.active ? refill.lowest : cursor;
	if (key < bound)
		bound = key;
}

template <typename K>
K
begin_refill(Refill<K> &refill, K &cursor)
{
	refill = {.active = true, .start = cursor, .lowest = K::highest()};
	cursor = K::highest();
	return refill.start;
}

template <typename K>
void
finish_refill(Refill<K> &refill, K &cursor, const K &end)
{
	assert(refill.active);
	refill.active = false;
	cursor = refill.lowest < end ? refill.lowest : end;
}

/* Keep the smallest. */
template <typename Order, typename Set, typename LeaveOut>
void
insert_smallest(Set &set, const Hint &hint, LeaveOut leave_out)
{
	/* An equal one is replaced: its place may be another one. */
	if (set.full() && !set.contains(hint))
	{
		if (!Order::less(hint, set.max()))
		{
			leave_out(hint);
			return;
		}
		leave_out(set.pop_max());
	}
	set.insert(hint);
}

} // namespace pgq
