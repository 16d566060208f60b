#include "core/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using pgq::Histogram;
using pgq::RecentHistogram;
using Counts = Histogram::Counts;

constexpr int64_t kSecond = 1000000;
constexpr int64_t kPart = RecentHistogram::kPart;

/* Return a random duration. All orders of magnitude are equally likely. */
int64_t
any_duration(std::mt19937_64 &random)
{
	return static_cast<int64_t>(random() >> (63 - random() % 42));
}

TEST(Buckets, FollowOneAnother)
{
	EXPECT_EQ(Counts::start_of(0), 0);
	EXPECT_EQ(Counts::start_of(Counts::kBuckets), Counts::kMost + 1);
	for (int i = 0; i < Counts::kBuckets; i++)
	{
		ASSERT_LT(Counts::start_of(i), Counts::start_of(i + 1)) << i;
		ASSERT_EQ(Counts::bucket_of(Counts::start_of(i)), i);
		ASSERT_EQ(Counts::bucket_of(Counts::start_of(i + 1) - 1), i);
	}
}

TEST(Buckets, PowersOfTwoAreBoundaries)
{
	for (int64_t boundary = 1; boundary <= Counts::kMost; boundary *= 2)
		EXPECT_EQ(Counts::start_of(Counts::bucket_of(boundary)), boundary);
}

TEST(Buckets, TheMiddleIsWithinASixteenth)
{
	std::mt19937_64 random(1);
	for (int64_t i = 0; i < 200000; i++)
	{
		int64_t duration = i < 5000 ? i : any_duration(random);
		double error =
			static_cast<double>(Counts::middle_of(Counts::bucket_of(duration)) - duration);
		ASSERT_LE(std::abs(error), static_cast<double>(duration) / 16) << duration;
	}
}

TEST(Buckets, BelowEightNothingIsRounded)
{
	for (int duration = 0; duration < 8; duration++)
		EXPECT_EQ(Counts::middle_of(Counts::bucket_of(duration)), duration);
}

TEST(Buckets, WhatIsTooShortOrTooLongIsInTheFirstOrTheLast)
{
	Histogram histogram;
	histogram.clear();
	histogram.add(-1);
	histogram.add(INT64_MIN);
	histogram.add(Counts::kMost + 1);
	histogram.add(INT64_MAX);
	EXPECT_EQ(histogram.counts().at(0), 2);
	EXPECT_EQ(histogram.counts().at(Counts::kBuckets - 1), 2);
	EXPECT_EQ(histogram.sum(), 2 * static_cast<uint64_t>(Counts::kMost));
}

TEST(Buckets, PercentilesAreThoseOfTheSortedOnes)
{
	std::mt19937_64 random(2);
	for (int round = 0; round < 300; round++)
	{
		std::vector<int64_t> all(1 + random() % 500);
		Counts counts;
		counts.clear();
		for (int64_t &duration : all)
			counts.add(duration = any_duration(random));
		std::sort(all.begin(), all.end());
		ASSERT_EQ(counts.count(), static_cast<int64_t>(all.size()));
		for (int percent : {1, 50, 95, 99, 100})
		{
			/* The smallest rank that covers `percent` percent of all durations. */
			size_t rank = 1;
			while (rank * 100 < all.size() * percent)
				rank++;
			double exact = static_cast<double>(all[rank - 1]);
			ASSERT_NEAR(static_cast<double>(counts.percentile(percent)), exact, exact / 16)
				<< percent << " % of " << all.size();
		}
	}
}

TEST(Buckets, OfNothingThereIsNoPercentile)
{
	Counts counts;
	counts.clear();
	EXPECT_EQ(counts.count(), 0);
	EXPECT_EQ(counts.percentile(95), 0);
}

TEST(Buckets, MergedAreAsIfCountedTogether)
{
	std::mt19937_64 random(3);
	Counts together, merged;
	pgq::Buckets<uint32_t> other;
	together.clear();
	merged.clear();
	other.clear();
	for (int i = 0; i < 10000; i++)
	{
		int64_t duration = any_duration(random);
		together.add(duration);
		if (i % 3 == 0)
			other.add(duration);
		else
			merged.add(duration);
	}
	merged.merge(other);
	for (int i = 0; i < Counts::kBuckets; i++)
		ASSERT_EQ(merged.at(i), together.at(i)) << i;
}

TEST(Histogram, SumIsExact)
{
	std::mt19937_64 random(4);
	Histogram histogram;
	uint64_t sum = 0;
	histogram.clear();
	for (int i = 0; i < 10000; i++)
	{
		auto duration = static_cast<int64_t>(random() % (3600 * kSecond));
		histogram.add(duration);
		sum += duration;
	}
	EXPECT_EQ(histogram.sum(), sum);
	EXPECT_EQ(histogram.counts().count(), 10000);
	histogram.clear();
	EXPECT_EQ(histogram.sum(), 0u);
	EXPECT_EQ(histogram.counts().count(), 0);
}

TEST(RecentHistogram, ForgetsAfterFiveToTenMinutes)
{
	std::mt19937_64 random(5);
	for (int64_t begin : {int64_t{0}, 7 * kPart, 8 * kPart + 12345})
	{
		RecentHistogram recent;
		recent.clear();
		recent.add(3, begin);
		int64_t end = (begin / kPart + 2) * kPart;
		EXPECT_EQ(recent.counts(begin).count(), 1);
		EXPECT_EQ(recent.counts(begin + kPart).count(), 1);
		EXPECT_EQ(recent.counts(end - 1).count(), 1);
		EXPECT_EQ(recent.counts(end).count(), 0);
		EXPECT_EQ(recent.counts(end + 1000 * kPart).count(), 0);
	}
}

/* Compare with a list of all durations. */
TEST(RecentHistogram, CountsThePresentPartAndTheOneBefore)
{
	std::mt19937_64 random(6);
	for (int round = 0; round < 200; round++)
	{
		RecentHistogram recent;
		std::vector<std::pair<int64_t, int>> all;
		auto now = static_cast<int64_t>(random() % (100 * kPart));
		recent.clear();
		for (int step = 0; step < 200; step++)
		{
			now += static_cast<int64_t>(random() % kPart) * (random() % 20 == 0 ? 5 : 1) / 4;
			if (random() % 4 != 0)
			{
				auto duration = static_cast<int>(random() % 100);
				recent.add(duration, now);
				all.emplace_back(now / kPart, duration);
			}
			Counts expected;
			expected.clear();
			for (auto [part, duration] : all)
				if (part >= now / kPart - 1)
					expected.add(duration);
			Counts counts = recent.counts(now);
			for (int i = 0; i < Counts::kBuckets; i++)
				ASSERT_EQ(counts.at(i), expected.at(i)) << "round " << round << ", step " << step;
		}
	}
}

/* A process may have waited for the lock after it has read the clock, so its time is older. */
TEST(RecentHistogram, AnOlderTimeChangesNothing)
{
	RecentHistogram recent;
	recent.clear();
	recent.add(1, 10 * kPart);
	recent.add(2, 9 * kPart);
	recent.add(4, 5 * kPart);
	EXPECT_EQ(recent.counts(11 * kPart).count(), 3);
	EXPECT_EQ(recent.counts(5 * kPart).count(), 3);
	EXPECT_EQ(recent.counts(12 * kPart).count(), 0);
}

} // namespace
