#include "core/gcra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using pgq::Gcra;

/*
 * Return the most permits taken in any window of one period. The fullest window begins with one of
 * the takes.
 */
int64_t
most_in_a_period(const std::vector<int64_t> &taken, int64_t period)
{
	int64_t most = 0;
	for (auto from = taken.begin(); from != taken.end(); ++from)
		most = std::max<int64_t>(most, std::lower_bound(from, taken.end(), *from + period) - from);
	return most;
}

struct Case
{
	int64_t permits, period, burst;
};

const Case cases[] = {{1, 1000, 1},	  {2, 1000, 1},	   {2, 1000, 2},		{10, 1000, 1},
					  {10, 1000, 2},  {10, 1000, 10},  {7, 1001, 3},		{100, 60000, 50},
					  {100, 99, 100}, {3, 1000003, 2}, {1000, 1000000, 999}};

TEST(Gcra, EmptyAtFirst)
{
	for (const auto &[permits, period, burst] : cases)
	{
		Gcra gcra;
		gcra.restart(permits, period, burst, 500);
		EXPECT_EQ(gcra.available(500), 0);
		EXPECT_GT(gcra.earliest(1, 500), 500);
		EXPECT_EQ(gcra.available(gcra.earliest(1, 500)), 1);
		EXPECT_EQ(gcra.available(gcra.earliest(burst, 500)), burst);
	}
}

/* Take permits as soon as possible, one by one or several, at once or after a rest. */
TEST(Gcra, NeverMoreInAnyWindowAndAsManyAsThat)
{
	std::mt19937 random(1);
	for (const auto &[permits, period, burst] : cases)
	{
		Gcra gcra;
		std::vector<int64_t> taken;
		int64_t now = 0;
		gcra.restart(permits, period, burst, now);
		/* A full bucket and the takes that follow: the fullest possible window. */
		now += 2 * burst * period;
		for (int64_t i = 0; i < 2 * permits; i++)
		{
			now = gcra.earliest(1, now);
			gcra.take(1, now);
			taken.push_back(now);
		}
		EXPECT_EQ(most_in_a_period(taken, period), permits) << permits << " " << burst;
		for (int i = 0; i < 2000; i++)
		{
			int64_t n = 1 + static_cast<int64_t>(random()) % burst;
			if (random() % 10 == 0)
				now += static_cast<int64_t>(random()) % period;
			now = gcra.earliest(n, now);
			EXPECT_GE(gcra.available(now), n);
			gcra.take(n, now);
			taken.insert(taken.end(), n, now);
		}
		EXPECT_LE(most_in_a_period(taken, period), permits) << permits << " " << burst;
	}
}

/* A start forgets earlier takes. That must not allow more permits than the limit. */
TEST(Gcra, NotExceededAcrossAStart)
{
	for (const auto &[permits, period, burst] : cases)
	{
		Gcra gcra;
		std::vector<int64_t> taken;
		int64_t now = 0;
		gcra.restart(permits, period, burst, now);
		now += 2 * burst * period;
		for (int64_t i = 0; i < 3 * permits; i++)
		{
			if (i % permits == permits / 2)
				gcra.restart(permits, period, burst, now);
			now = gcra.earliest(1, now);
			gcra.take(1, now);
			taken.push_back(now);
		}
		EXPECT_LE(most_in_a_period(taken, period), permits) << permits << " " << burst;
	}
}

TEST(Gcra, AReservationIsGivenBackIfItIsTheLast)
{
	Gcra gcra;
	gcra.restart(10, 1000, 1, 0);
	int64_t first = gcra.earliest(1, 0);
	EXPECT_EQ(first, 100);
	int64_t taken = gcra.take(1, first);
	EXPECT_EQ(gcra.earliest(1, 0), 200);
	gcra.give_back(1, taken);
	EXPECT_EQ(gcra.earliest(1, 0), 100);
	taken = gcra.take(1, 100);
	gcra.take(1, 200);
	gcra.give_back(1, taken);
	EXPECT_EQ(gcra.earliest(1, 0), 300) << "somebody has reserved after it";
}

} // namespace
