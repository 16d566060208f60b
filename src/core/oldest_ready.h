/*
 * OldestReady keeps the hint of the oldest ready job, the one with the earliest run_at, among the
 * jobs whose priority is below a bound. For the other priorities, oldest_in() searches the window.
 * The hint is found by reading rows, and is then kept for the next caller. If an older job becomes
 * ready, its hint replaces the kept hint (note()). If jobs may have become ready whose hints were
 * not filed, the kept hint is forgotten. So no ready job of these priorities is older than the job
 * of the kept hint. Like any hint, the kept hint may be a ghost: the caller looks at the row, and
 * reads rows again if the row is gone.
 *
 *     serial = begin(below)       under the queue's lock
 *     the rows are read           by a snapshot taken after begin(), with no lock held
 *     finish(serial, found)       under the lock; no effect after another begin() or a forget()
 *
 * Needs no server header and takes no lock.
 */
#pragma once

#include "core/window.h"

namespace pgq {

class OldestReady
{
public:
	/* Bound for all priorities: greater than every priority. */
	static constexpr int64_t kAll = int64_t{INT32_MAX} + 1;

	void forget()
	{
		state_ = kUnknown;
		serial_++;
	}

	uint32_t begin(int64_t below)
	{
		state_ = kReading;
		below_ = below;
		any_ = false;
		return ++serial_;
	}

	/* End the search. found: the oldest job that was read; NULL: none. */
	void finish(uint32_t serial, const Hint *found)
	{
		if (serial != serial_)
			return;
		if (found != nullptr)
			note(*found);
		state_ = kKnown;
	}

	/* Note that the job of this hint is ready now. */
	void note(const Hint &hint)
	{
		if (state_ == kUnknown || hint.key.priority >= below_ ||
			(any_ && oldest_.key.run_at <= hint.key.run_at))
			return;
		oldest_ = hint;
		any_ = true;
	}

	/* Return whether the oldest ready job is known for all priorities below `below`. */
	bool knows(int64_t below) const { return state_ == kKnown && below <= below_; }

	/* Return the kept hint; NULL: no job of these priorities is ready. Requires knows(). */
	const Hint *oldest() const { return any_ ? &oldest_ : nullptr; }

private:
	enum State : uint8_t
	{
		kUnknown,
		kReading,
		kKnown,
	} state_;
	bool any_;
	uint32_t serial_;
	int64_t below_;
	Hint oldest_;
};

/*
 * The oldest ready job of the window. below: the search of the window has covered the priorities
 * from this number on.
 */
struct OldestInWindow
{
	const Hint *hint; /* NULL: the window has no ready job */
	int64_t below;
};

inline OldestInWindow
oldest_in(const Window &window, const Key &known, int most)
{
	OldestInWindow oldest = {nullptr, OldestReady::kAll};
	int64_t priority = INT32_MAX;
	for (; most > 0 && priority >= known.priority && priority >= INT32_MIN; most--)
	{
		const Hint *hint = window.first_of_priority(static_cast<int32_t>(priority));
		if (hint == nullptr || !(hint->key < known))
		{
			oldest.below = known == Key::highest() ? INT32_MIN : int64_t{known.priority} + 1;
			return oldest;
		}
		if (oldest.hint == nullptr || hint->key.run_at < oldest.hint->key.run_at)
			oldest.hint = hint;
		oldest.below = hint->key.priority;
		priority = oldest.below - 1;
	}
	return oldest;
}

} // namespace pgq
