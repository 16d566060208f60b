#include "core/steady_clock.h"

#include <gtest/gtest.h>

namespace {

using pgq::SteadyClock;

constexpr int64_t kSecond = 1000 * 1000;
constexpr int64_t kMinute = SteadyClock::kProbation;
constexpr int64_t kNoon = 12 * 60 * kMinute; /* wall-clock time at monotonic time 0 */

TEST(SteadyClock, IsTrustedAMinuteAfterTheFirstLook)
{
	SteadyClock clock{};
	EXPECT_FALSE(clock.trusted(kNoon, 0));
	EXPECT_EQ(clock.look(kNoon, 0), 0);
	EXPECT_FALSE(clock.trusted(kNoon, 0));
	EXPECT_EQ(clock.trusted_from(), kMinute);
	EXPECT_FALSE(clock.trusted(kNoon + kMinute - 1, kMinute - 1));
	EXPECT_TRUE(clock.trusted(kNoon + kMinute, kMinute));
}

TEST(SteadyClock, IsNotTrustedForAMinuteAfterAJump)
{
	for (int64_t jump : {kSecond, -kSecond, 365 * 24 * 60 * kMinute, -10 * kMinute})
	{
		SteadyClock clock{};
		clock.look(kNoon, 0);
		int64_t now = 2 * kMinute;
		EXPECT_TRUE(clock.trusted(kNoon + now, now));
		/* There was no look yet, but the reading itself shows the jump. */
		EXPECT_FALSE(clock.trusted(kNoon + now + jump, now));
		EXPECT_EQ(clock.look(kNoon + now + jump, now), jump);
		EXPECT_FALSE(clock.trusted(kNoon + now + jump, now));
		EXPECT_EQ(clock.look(kNoon + now + jump, now), 0) << "told once";
		now += kMinute;
		EXPECT_TRUE(clock.trusted(kNoon + now + jump, now));
		EXPECT_FALSE(clock.trusted(kNoon + now, now)) << "it was set right meanwhile";
	}
}

/*
 * Actions that cannot be undone wait after a start. Schedules do not; they wait after a jump only.
 */
TEST(SteadyClock, IsSteadyFromTheFirstLookUntilItIsSet)
{
	SteadyClock clock{};
	EXPECT_FALSE(clock.steady(kNoon, 0));
	clock.look(kNoon, 0);
	EXPECT_TRUE(clock.steady(kNoon, 0));
	EXPECT_FALSE(clock.trusted(kNoon, 0));
	EXPECT_FALSE(clock.steady(kNoon + kMinute, 1)) << "not looked at yet, but the reading says it";
	clock.look(kNoon + kMinute, 1);
	EXPECT_FALSE(clock.steady(kNoon + kMinute, 1));
	EXPECT_FALSE(clock.steady(kNoon + 2 * kMinute - 1, kMinute));
	EXPECT_TRUE(clock.steady(kNoon + 2 * kMinute, kMinute + 1));
	EXPECT_TRUE(clock.trusted(kNoon + 2 * kMinute, kMinute + 1));
}

TEST(SteadyClock, IsTrustedWhileItDrifts)
{
	SteadyClock clock{};
	clock.look(kNoon, 0);
	int64_t drift = 0;
	for (int64_t now = kMinute; now < 100 * kMinute; now += kMinute)
	{
		drift += kSecond - 1;
		EXPECT_TRUE(clock.trusted(kNoon + now + drift, now));
		EXPECT_EQ(clock.look(kNoon + now + drift, now), 0);
	}
}

TEST(SteadyClock, AJumpIsJudgedSinceTheLastLookHoweverLongAgo)
{
	SteadyClock clock{};
	clock.look(kNoon, 0);
	EXPECT_EQ(clock.look(kNoon + 1000 * kMinute, 1000 * kMinute), 0);
	EXPECT_EQ(clock.look(kNoon + 1500 * kMinute, 1001 * kMinute), 499 * kMinute);
}

} // namespace
