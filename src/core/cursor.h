/*
 * A cursor: memory has every row whose key is below the cursor. A refill sets the cursor to
 * +infinity while it reads rows, and to its result at the end. A bounded set keeps the smallest
 * keys; a key that does not fit pulls the cursor back to itself.
 */
#pragma once

#include "core/key.h"

#include <cassert>

namespace pgq {

template <typename K> struct Refill
{
	bool active;
	K start;  /* cursor at the begin of the refill */
	K lowest; /* smallest key that was evicted, refused or pulled back to during the refill */
};

/* Return the key below which memory has every row. During a refill that is not the cursor. */
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

/*
 * Insert the hint, and keep the smallest ones if the set is full. leave_out() gets the hint that
 * has no room.
 */
template <typename Order, typename Set, typename LeaveOut>
void
insert_smallest(Set &set, const Hint &hint, LeaveOut leave_out)
{
	/* An equal hint is replaced, since its row may have moved. */
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
