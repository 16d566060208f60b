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

#include "core/key.h"

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

} // namespace pgq
