#include "rows/segment_set.h"

namespace pgq {

Relation
SegmentSet::open_one(const Segment &segment)
{
	Relation &relation = relation_[segment.number];
	if (relation == nullptr)
	{
		relation = table_open(segment.heap, mode_);
		open_ |= 1U << segment.number;
	}
	return relation;
}

Relation
SegmentSet::open(int number)
{
	if (number >= kMaxSegments)
		return nullptr;
	if (relation_[number] == nullptr)
		open_in_order(1U << number);
	return relation_[number];
}

/*
 * Open the given segments that are not open yet, in ascending order.
 *
 * Waiting for a lock can process invalidations, for example of a new index. look_at_tables() then
 * reads the catalog again, and locks every segment for a moment to do so. A reader must not hold
 * locks of segments while the catalog is read, so the reader closes its segments and starts again.
 *
 * Steps: a reader closes its segments if an open segment is above the lowest segment to open. Then
 * all segments are opened in order. These steps are repeated as long as waiting for the locks has
 * brought invalidations.
 */
void
SegmentSet::open_in_order(uint32 numbers)
{
	static constexpr int kTries = 10;
	uint32 missing = numbers & ~open_;
	if (missing == 0)
		return;
	/* A lower segment must not be locked after a higher one. */
	bool reader = mode_ == AccessShareLock;
	if (reader && open_ > (missing & -missing))
	{
		numbers |= open_;
		close();
	}
	for (int i = 0; i < kTries; i++)
	{
		tables_ = &look_at_tables();
		for (const Segment &segment : tables_->segments(kJobRing))
			if (numbers & (1U << segment.number))
				open_one(segment);
		if (!tables_->has_segments || !tables_may_differ())
			return;
		/*
		 * The catalog has changed: close all segments, so that the next look_at_tables() reads the
		 * catalog while no segment is locked.
		 */
		if (reader && i < kTries - 1)
		{
			numbers |= open_;
			close();
		}
	}
	/*
	 * The catalog has changed at each of kTries tries, so now read it although segments are locked.
	 */
	tables_ = &look_at_tables();
}

const Tables &
SegmentSet::open_all()
{
	open_in_order(kEverySegment);
	tables_ = &look_at_tables();
	return *tables_;
}

bool
SegmentSet::is_bare(int number)
{
	Relation rel = open(number);
	return rel != nullptr && RelationGetNumberOfBlocks(rel) == 0;
}

void
SegmentSet::unpin()
{
	if (BufferIsValid(kept_))
		ReleaseBuffer(kept_);
	kept_ = InvalidBuffer;
}

Buffer
SegmentSet::pin(const Place &place)
{
	Relation rel = open(place.segment);
	/* Opening the segment may have shown that its index was dropped. */
	if (rel == nullptr || tables_->find(place.segment) == nullptr)
		return InvalidBuffer;
	BlockNumber &blocks = blocks_[place.segment];
	if (place.block >= blocks)
		blocks = RelationGetNumberOfBlocks(rel);
	if (place.block >= blocks)
		return InvalidBuffer;
	if (!BufferIsValid(kept_) || kept_of_ != rel || BufferGetBlockNumber(kept_) != place.block)
	{
		unpin();
		kept_ = ReadBuffer(rel, place.block);
		kept_of_ = rel;
	}
	IncrBufferRefCount(kept_);
	return kept_;
}

void
SegmentSet::close()
{
	close_with(mode_ == AccessShareLock ? mode_ : NoLock);
}

void
SegmentSet::close_unwritten()
{
	close_with(written_ ? NoLock : mode_);
}

/*
 * Close all segments. mode: the lock to release, or NoLock to keep the locks until the end of the
 * transaction.
 */
void
SegmentSet::close_with(LOCKMODE mode)
{
	unpin();
	for (Relation &relation : relation_)
	{
		if (relation != nullptr)
			table_close(relation, mode);
		relation = nullptr;
	}
	open_ = 0;
	/* Forget the known sizes: a segment can shrink when it is not locked. */
	memset(blocks_, 0, sizeof(blocks_));
}

} // namespace pgq
