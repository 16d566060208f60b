/*
 * The segments of the job table that a verb has opened so far, all with one lock mode.
 *
 * Several segments are locked in ascending order. Otherwise the session could deadlock with one
 * that locks all of them: LOCK TABLE, TRUNCATE or VACUUM FULL of the parent. A reader releases all
 * its locks where it needs a lower segment. A writer keeps its locks to the end of the transaction
 * if it has written or locked a row.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

class SegmentSet
{
public:
	explicit SegmentSet(LOCKMODE mode) : mode_(mode) {}

	/* Open a segment, unless it is open. NULL if there is none of that number. */
	Relation open(int number);

	/*
	 * Open a set of segments, given as bits. A reader's relations and pins may be closed, so none
	 * may be in use.
	 */
	void open_in_order(uint32 numbers);

	/* Open all segments. Returns the tables as they are now that the segments are locked. */
	const Tables &open_all();

	/* Return whether the segment has no page, so that it need not be searched. */
	bool is_bare(int number);

	/*
	 * Pin the page of that place; the caller releases the pin. Invalid if there is no such segment,
	 * or if it has fewer pages.
	 */
	Buffer pin(const Place &place);

	/* Release the page that is kept pinned. Call before a wait, so as not to hold up VACUUM. */
	void unpin();

	/* Note that a row was written or locked under these locks. */
	void note_write() { written_ = true; }

	/*
	 * Close all segments. A reader releases its locks, so it must have detoasted by then. A writer
	 * keeps them to the end of the transaction.
	 */
	void close();

	/*
	 * Close all segments for a verb that had nothing to do: a writer, too, releases its locks,
	 * unless it has written.
	 */
	void close_unwritten();

private:
	Relation open_one(const Segment &segment);
	void close_with(LOCKMODE mode);

	LOCKMODE mode_;
	bool written_ = false;
	/* as of the last segment that was opened */
	const Tables *tables_ = nullptr;
	uint32 open_ = 0;					   /* the open segments, as bits */
	Relation relation_[kMaxSegments] = {}; /* by segment number */
	/* Known sizes, in blocks. A segment can grow but not shrink while we hold its lock. */
	BlockNumber blocks_[kMaxSegments] = {};
	/* The page pinned last; the next job is often on the same page. */
	Buffer kept_ = InvalidBuffer;
	Relation kept_of_ = nullptr;
};

/*
 * Return the bit of the place's segment for open_in_order(), or 0 if there is no such segment: a
 * place that memory remembers may be wrong.
 */
inline uint32
segment_bit(const Place &place)
{
	return place.segment < kMaxSegments ? 1U << place.segment : 0;
}
inline constexpr uint32 kEverySegment = (1U << kMaxSegments) - 1;

} // namespace pgq
