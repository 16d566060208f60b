/*
 * A cursor: memory has every row whose key is below the cursor. While a refill reads rows, the
 * cursor is +infinity. At its end, the refill sets the cursor to the key below which memory then
 * has every row. A bounded set keeps the smallest keys. If the set has no room for a key, the
 * cursor is lowered to this key.
 */
#pragma once

#include "core/key.h"

#include <cassert>

namespace pgq {

template <typename K> struct Refill
{
	bool active;
	K start;  /* the cursor when the refill began */
	K lowest; /* smallest key that was passed to lower() since the refill began */
};

/*
 * Return the key below which memory has every row. Without a refill this is the cursor. During a
 * refill the cursor is +infinity, and this is the smaller one of two keys: the cursor before the
 * refill, and the smallest key that was passed to lower() since.
 */
template <typename K>
inline const K &
known_to(const Refill<K> &refill, const K &cursor)
{
	if (!refill.active)
		return cursor;
	return refill.lowest < refill.start ? refill.lowest : refill.start;
}

/*
 * Lower the cursor to the key. While a refill is under way, only note the key; finish_refill()
 * lowers the cursor.
 */
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
 * Insert the hint. If the set is full, keep the smallest hints, and call leave_out() with the hint
 * that has no room.
 */
template <typename Order, typename Set, typename LeaveOut>
void
insert_smallest(Set &set, const Hint &hint, LeaveOut leave_out)
{
	/*
	 * If the set has a hint with the same key, insert() replaces that hint, since the row may have
	 * moved.
	 */
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
