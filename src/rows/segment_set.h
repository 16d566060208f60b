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

	/*
	 * Open a segment, unless it is open already. Returns NULL if there is no segment of that
	 * number.
	 */
	Relation open(int number);

	/*
	 * Open a set of segments, given as bits. A reader must not be using relations or pins of this
	 * set, since they may be closed.
	 */
	void open_in_order(uint32 numbers);

	/* Open all segments. Returns the tables as of now, when the segments are locked. */
	const Tables &open_all();

	/* Return whether the segment has no page at all, so that it need not be searched. */
	bool is_bare(int number);

	/*
	 * Pin the page of that place; the caller releases the pin. Returns InvalidBuffer if there is no
	 * such segment, or if it has fewer pages.
	 */
	Buffer pin(const Place &place);

	/* Release the page that is kept pinned. Call this before a wait: a pin would hold up VACUUM. */
	void unpin();

	/*
	 * Note that a row was written or locked, so that the segments' locks are kept to the end of the
	 * transaction.
	 */
	void note_write() { written_ = true; }

	/*
	 * Close all segments. A reader releases its locks, so it must have detoasted values before. A
	 * writer keeps them to the end of the transaction.
	 */
	void close();

	/*
	 * Close all segments for a verb that had nothing to do. A writer also releases its locks,
	 * unless it has written.
	 */
	void close_unwritten();

private:
	Relation open_one(const Segment &segment);
	void close_with(LOCKMODE mode);

	LOCKMODE mode_;
	bool written_ = false;
	/* the tables as of the last segment that was opened */
	const Tables *tables_ = nullptr;
	uint32 open_ = 0;					   /* the open segments, as bits */
	Relation relation_[kMaxSegments] = {}; /* by segment number */
	/* Known sizes, in blocks. While a segment is locked it can grow, but not shrink. */
	BlockNumber blocks_[kMaxSegments] = {};
	/* The page that was pinned last, kept since the next job is often on the same page. */
	Buffer kept_ = InvalidBuffer;
	Relation kept_of_ = nullptr;
};

/*
 * Return the bit of the place's segment for open_in_order(). Returns 0 if there is no such segment:
 * a place in memory may be outdated.
 */
inline uint32
segment_bit(const Place &place)
{
	return place.segment < kMaxSegments ? 1U << place.segment : 0;
}
inline constexpr uint32 kEverySegment = (1U << kMaxSegments) - 1;

} // namespace pgq
