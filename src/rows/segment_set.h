/*
 * The segments that a verb has opened so far, all with one lock mode.
 *
 * Whoever locks several does it in ascending order, or he can be in a circle with somebody who
 * locks them all and waits for a lower one: LOCK TABLE, TRUNCATE, VACUUM FULL of the parent. A
 * reader lets all go first where he has to; a writer keeps what he has, to the end of his
 * transaction, if it has written or locked a row.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

class SegmentSet
{
public:
	explicit SegmentSet(LOCKMODE mode) : mode_(mode) {}

	/* NULL if there is no segment of that number. */
	Relation open(int number);

	/* A set of segments, as bits. Nothing of a reader's that was open may be in use. */
	void open_in_order(uint32 numbers);

	/* All. Returns them as they are known now that they are locked. */
	const Tables &open_all();

	/* Has the segment no page? Then it needs no look. */
	bool is_bare(int number);

	/* A pin of the place's page, for the caller to release; invalid if the segment is missing or ends before it. */
	Buffer pin(const Place &place);

	/* Before a wait: do not keep a page from VACUUM meanwhile. */
	void unpin();

	/* A row is written, or locked, under the locks. */
	void note_write() { written_ = true; }

	/* Readers let the lock go (they have detoasted by then), writers keep it to the end of the transaction. */
	void close();

	/* For a verb that has found nothing to do: writers, too, let the locks go, unless they have written. */
	void close_unwritten();

private:
	Relation open_one(const Segment &segment);
	void close_with(LOCKMODE mode);

	LOCKMODE mode_;
	bool written_ = false;
	const Tables *tables_ = nullptr;	   /* as they were when the last segment was opened */
	uint32 open_ = 0;					   /* as bits */
	Relation relation_[kMaxSegments] = {}; /* by number */
	/* At least: a segment can grow, but not shrink under our lock. */
	BlockNumber blocks_[kMaxSegments] = {};
	/* The page pinned last: the next job is often there too. */
	Buffer kept_ = InvalidBuffer;
	Relation kept_of_ = nullptr;
};

/* Bits for open_in_order(). A place in memory is a guess, and may be of no segment at all. */
inline uint32
segment_bit(const Place &place)
{
	return place.segment < kMaxSegments ? 1U << place.segment : 0;
}
inline constexpr uint32 kEverySegment = (1U << kMaxSegments) - 1;

} // namespace pgq
