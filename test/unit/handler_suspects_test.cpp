#include "core/handler_suspects.h"

#include <gtest/gtest.h>

#include <map>

namespace {

using namespace pgq;

constexpr int64_t kNow = 1'000'000'000;
constexpr int64_t kHour = HandlerSuspects::kForgottenAfter;

HandlerCall
call(int64_t job)
{
	return {5, 1, job};
}

class Suspects : public testing::Test
{
protected:
	/* Return the number of crashes of each suspect of the last end, by job. */
	std::map<int64_t, int> fresh() const
	{
		std::map<int64_t, int> found;
		suspects.for_each_fresh(
			[&](const HandlerCall &of, int crashes) { found[of.job_id] = crashes; });
		return found;
	}
	using Found = std::map<int64_t, int>;

	HandlerSuspects suspects = {};
};

TEST_F(Suspects, ASureOneCountsEachTime)
{
	suspects.suspect(call(7), kNow);
	EXPECT_EQ(fresh(), (Found{{7, 1}}));
	suspects.begin_end();
	EXPECT_EQ(fresh(), Found{});
	suspects.suspect(call(7), kNow + kHour - 1);
	EXPECT_EQ(fresh(), (Found{{7, 2}}));
	suspects.begin_end();
	suspects.suspect(call(7), kNow + 2 * kHour - 1);
	EXPECT_EQ(fresh(), (Found{{7, 1}}));
}

TEST_F(Suspects, AWeakOneCountsWhenItComesAgainSoonAfterAStart)
{
	suspects.suspect_weakly(call(7), true, kNow);
	EXPECT_EQ(fresh(), Found{});
	suspects.suspect_weakly(call(7), false, kNow + 1);
	EXPECT_EQ(fresh(), Found{});
	suspects.suspect_weakly(call(7), true, kNow + 2);
	EXPECT_EQ(fresh(), (Found{{7, 1}}));
	suspects.begin_end();
	suspects.suspect_weakly(call(7), true, kNow + 3);
	EXPECT_EQ(fresh(), (Found{{7, 2}}));
	suspects.begin_end();
	suspects.suspect_weakly(call(7), true, kNow + 3 + kHour);
	EXPECT_EQ(fresh(), Found{});
}

TEST_F(Suspects, CallsOfOthersAreOthers)
{
	suspects.suspect(call(7), kNow);
	suspects.begin_end();
	for (HandlerCall other : {HandlerCall{6, 1, 7}, HandlerCall{5, 2, 7}, call(8), call(0)})
		suspects.suspect(other, kNow + 1);
	suspects.for_each_fresh([](const HandlerCall &, int crashes) { EXPECT_EQ(crashes, 1); });
}

TEST_F(Suspects, TheOldestIsForgottenIfThereIsNoRoom)
{
	for (int i = 0; i < kCrashSuspects; i++)
		suspects.suspect(call(100 + i), kNow + i);
	suspects.suspect(call(100), kNow + kCrashSuspects);
	suspects.suspect(call(7), kNow + kCrashSuspects + 1);
	Found found = fresh();
	EXPECT_EQ(found.size(), size_t{kCrashSuspects});
	EXPECT_EQ(found.count(101), 0U);
	EXPECT_EQ(found[100], 2);
	EXPECT_EQ(found[7], 1);
}

TEST_F(Suspects, TheMachineMayHaveStartedAgain)
{
	suspects.suspect(call(7), kNow);
	suspects.move_times(10 - kNow);
	suspects.suspect(call(8), 20);
	suspects.suspect(call(7), 30);
	EXPECT_EQ(fresh(), (Found{{7, 2}, {8, 1}}));
	suspects.move_times(-100 - kHour);
	suspects.suspect(call(8), 40);
	EXPECT_EQ(fresh(), (Found{{7, 2}, {8, 1}}));
}

} // namespace
