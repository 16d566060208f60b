/*
 * The segments of the job table that a verb has opened so far, all with one lock mode.
 *
 * Several segments are locked in ascending order. Otherwise the session could deadlock with a
 * session that locks all segments, by LOCK TABLE, TRUNCATE or VACUUM FULL of the parent table. A
 * reader (lock mode AccessShareLock) that needs a lower segment first releases all its locks. A
 * writer that has written or locked a row keeps its locks to the end of the transaction.
 */
#pragma once

#include "catalog/tables.h"

namespace pgq {

class SegmentSet
{
public:
	explicit SegmentSet(LOCKMODE mode) : mode_(mode) {}

	/*
	 * Open the segment with that number, unless it is open already. Returns NULL if there is no
	 * such segment.
	 */
	Relation open(int number);

	/*
	 * Open the segments whose bits are set in `numbers` (segment_bit()). A reader must not be using
	 * relations or pins of this SegmentSet, since this call may close all of them.
	 */
	void open_in_order(uint32 numbers);

	/*
	 * Open all segments. Returns what the catalog says of the extension's tables, read after all
	 * segments were locked.
	 */
	const Tables &open_all();

	/* Return whether the segment has no page at all. Then a search can skip the segment. */
	bool is_bare(int number);

	/*
	 * Pin the page of that place; the caller releases the pin. Returns InvalidBuffer if the segment
	 * does not exist, or does not have that page.
	 */
	Buffer pin(const Place &place);

	/*
	 * Release the pin that this SegmentSet keeps on the page that was pinned last. Call this before
	 * a wait: a pin would hold up VACUUM.
	 */
	void unpin();

	/*
	 * Note that a row was written or locked, so that the segments' locks are kept to the end of the
	 * transaction.
	 */
	void note_write() { written_ = true; }

	/*
	 * Close all segments. A reader releases its locks, so the caller must have detoasted the values
	 * that it still needs. A writer keeps its locks to the end of the transaction.
	 */
	void close();

	/*
	 * Close all segments for a verb that had nothing to do. A writer also releases its locks,
	 * unless note_write() was called.
	 */
	void close_unwritten();

private:
	Relation open_one(const Segment &segment);
	Buffer read(Relation rel, const Place &place);
	void close_with(LOCKMODE mode);

	LOCKMODE mode_;
	bool written_ = false;
	/* what the catalog says of the extension's tables, as read when a segment was last opened */
	const Tables *tables_ = nullptr;
	uint32 open_ = 0;					   /* the open segments, as bits */
	Relation relation_[kMaxSegments] = {}; /* by segment number */
	/*
	 * Known size of each segment, in blocks. While a segment is locked it can grow, but not shrink.
	 */
	BlockNumber blocks_[kMaxSegments] = {};
	/*
	 * The page that was pinned last. The pin is kept, since the next job is often on the same page.
	 */
	Buffer kept_ = InvalidBuffer;
	Relation kept_of_ = nullptr;
};

/*
 * Return the bit of the place's segment for open_in_order(). Returns 0 if the segment number is too
 * large: a place in memory may be outdated.
 */
inline uint32
segment_bit(const Place &place)
{
	return place.segment < kMaxSegments ? 1U << place.segment : 0;
}
inline constexpr uint32 kEverySegment = (1U << kMaxSegments) - 1;

} // namespace pgq
