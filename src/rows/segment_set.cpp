#include "rows/segment_set.h"

#include "catalog/shape.h"

namespace pgq {

Relation
SegmentSet::open_one(const Segment &segment)
{
	Relation &relation = relation_[segment.number];
	if (relation == nullptr)
	{
		relation = table_open(segment.heap, mode_);
		open_ |= 1U << segment.number;
		check_segment(relation, segment.number);
		/* Deletions are replicated by the index of ids (protocol: publisher-owns-its-jobs). */
		if (mode_ != AccessShareLock && RelationIsLogicallyLogged(relation))
			(void) shape_of(relation, segment.number);
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
 * Open the given segments that are not open yet, in ascending order: a lower segment must not be
 * locked after a higher one, so a reader first closes its segments if one of them is above the
 * lowest segment to open.
 *
 * Waiting for a lock can process invalidations, for example of a dropped segment. Then the catalog
 * is read again, and segments that it lists by then are opened, too.
 */
void
SegmentSet::open_in_order(uint32 numbers)
{
	static constexpr int kTries = 10;
	uint32 missing = numbers & ~open_;
	if (missing == 0)
		return;
	bool reader = mode_ == AccessShareLock;
	if (reader && open_ > (missing & -missing))
	{
		numbers |= open_;
		close();
	}
	for (int i = 0; i < kTries; i++)
	{
		tables_ = &look_at_tables();
		for (uint32 left = numbers; left != 0; left &= left - 1)
		{
			const Segment *segment = tables_->find(pg_rightmost_one_pos32(left));
			if (segment == nullptr)
				continue;
			Relation rel = open_one(*segment);
			/* Whoever opens all segments searches their indexes. */
			if (numbers == kEverySegment)
				(void) shape_of(rel, segment->number);
		}
		if (!tables_->has_segments || !tables_may_differ())
			return;
	}
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

namespace {

/* The page of a segment that this session has pinned last, and where it was. */
struct RecentPage
{
	BlockNumber block;
	Buffer buffer; /* invalid: there is no such page */
};

} // namespace

static constinit RecentPage recent_pages[kMaxSegments] = {};

/*
 * Pin a page of an open segment. Returns InvalidBuffer if the segment does not have that page.
 *
 * Claims read the same page again and again. If the page is still in its buffer, the segment has the
 * page, and the server need not look for it. Before PostgreSQL 19, a pin of this kind does not tell
 * the server that the page is in use and should stay in memory. So only readers use it: the calls
 * that end the jobs of the page tell the server.
 */
Buffer
SegmentSet::read(Relation rel, const Place &place)
{
	RecentPage &recent = recent_pages[place.segment];
	if (mode_ == AccessShareLock && BufferIsValid(recent.buffer) && recent.block == place.block &&
		ReadRecentBuffer(file_of(rel), MAIN_FORKNUM, place.block, recent.buffer))
		return recent.buffer;
	BlockNumber &blocks = blocks_[place.segment];
	if (place.block >= blocks)
		blocks = RelationGetNumberOfBlocks(rel);
	if (place.block >= blocks)
		return InvalidBuffer;
	recent = {place.block, ReadBuffer(rel, place.block)};
	return recent.buffer;
}

Buffer
SegmentSet::pin(const Place &place)
{
	Relation rel = open(place.segment);
	/*
	 * Locking the segment may have processed an invalidation, for example because its index was
	 * dropped. So check the list of segments again.
	 */
	if (rel == nullptr || tables_->find(place.segment) == nullptr)
		return InvalidBuffer;
	if (!BufferIsValid(kept_) || kept_of_ != rel || BufferGetBlockNumber(kept_) != place.block)
	{
		unpin();
		kept_ = read(rel, place);
		kept_of_ = rel;
	}
	if (BufferIsValid(kept_))
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
	for (uint32 left = open_; left != 0; left &= left - 1)
	{
		Relation &relation = relation_[pg_rightmost_one_pos32(left)];
		table_close(relation, mode);
		relation = nullptr;
	}
	open_ = 0;
	/* Forget the known sizes: a segment can shrink when it is not locked. */
	memset(blocks_, 0, sizeof(blocks_));
}

} // namespace pgq
