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
 * A lock may bring news, of an index for example, and to learn them look_at_tables() locks every
 * segment for a moment: so a reader does that with nothing locked, and begins again.
 *
 * The steps: a reader lets go what is open above the lowest that is missing; then the segments are
 * listed and opened, again and again while their locks bring news.
 */
void
SegmentSet::open_in_order(uint32 numbers)
{
	static constexpr int kTries = 10;
	uint32 missing = numbers & ~open_;
	if (missing == 0)
		return;
	/* Never a lower one after a higher one. */
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
		/* There is news: it is learned at the next look, with nothing locked. */
		if (reader && i < kTries - 1)
		{
			numbers |= open_;
			close();
		}
	}
	/* There is news again and again: then with them locked. */
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
	/* Opening it may have brought the news that indexes are missing. */
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

/* The mode is that of the locks to let go. */
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
	/* The next lock finds the segments anew. */
	memset(blocks_, 0, sizeof(blocks_));
}

} // namespace pgq
