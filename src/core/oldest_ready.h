/*
 * The ready job with the earliest run_at, of those that the window does not tell: all whose priority is below some
 * number. Found among the rows by whoever asks, and kept from then on: a job that becomes ready and is older takes its
 * place (note()), and where rows may be ready that nobody has filed it is forgotten. So no ready job of these
 * priorities is older than what is kept; that one may have gone meanwhile, as with any hint: whoever asks looks at its
 * row, and if it is gone he reads again.
 *
 *     serial = begin(below)       under the queue's lock
 *     the rows are read           by a snapshot that is taken after that, with nothing locked
 *     finish(serial, found)       under the lock; nothing, if it was forgotten or begun anew
 *
 * Pure and unlocked.
 */
#pragma once

#include "core/window.h"

namespace pgq {

class OldestReady
{
public:
	/* All priorities are below it. */
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

	/* found: NULL if there is none. */
	void finish(uint32_t serial, const Hint *found)
	{
		if (serial != serial_)
			return;
		if (found != nullptr)
			note(*found);
		state_ = kKnown;
	}

	/* That job is ready. */
	void note(const Hint &hint)
	{
		if (state_ == kUnknown || hint.key.priority >= below_ ||
			(any_ && oldest_.key.run_at <= hint.key.run_at))
			return;
		oldest_ = hint;
		any_ = true;
	}

	/* Of all priorities below that one? */
	bool knows(int64_t below) const { return state_ == kKnown && below <= below_; }

	/* NULL: there is none. Only if it knows. */
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
 * The ready job that is due for longest, of those that the window, which knows all before that key, tells of: of
 * priorities below that number it does not.
 */
struct OldestInWindow
{
	const Hint *hint; /* NULL: there is none */
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
