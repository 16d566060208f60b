#include "core/due_seconds.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

using pgq::DueSeconds;

namespace {

constexpr int64_t kNow = 1000;
constexpr int64_t kEnd =
	kNow - DueSeconds::kSlack + DueSeconds::kSeconds; /* the last second that is known */

DueSeconds
begun()
{
	DueSeconds due{};
	due.reset(kNow);
	return due;
}

} // namespace

TEST(DueSeconds, SecondsBeginAtWholeOnes)
{
	EXPECT_EQ(DueSeconds::second_of(0), 0);
	EXPECT_EQ(DueSeconds::second_of(999999), 0);
	EXPECT_EQ(DueSeconds::second_of(1000000), 1);
	EXPECT_EQ(DueSeconds::second_of(-1), -1);
	EXPECT_EQ(DueSeconds::second_of(-1000000), -1);
	EXPECT_EQ(DueSeconds::second_of(-1000001), -2);
}

TEST(DueSeconds, TimeChangesNoNumber)
{
	DueSeconds due = begun();
	due.add(kNow + 1, 3);
	due.add(kNow + 10, 2);
	due.add(kEnd, 1);
	due.add(kEnd + 1, 4);
	EXPECT_EQ(due.waiting(kNow), 10);
	EXPECT_EQ(due.waiting(kNow + 1), 7);
	EXPECT_EQ(due.waiting(kNow + 10), 5);
	EXPECT_EQ(due.waiting(kNow + 5), 7) << "the clock is set back a little";
	due.add(kNow + 1, -3);
	EXPECT_EQ(due.waiting(kNow + 10), 5) << "what is due already has ended";
	EXPECT_EQ(due.waiting(kNow), 7);
	EXPECT_EQ(due.waiting(kEnd), 4);
}

TEST(DueSeconds, KnowsNoFartherThanItReaches)
{
	DueSeconds due = begun();
	EXPECT_TRUE(due.knows(kNow - DueSeconds::kSlack));
	EXPECT_FALSE(due.knows(kNow - DueSeconds::kSlack - 1));
	EXPECT_TRUE(due.knows(kEnd));
	EXPECT_FALSE(due.knows(kEnd + 1));
	EXPECT_FALSE(due.wants_part(kNow));
	EXPECT_TRUE(due.wants_part(kEnd - 10));
	EXPECT_FALSE(due.wants_part(kEnd + 1)) << "too late: all is counted anew";
}

TEST(DueSeconds, SlidesIfNothingIsBeyond)
{
	DueSeconds due = begun();
	due.add(kEnd, 2);
	EXPECT_TRUE(due.slide(kEnd - 10));
	EXPECT_EQ(due.waiting(kEnd - 10), 2);
	due.add(kEnd + 100, 3);
	EXPECT_EQ(due.waiting(kEnd + 99), 3);
	EXPECT_EQ(due.waiting(kEnd + 100), 0);
	due.add(kEnd + 2 * DueSeconds::kSeconds, 1);
	EXPECT_FALSE(due.slide(kEnd + 500));
}

TEST(DueSeconds, APartIsOutOfWhatIsBeyond)
{
	DueSeconds due = begun();
	DueSeconds found{};
	due.add(kEnd + 5, 2);
	due.add(kEnd + 5000, 7);
	int64_t now = kEnd - 10;
	due.begin_part(now);
	found.begin_like(due);
	EXPECT_EQ(due.waiting(now), 9) << "as before, while it is read";
	found.add(kEnd + 5, 2);
	/* a job that is enqueued during the reading */
	due.add(kEnd + 6, 1);
	due.add_to_part(kEnd + 6, 1);
	EXPECT_EQ(due.waiting(now), 10);
	due.finish_part(found);
	EXPECT_EQ(due.waiting(now), 10);
	EXPECT_TRUE(due.in_last_part(kEnd + 5));
	EXPECT_FALSE(due.in_last_part(kEnd));
	EXPECT_EQ(due.waiting(kEnd + 5), 8);
	EXPECT_EQ(due.waiting(kEnd + 6), 7);
}

TEST(DueSeconds, APartBeginsAndEndsAtItsSeconds)
{
	DueSeconds due = begun();
	int64_t from = due.known_to();
	int64_t now = from - 10;
	due.begin_part(now);
	due.add_to_part(from, 8);
	due.add_to_part(from + 1, 1);
	due.add_to_part(due.reading_to(), 2);
	due.add_to_part(due.reading_to() + 1, 4);
	due.add(due.reading_to() + 1, 3);
	DueSeconds none{};
	due.finish_part(none);
	EXPECT_EQ(due.waiting(due.known_to() - 1) - due.waiting(due.known_to()), 2) << "the last one";
	EXPECT_EQ(due.waiting(from) - due.waiting(from + 1), 1) << "the first one";
	EXPECT_EQ(due.waiting(from - 1) - due.waiting(from), 0) << "what was known";
}

TEST(DueSeconds, APartThatWasGivenUpLeavesNothing)
{
	DueSeconds due = begun();
	DueSeconds found{};
	due.add(kEnd + 5, 2);
	due.begin_part(kEnd - 10);
	due.add_to_part(kEnd + 5, 4);
	due.begin_part(kEnd - 9);
	found.begin_like(due);
	found.add(kEnd + 5, 2);
	due.finish_part(found);
	EXPECT_EQ(due.waiting(kEnd - 9), 2);
	EXPECT_EQ(due.waiting(kEnd + 5), 0);
}

/* Compare with an array of all seconds of a day. */
TEST(DueSeconds, IsWhatIsThereAtAnyTime)
{
	std::mt19937_64 random(1);
	DueSeconds due = begun();
	std::vector<int64_t> jobs(100000);
	int64_t now = kNow;
	while (now < 80000)
	{
		int64_t second = now + static_cast<int64_t>(random() % (random() % 4 == 0 ? 15000 : 1200));
		int64_t n = jobs[second] > 0 && random() % 2 == 0 ? -1 : 1;
		jobs[second] += n;
		due.add(second, n);
		now += random() % 16 == 0 ? static_cast<int64_t>(random() % 200) : 0;
		if (due.wants_part(now) && !due.slide(now))
		{
			DueSeconds found{};
			due.begin_part(now);
			found.begin_like(due);
			for (int64_t at = due.known_to() + 1; at <= due.reading_to(); at++)
				found.add(at, jobs[at]);
			due.finish_part(found);
		}
		int64_t waiting = 0;
		for (int64_t at = now + 1; at < static_cast<int64_t>(jobs.size()); at++)
			waiting += jobs[at];
		ASSERT_TRUE(due.knows(now));
		ASSERT_EQ(due.waiting(now), waiting);
		if (random() % 8 != 0)
			now += static_cast<int64_t>(random() % 40);
	}
}
