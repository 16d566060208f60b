#include "core/ring_policy.h"

#include <gtest/gtest.h>

namespace {

using namespace pgq;

constexpr int64_t kMegabyte = 1024 * 1024;
constexpr int64_t kNow = 1000 * kRingInterval;

/*
 * Return a ring of jobs whose current segment is the first one, and whose other segments are bare.
 */
RingView
fresh_ring(RingName name = kJobRing)
{
	RingView ring = {.name = name,
					 .current = static_cast<uint32_t>(first_in(name)),
					 .survivors = kNoSegment,
					 .least = kMegabyte};
	for (int i = first_in(name) + 1; i < first_in(name) + segments_in(name); i++)
	{
		ring.bare[i] = true;
		ring.bare_count++;
	}
	return ring;
}

void
fill(RingView *ring, uint32_t number, int64_t bytes)
{
	ring->bare_count -= ring->bare[number];
	ring->bare[number] = false;
	ring->bytes[number] = bytes;
	if (number != ring->current)
		ring->closed_bytes += bytes;
}

bool
any(uint32_t)
{
	return true;
}

TEST(Ring, ACurrentSegmentIsClosedWhenItHasItsSize)
{
	RingView ring = fresh_ring();
	EXPECT_FALSE(is_full(ring, ring.current));
	fill(&ring, ring.current, kMegabyte - 1);
	EXPECT_FALSE(is_full(ring, ring.current));
	fill(&ring, ring.current, kMegabyte);
	EXPECT_TRUE(is_full(ring, ring.current));
}

TEST(Ring, SegmentsGrowWithWhatWaitsInClosedOnes)
{
	RingView ring = fresh_ring();
	EXPECT_EQ(full_size(ring), kMegabyte);
	for (uint32_t number = 1; number < 7; number++)
		fill(&ring, number, 10 * kMegabyte);
	ASSERT_EQ(ring.bare_count, 1);
	EXPECT_EQ(full_size(ring), 2 * 60 * kMegabyte);
	/* If no segment is bare, the size of the current one does not matter. */
	fill(&ring, 7, kMegabyte);
	EXPECT_EQ(full_size(ring), kMegabyte);
}

TEST(Ring, TheNextSegmentIsTheFirstBareOneBehindTheCurrent)
{
	for (RingName name : all_rings)
	{
		RingView ring = fresh_ring(name);
		uint32_t first = first_in(name);
		uint32_t n = segments_in(name);
		EXPECT_EQ(next_bare(ring, any), first + 1);
		EXPECT_EQ(next_bare(ring, [&](uint32_t number) { return number != first + 1; }), first + 2);

		/* The search continues at the begin of the ring. */
		ring.bare[first] = true;
		ring.current = first + n - 1;
		ring.bare[ring.current] = false;
		EXPECT_EQ(next_bare(ring, any), first);

		for (bool &bare : ring.bare)
			bare = false;
		EXPECT_EQ(next_bare(ring, any), kNoSegment);
	}
}

TEST(Ring, ItIsLookedAtSoonWhereASegmentFillsInSeconds)
{
	RingView ring = fresh_ring();
	fill(&ring, ring.current, kMegabyte / 2);
	EXPECT_TRUE(fills_fast(ring, 0));
	EXPECT_TRUE(fills_fast(ring, kMegabyte / 2 - kMegabyte / 16 - 1));
	EXPECT_FALSE(fills_fast(ring, kMegabyte / 2 - kMegabyte / 16));
	/* The current segment has changed since the last look. */
	EXPECT_FALSE(fills_fast(ring, 10 * kMegabyte));
}

TEST(Ring, RowsAreMovedToTheSegmentOfSurvivorsWhileItHasRoom)
{
	RingView ring = fresh_ring();
	fill(&ring, 2, kMegabyte);
	EXPECT_EQ(refuge_from(ring, 2), 1u);
	EXPECT_FALSE(takes_survivors(ring, 2));

	ring.survivors = 5;
	EXPECT_EQ(refuge_from(ring, 2), 5u);
	fill(&ring, 5, 100);
	EXPECT_EQ(refuge_from(ring, 2), 5u);
	EXPECT_TRUE(takes_survivors(ring, 5));

	/* A full segment of survivors is closed like any other segment. */
	ring.bytes[5] = full_size(ring);
	EXPECT_FALSE(takes_survivors(ring, 5));
	EXPECT_EQ(refuge_from(ring, 2), 1u);

	/* Rows are never moved to the segment from which they come. */
	ring.bytes[5] = 100;
	EXPECT_EQ(refuge_from(ring, 5), 1u);
}

TEST(Ring, OfTheSmallestSegmentsTheOneOfSurvivorsHasRoomForSome)
{
	RingView ring = fresh_ring();
	ring.least = 64 * 1024;
	ring.survivors = 5;
	fill(&ring, 5, 2 * ring.least);
	ASSERT_TRUE(is_full(ring, 5));
	EXPECT_TRUE(takes_survivors(ring, 5));
	EXPECT_EQ(refuge_from(ring, 2), 5u);
	ring.bytes[5] = kLeastOfSurvivors;
	EXPECT_FALSE(takes_survivors(ring, 5));
}

TEST(Ring, TheLastBareSegmentIsForNewRows)
{
	RingView ring = fresh_ring();
	for (uint32_t number = 2; number < 8; number++)
		fill(&ring, number, kMegabyte);
	ASSERT_EQ(ring.bare_count, 1);
	EXPECT_EQ(refuge_from(ring, 2), ring.current);
}

TEST(Ring, SegmentsForDeadRowsAreLeftToBacklogs)
{
	RingView ring = fresh_ring();
	EXPECT_TRUE(is_half_bare(ring));
	for (uint32_t number = 1; number <= 3; number++)
		fill(&ring, number, kMegabyte);
	ASSERT_EQ(ring.bare_count, 4);
	EXPECT_TRUE(is_half_bare(ring));
	fill(&ring, 4, kMegabyte);
	EXPECT_FALSE(is_half_bare(ring));
}

TEST(Ring, ASegmentIsWornByDeadRowsIfLittleLives)
{
	SegmentPass pass = {.next = 10, .dead = 500, .at_end = true};
	EXPECT_TRUE(is_worn(pass, 500));
	EXPECT_FALSE(is_worn(pass, 501));
	pass.many = true;
	EXPECT_FALSE(is_worn(pass, 500));
	pass.many = false;
	pass.at_end = false;
	EXPECT_FALSE(is_worn(pass, 500)); /* the pass has not read all pages */
}

TEST(Ring, ItIsLookedAtOftenWhereDeadRowsGetMore)
{
	EXPECT_FALSE(wears_fast(0, 0, 500));
	EXPECT_FALSE(wears_fast(499, 499, 500)); /* an idle queue */
	EXPECT_FALSE(wears_fast(131, 100, 500));
	EXPECT_TRUE(wears_fast(132, 100, 500));
	/* the current segment has changed since the last look */
	EXPECT_FALSE(wears_fast(10, 490, 500));
}

TEST(Ring, OfASmallSegmentAQuarterIsWorthCopying)
{
	EXPECT_EQ(few_bytes(kJobRing, 0), 0);
	EXPECT_EQ(few_bytes(kJobRing, 100000), 25000);
	EXPECT_EQ(few_bytes(kJobRing, 2 * kMegabyte), kSmallMove);
	EXPECT_EQ(few_bytes(kJobRing, 64 * kMegabyte), 64 * kMegabyte / 20);
	EXPECT_EQ(few_bytes(kDeadRing, 64 * kMegabyte), 32 * kMegabyte);
	EXPECT_EQ(few_bytes(kFinishedRing, 100), kSmallSegment);
}

TEST(Ring, SegmentsGrowWithTruncationsUnderOneSnapshot)
{
	EXPECT_EQ(size_factor(0), 1);
	EXPECT_EQ(size_factor(63), 1);
	EXPECT_EQ(size_factor(64), 2);
	EXPECT_EQ(size_factor(128), 4);
	EXPECT_EQ(size_factor(INT32_MAX), 64);
}

TEST(Ring, ExpiryRestsNineTenthsOfTheTime)
{
	EXPECT_EQ(rest_after_expiry(7000, true), 70000);
	EXPECT_EQ(rest_after_expiry(7000, false), 5 * kRingInterval);
	EXPECT_EQ(rest_after_expiry(kRingInterval, false), 10 * kRingInterval);
}

/* Return a closed segment with the result of a pass. */
SegmentWatch
read_segment(uint32_t first_live, int64_t live_bytes, bool many, bool at_end)
{
	SegmentWatch watch = {};
	watch.close(kNow);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow);
	watch.pass = {.next = 100,
				  .first_live = first_live,
				  .live_bytes = live_bytes,
				  .many = many,
				  .at_end = at_end};
	return watch;
}

bool
no_survivors()
{
	return false;
}

TEST(SegmentWatch, APieceReadIsFollowedByTheNext)
{
	SegmentWatch watch = read_segment(kNoBlock, 0, false, false);
	watch.note_reading(kNow + 5, no_survivors);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.pass.next, 100u);
	EXPECT_EQ(watch.due, kNow + 5);
}

TEST(SegmentWatch, ManyRowsAreWaitedForLongerAndLonger)
{
	SegmentWatch watch = read_segment(7, kMegabyte, true, false);
	int64_t waits[] = {2, 4, 8, 16, 32, 32};
	for (int64_t wait : waits)
	{
		watch.pass.first_live = 7;
		watch.pass.many = true;
		watch.note_reading(kNow, no_survivors);
		EXPECT_EQ(watch.phase, SegmentWatch::kReading);
		EXPECT_EQ(watch.pass.next, 7u);
		EXPECT_EQ(watch.pass.first_live, kNoBlock);
		EXPECT_EQ(watch.due, kNow + wait * kRingInterval);
	}
}

TEST(SegmentWatch, FewRowsAreMovedUnlessTheyGetFewerFast)
{
	SegmentWatch watch = read_segment(7, 1000, false, true);
	auto read_again = [&](int64_t live_bytes) {
		watch.pass = {.next = 100, .first_live = 7, .live_bytes = live_bytes, .at_end = true};
		watch.note_reading(kNow, no_survivors);
	};
	watch.note_reading(kNow, no_survivors);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading); /* there is no earlier pass to compare with */
	EXPECT_EQ(watch.pass.next, 7u);
	EXPECT_EQ(watch.due, kNow + kRingInterval / 2);
	read_again(499);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow + kRingInterval);
	read_again(250);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	EXPECT_EQ(watch.move_from, (Position{7, kFirstOffset}));
	EXPECT_EQ(watch.batch, SegmentWatch::kMoveAtOnce);
}

/*
 * Give the watch a pass that found few rows. kept: for how long they have been kept; left: for how
 * long they must still be kept.
 */
SegmentWatch
read_kept(SegmentWatch watch, int64_t now, int64_t kept, int64_t left)
{
	watch.pass.first_live = 2;
	watch.pass.live_bytes = kMegabyte;
	watch.pass.kept = kept;
	watch.pass.left = left;
	watch.pass.at_end = true;
	watch.note_reading(now, [] { return false; });
	return watch;
}

TEST(SegmentWatch, RowsThatAreKeptForAWhileAreWaitedFor)
{
	SegmentWatch watch{};
	watch.close(kNow, kMostPatienceByTime);
	int64_t now = kNow;
	/* It does not matter whether the number of rows falls, since their time will come. */
	for (int i = 0; i < 20; i++)
	{
		watch = read_kept(watch, now, 1000 * kRingInterval, 1000 * kRingInterval);
		ASSERT_EQ(watch.phase, SegmentWatch::kReading);
		ASSERT_GT(watch.due, now);
		now = watch.due;
	}
	EXPECT_EQ(watch.patience, kMostPatienceByTime);
	/* The wait is not longer than the rows are still kept. */
	watch = read_kept(watch, now, 1000 * kRingInterval, kRingInterval);
	EXPECT_EQ(watch.due, now + kRingInterval);
}

TEST(SegmentWatch, RowsThatAreKeptForMuchLongerAreMoved)
{
	SegmentWatch watch{};
	watch.close(kNow, kMostPatienceByTime);
	watch = read_kept(watch, kNow, 10 * kRingInterval, 11 * kRingInterval);
	ASSERT_EQ(watch.phase, SegmentWatch::kReading);
	watch = read_kept(watch, kNow + kRingInterval, 10 * kRingInterval, 11 * kRingInterval);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
}

TEST(SegmentWatch, ASegmentOfSurvivorsKeepsItsRows)
{
	SegmentWatch watch = read_segment(7, 1000, false, true);
	watch.live_before = 1000;
	watch.note_reading(kNow, [] { return true; });
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow + 2 * kRingInterval);
	/* from the first page, since dead rows before the first live row count too */
	EXPECT_EQ(watch.pass.next, 0u);
	EXPECT_EQ(watch.pass.dead, 0);
}

TEST(SegmentWatch, WithoutARowItIsToBeTruncated)
{
	SegmentWatch watch = read_segment(kNoBlock, 0, false, true);
	watch.note_reading(kNow + 5, no_survivors);
	EXPECT_EQ(watch.phase, SegmentWatch::kEmpty);
	EXPECT_EQ(watch.changed_at, 0u);
	EXPECT_LE(watch.due, kNow + 5); /* at once */

	watch.due = kNow + kRingInterval;
	watch.note_lock(kNow);
	EXPECT_EQ(watch.phase, SegmentWatch::kEmpty);
	EXPECT_EQ(watch.due, kNow + 2 * kRingInterval);

	watch.note_rows();
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.pass.next, 0u);
	EXPECT_EQ(watch.due, kNow + 2 * kRingInterval);
}

SegmentWatch
draining_segment()
{
	SegmentWatch watch = read_segment(7, 1000, false, true);
	watch.live_before = 1000;
	watch.patience = 8 * kRingInterval;
	watch.note_reading(kNow, no_survivors);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	return watch;
}

TEST(SegmentWatch, WhatIsLeftByAMoveIsLookedForAgain)
{
	SegmentWatch watch = draining_segment();
	watch.begin_batch();
	watch.note_batch(kNow, 64, false);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	watch.begin_batch();
	watch.note_batch(kNow, 0, true);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow + kRingInterval); /* read again soon, since rows were moved */

	watch = draining_segment();
	watch.begin_batch();
	watch.note_batch(kNow, 0, true);
	EXPECT_EQ(watch.due, kNow + 16 * kRingInterval); /* wait longer, since all rows are locked */
}

/* The rows of a batch that has failed are tried one by one, and the row that fails is skipped. */
TEST(SegmentWatch, ARowThatCannotBeMovedStaysAlone)
{
	SegmentWatch watch = draining_segment();
	watch.begin_batch();
	watch.move_from = {9, 3};
	watch.note_error(kNow);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	EXPECT_EQ(watch.move_from, (Position{7, kFirstOffset}));
	EXPECT_EQ(watch.batch, 1);
	EXPECT_FALSE(watch.failing);

	watch.begin_batch();
	watch.move_from = {7, 2};
	watch.note_error(kNow);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	EXPECT_EQ(watch.move_from, (Position{7, 2}));
	EXPECT_TRUE(watch.failing);

	watch.begin_batch();
	watch.note_batch(kNow, 1, true);
	watch.note_success(kNow, true);
	EXPECT_TRUE(watch.failing);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow + kAfterRingError);

	/* The next drain begins without the failure. */
	watch.live_before = 1000;
	watch.pass = {.next = 100, .first_live = 7, .live_bytes = 900, .at_end = true};
	watch.note_reading(kNow, no_survivors);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	EXPECT_EQ(watch.batch, SegmentWatch::kMoveAtOnce);
	watch.note_success(kNow, true);
	EXPECT_FALSE(watch.failing);
}

TEST(SegmentWatch, AMoveThatCannotEvenBeginComesLater)
{
	SegmentWatch watch = draining_segment();
	watch.batch = 1;
	watch.begin_batch();
	watch.note_error(kNow);
	EXPECT_TRUE(watch.failing);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.due, kNow + kAfterRingError);
}

TEST(SegmentWatch, AnyOtherErrorBeginsAnewInAMinute)
{
	SegmentWatch watch = draining_segment();
	watch.note_error(kNow);
	EXPECT_TRUE(watch.failing);
	EXPECT_EQ(watch.phase, SegmentWatch::kReading);
	EXPECT_EQ(watch.pass.next, 0u);
	EXPECT_EQ(watch.due, kNow + kAfterRingError);
	watch.note_success(kNow, true);
	EXPECT_FALSE(watch.failing);
}

TEST(SegmentWatch, WithoutItsLocksItIsTriedASecondLater)
{
	SegmentWatch watch = draining_segment();
	watch.note_success(kNow, false);
	EXPECT_EQ(watch.phase, SegmentWatch::kDraining);
	EXPECT_EQ(watch.due, kNow + kRingInterval);
}

TEST(SegmentWatch, TheOneDueForLongestIsServed)
{
	SegmentWatch watches[kAllSegments] = {};
	EXPECT_EQ(segment_in_turn(watches, kNow), -1);
	EXPECT_EQ(next_turn(watches, kNow + 7), kNow + 7);
	watches[3].close(kNow + 3);
	watches[9].close(kNow + 2);
	EXPECT_EQ(segment_in_turn(watches, kNow), -1);
	EXPECT_EQ(next_turn(watches, kNow + 7), kNow + 2);
	EXPECT_EQ(segment_in_turn(watches, kNow + 5), 9);
	watches[9] = {};
	EXPECT_EQ(segment_in_turn(watches, kNow + 5), 3);
}

} // namespace
