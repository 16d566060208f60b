#include "core/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace {

using pgq::backoff_delay;
using pgq::BackoffOptions;

constexpr int64_t kSecond = 1000000;
constexpr int64_t kYear = 366 * 24 * 3600 * kSecond;
constexpr double kAlmostOne = 1.0 - 0x1p-53;

TEST(Backoff, DoublesFromBaseToMax)
{
	BackoffOptions options{.base = kSecond, .max = 10 * kSecond, .jitter = 0};
	int64_t seconds[] = {1, 2, 4, 8, 10, 10, 10};
	for (int failed = 1; failed <= 7; failed++)
		EXPECT_EQ(backoff_delay(options, failed, 0.3), seconds[failed - 1] * kSecond) << failed;
}

/*
 * The jitter is applied after the cap, so that the retries of many jobs which have all reached the
 * cap are spread too.
 */
TEST(Backoff, JitterGoesBothWaysAlsoAtTheCap)
{
	BackoffOptions options{.base = 100 * kSecond, .max = 1000 * kSecond, .jitter = 0.2};
	for (int failed : {1, 50})
	{
		int64_t middle = failed == 1 ? options.base : options.max;
		EXPECT_EQ(backoff_delay(options, failed, 0), middle / 10 * 8);
		EXPECT_EQ(backoff_delay(options, failed, 0.5), middle);
		EXPECT_NEAR(backoff_delay(options, failed, kAlmostOne), middle / 10 * 12, 1);
	}
}

TEST(Backoff, JitterOfOneReachesFromNothingToTwice)
{
	BackoffOptions options{.base = kSecond, .max = kYear, .jitter = 1};
	EXPECT_EQ(backoff_delay(options, 1, 0), 0);
	EXPECT_NEAR(backoff_delay(options, 1, kAlmostOne), 2 * kSecond, 1);
}

TEST(Backoff, ManyFailuresEndAtTheCap)
{
	BackoffOptions options{.base = 1, .max = 100 * kYear, .jitter = 0};
	for (int32_t failed : {53, 64, 65, 1024, 1025, 100000, INT32_MAX})
		EXPECT_EQ(backoff_delay(options, failed, 0.5), options.max) << failed;
}

TEST(Backoff, NothingDoubledIsNothing)
{
	BackoffOptions options{.base = 0, .max = kSecond, .jitter = 0.5};
	for (int32_t failed : {1, 2, 2000, INT32_MAX})
		EXPECT_EQ(backoff_delay(options, failed, 0.9), 0) << failed;
}

/* If max is less than base, max counts. A number of failures below 1 counts as 1. */
TEST(Backoff, OddOptions)
{
	BackoffOptions options{.base = 10 * kSecond, .max = 3 * kSecond, .jitter = 0};
	EXPECT_EQ(backoff_delay(options, 1, 0.5), 3 * kSecond);
	options.max = kYear;
	EXPECT_EQ(backoff_delay(options, 0, 0.5), 10 * kSecond);
	EXPECT_EQ(backoff_delay(options, -5, 0.5), 10 * kSecond);
}

TEST(Backoff, StaysWithinItsBounds)
{
	std::mt19937_64 random(1);
	std::uniform_real_distribution<double> uniform(0, 1);
	for (int i = 0; i < 100000; i++)
	{
		BackoffOptions options;
		options.base = random() % (kYear + 1) >> random() % 50;
		options.max = random() % (kYear + 1) >> random() % 50;
		options.jitter = i % 3 == 0 ? i % 2 : uniform(random);
		int32_t failed = 1 + random() % (i % 2 ? 30 : INT32_MAX);

		__int128 doubled = static_cast<__int128>(options.base) << std::min(failed - 1, 60);
		auto middle = static_cast<int64_t>(std::min<__int128>(options.max, doubled));

		int64_t delay = backoff_delay(options, failed, uniform(random));
		/* Allow a microsecond for rounding. */
		ASSERT_GE(delay, middle * (1 - options.jitter) - 1) << options.base << ' ' << failed;
		ASSERT_LE(delay, middle * (1 + options.jitter) + 1) << options.base << ' ' << failed;
		ASSERT_GE(delay, 0);
	}
}

} // namespace
