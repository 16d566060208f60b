#include "core/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using pgq::Rate;

constexpr int64_t kPeriod = 16000;

int64_t
in_window(const std::vector<int64_t> &starts, int64_t from, int64_t period)
{
	return std::count_if(starts.begin(), starts.end(),
						 [&](int64_t at) { return at >= from && at < from + period; });
}

TEST(Rate, AllAtOnceThenNoneForAPeriod)
{
	Rate rate;
	rate.restart(kPeriod, 500);
	rate.note(10, 500);
	EXPECT_EQ(rate.less_than(11, 500), 500);
	EXPECT_EQ(rate.less_than(10, 500), 17000);
	EXPECT_EQ(rate.started(16999), 10);
	EXPECT_EQ(rate.started(17000), 0);
}

TEST(Rate, ThoseThatStartedFirstAreForgottenFirst)
{
	Rate rate;
	rate.restart(kPeriod, 0);
	for (int i = 0; i < 10; i++)
		rate.note(1, i * 1000);
	EXPECT_EQ(rate.less_than(10, 9000), 17000);
	EXPECT_EQ(rate.less_than(8, 9000), 19000);
	EXPECT_EQ(rate.less_than(1, 9000), 26000);
	EXPECT_EQ(rate.started(19000), 7);
}

/*
 * Start as many jobs as early as allowed. No window has more than the limit, and in the long run
 * nearly the limit is reached.
 */
TEST(Rate, NeverExceededAndUsed)
{
	std::mt19937 random(1);
	for (int64_t period : {16, 1000, 16000, 999983})
		for (int64_t limit : {1, 2, 10, 100})
		{
			Rate rate;
			std::vector<int64_t> starts;
			int64_t now = random() % period;
			int64_t began = now;
			rate.restart(period, now);
			while (starts.size() < 30 * static_cast<size_t>(limit))
			{
				now = rate.less_than(limit, now);
				/* Usually at once, sometimes later, sometimes several. */
				if (random() % 4 == 0)
					now += random() % (period / 16 + 1);
				int64_t n = 1 + random() % (limit - rate.started(now));
				rate.note(n, now);
				starts.insert(starts.end(), n, now);
			}
			for (int64_t from : starts)
				ASSERT_LE(in_window(starts, from, period), limit) << period << " " << limit;
			/* Not much slower than 30 periods plus the delays. */
			EXPECT_LT(now - began, 2 * 30 * (period + 17)) << period << " " << limit;
		}
}

TEST(Rate, FullRateIsSixteenOfSeventeen)
{
	Rate rate;
	int64_t now = 0;
	int64_t starts = 0;
	rate.restart(kPeriod, now);
	for (; now < 1000 * kPeriod; now = rate.less_than(10, now))
	{
		rate.note(1, now);
		starts++;
	}
	EXPECT_GE(starts, 1000 * 10 * 16 / 17);
}

/* Starts of the old period count in the new one as if they had come when the period was changed. */
TEST(Rate, AnotherPeriod)
{
	Rate rate;
	rate.restart(kPeriod, 0);
	rate.note(5, 0);
	rate.set_period(10 * kPeriod, 2000);
	EXPECT_EQ(rate.started(2000), 5);
	EXPECT_EQ(rate.less_than(5, 2000), 17 * kPeriod * 10 / 16);
	rate.set_period(kPeriod, 160000);
	EXPECT_EQ(rate.started(160000), 5);
	EXPECT_EQ(rate.less_than(1, 160000), 177000);
}

/* At any time the merged counter reports at least as many starts as either, and not many more. */
TEST(Rate, Cover)
{
	std::mt19937 random(3);
	for (int n = 0; n < 300; n++)
	{
		pgq::SmallRate one, other;
		int64_t now = random() % 100000;
		one.restart(kPeriod, now);
		other.restart(kPeriod, now);
		for (int i = 0; i < 20; i++)
		{
			now += random() % 3000;
			(random() % 2 == 0 ? one : other).note(1 + random() % 3, now);
		}
		pgq::SmallRate both = one;
		both.cover(other, now);
		for (int64_t later = now; later < now + 2 * kPeriod; later += 100)
			ASSERT_EQ(both.started(later), std::max(one.started(later), other.started(later)));
	}
}

/*
 * A copy made from the parts counts the starts for at least a period, even if they are from before
 * its clock began.
 */
TEST(Rate, PartsMakeACopy)
{
	std::mt19937 random(4);
	for (int n = 0; n < 300; n++)
	{
		Rate rate;
		int64_t now = random() % 100000;
		rate.restart(kPeriod, now);
		std::vector<int64_t> starts;
		for (int i = 0; i < 30; i++)
			rate.note(1, starts.emplace_back(now += random() % 3000));
		/* The clock of the copy begins anew. */
		int64_t back = now + random() % 2000 - 1000;
		Rate copy;
		copy.restart(kPeriod, now - 2 * kPeriod - back);
		int64_t last = -1;
		rate.for_each_part(now, [&](int64_t count, int64_t when) {
			EXPECT_LT(last, when);
			EXPECT_LE(when, now);
			last = when;
			copy.note(count, when - back);
		});
		EXPECT_EQ(copy.started(now - back), rate.started(now));
		for (int64_t later = now; later < now + 2 * kPeriod; later += 100)
			ASSERT_GE(copy.started(later - back), in_window(starts, later - kPeriod + 1, kPeriod));
		EXPECT_EQ(copy.started(now - back + kPeriod + kPeriod / 8), 0);
	}
}

TEST(Rate, BeforeTheClockBegan)
{
	Rate rate;
	rate.restart(kPeriod, -2 * kPeriod);
	rate.note(3, -1);
	rate.note(4, 0);
	EXPECT_EQ(rate.started(kPeriod - 1), 7);
	EXPECT_EQ(rate.started(kPeriod), 4);
	EXPECT_EQ(rate.started(kPeriod + 1000), 0);
	rate.restart(kPeriod, -5000);
	rate.note(2, -5000);
	EXPECT_EQ(rate.all_forgotten(-5000), 12000);
	EXPECT_EQ(rate.less_than(1, -5000), 12000);
	EXPECT_EQ(rate.started(11999), 2);
	EXPECT_EQ(rate.started(12000), 0);
}

TEST(Rate, LongRestAndLongPeriods)
{
	constexpr int64_t kDay = INT64_C(86400) * 1000000;
	Rate rate;
	rate.restart(366 * 1000 * kDay, 100 * 366 * kDay);
	rate.note(INT32_MAX, 100 * 366 * kDay);
	EXPECT_EQ(rate.started(1000 * 366 * kDay), INT32_MAX);
	EXPECT_EQ(rate.started(1200 * 366 * kDay), 0);
	EXPECT_EQ(rate.less_than(1, 1200 * 366 * kDay), 1200 * 366 * kDay);
}

} // namespace
