#include "core/handler_pace.h"

#include <gtest/gtest.h>

namespace {

using namespace pgq;

constexpr int64_t kSecond = HandlerPace::kSecond;
constexpr int64_t kDelay = HandlerPace::kStartDelay;
constexpr int64_t kNow = 1000 * kSecond;
constexpr int64_t kWall = 5000 * kSecond;

HandlerPace
pace_of(int workers)
{
	HandlerPace pace{};
	pace.restart(workers);
	return pace;
}

void
fail(HandlerPace *pace, int64_t job, int sqlstate = 1, int64_t now = kNow)
{
	pace->note_call({true, sqlstate, job, "no"}, now, kWall);
}

/* ---- places ---- */

TEST(HandlerPlaces, AreAsManyAsTheHandlerHasWorkers)
{
	HandlerPace pace = pace_of(2);
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_FALSE(pace.take_place(kNow));
	pace.places--;
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_EQ(pace.places, 2);
}

TEST(HandlerPlaces, NoneIsFreeWithoutAHandlerThatMayRun)
{
	HandlerPace none{};
	EXPECT_FALSE(none.take_place(kNow));
	HandlerPace pace = pace_of(1);
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_TRUE(pace.may_call(kNow));
	pace.restart(0); /* paused or suspended */
	EXPECT_FALSE(pace.may_call(kNow));
	EXPECT_FALSE(pace.take_place(kNow));
	EXPECT_EQ(pace.places, 1);
}

TEST(HandlerPlaces, AreNotTakenWhileTheHandlerRests)
{
	HandlerPace pace = pace_of(1);
	pace.rest(3 * kSecond, kNow, kWall);
	EXPECT_EQ(pace.call_after_wall, kWall + 3 * kSecond);
	EXPECT_FALSE(pace.take_place(kNow + 3 * kSecond - 1));
	EXPECT_TRUE(pace.take_place(kNow + 3 * kSecond));
}

TEST(HandlerPlaces, AWorkerTooManyMayNotCall)
{
	HandlerPace pace = pace_of(3);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(pace.take_place(kNow));
	pace.restart(2);
	EXPECT_FALSE(pace.may_call(kNow));
	pace.places--;
	EXPECT_TRUE(pace.may_call(kNow));
}

/* ---- starts ---- */

TEST(HandlerStarts, TheFirstWorkerStartsAtOnce)
{
	HandlerPace pace = pace_of(2);
	EXPECT_EQ(pace.start_at(true, kNow), kNow);
	EXPECT_EQ(pace.start_at(true, kNow + 7), kNow);
}

TEST(HandlerStarts, AFurtherWorkerStartsIfJobsWaitFor50Ms)
{
	HandlerPace pace = pace_of(2);
	EXPECT_TRUE(pace.take_place(kNow));
	pace.last_start = kNow;
	EXPECT_EQ(pace.start_at(true, kNow + 10), kNow + 10 + kDelay);
	EXPECT_EQ(pace.start_at(true, kNow + 20), kNow + 10 + kDelay);
	/* The time counts anew if no job was left. */
	EXPECT_EQ(pace.start_at(false, kNow + 30), INT64_MAX);
	EXPECT_EQ(pace.start_at(true, kNow + 40), kNow + 40 + kDelay);
}

TEST(HandlerStarts, AFurtherWorkerStarts50MsAfterTheLastStart)
{
	HandlerPace pace = pace_of(3);
	EXPECT_EQ(pace.start_at(true, kNow), kNow);
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_EQ(pace.start_at(true, kNow), kNow + kDelay);
	pace.last_start = kNow + 30;
	EXPECT_EQ(pace.start_at(true, kNow + 30), kNow + 30 + kDelay);
}

TEST(HandlerStarts, NoneIfAllPlacesAreTaken)
{
	HandlerPace pace = pace_of(1);
	EXPECT_EQ(pace.start_at(true, kNow), kNow);
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_EQ(pace.start_at(true, kNow), INT64_MAX);
	EXPECT_EQ(pace.claimable_since, 0);
	pace.restart(0);
	pace.places = 0;
	EXPECT_EQ(pace.start_at(true, kNow), INT64_MAX);
}

TEST(HandlerStarts, NoneWhileTheHandlerRests)
{
	HandlerPace pace = pace_of(1);
	pace.rest(kSecond, kNow, kWall);
	EXPECT_EQ(pace.start_at(true, kNow), kNow + kSecond);
}

TEST(HandlerStarts, WorkersThatFindNoJobComeLessOften)
{
	HandlerPace pace = pace_of(1);
	int64_t expected[] = {1, 2, 4, 8, 16, 32, 60, 60};
	for (int64_t seconds : expected)
	{
		pace.note_worker_end(false, kNow);
		EXPECT_EQ(pace.start_at(true, kNow), kNow + seconds * kSecond);
	}
	pace.note_worker_end(true, kNow + 60 * kSecond);
	pace.note_worker_end(false, kNow + 60 * kSecond);
	EXPECT_EQ(pace.start_after, kNow + 61 * kSecond);
	for (int i = 0; i < 100; i++)
		pace.note_worker_end(false, kNow);
	EXPECT_EQ(pace.start_after, kNow + 60 * kSecond);
}

/* ---- calls ---- */

TEST(HandlerCalls, FailuresInARowSlowTheHandlerDown)
{
	HandlerPace pace = pace_of(5);
	for (int job = 1; job < HandlerPace::kSlowAfter; job++)
		fail(&pace, job);
	EXPECT_FALSE(pace.is_slow());
	EXPECT_EQ(pace.allowed(), 5);
	EXPECT_EQ(pace.next_batch(100), 100);
	EXPECT_EQ(pace.call_after, 0);
	int64_t expected[] = {1, 2, 4, 8, 16, 30, 30};
	for (int i = 0; int64_t seconds : expected)
	{
		fail(&pace, 100 + i++);
		EXPECT_TRUE(pace.is_slow());
		EXPECT_EQ(pace.call_after, kNow + seconds * kSecond);
	}
	EXPECT_EQ(pace.allowed(), 1);
	EXPECT_EQ(pace.next_batch(100), 1);
	EXPECT_EQ(pace.calls, 26);
	EXPECT_EQ(pace.failures, 26);
}

TEST(HandlerCalls, ASuccessEndsThat)
{
	HandlerPace pace = pace_of(5);
	for (int job = 1; job <= 30; job++)
		fail(&pace, job);
	pace.note_call({false, 0, 31, nullptr}, kNow, kWall);
	EXPECT_FALSE(pace.is_slow());
	EXPECT_EQ(pace.allowed(), 5);
	for (int job = 1; job < HandlerPace::kSlowAfter; job++)
		fail(&pace, job);
	EXPECT_FALSE(pace.is_slow());
}

TEST(HandlerCalls, OneBadJobDoesNotSlowTheOthers)
{
	HandlerPace pace = pace_of(1);
	for (int i = 0; i < 100; i++)
		fail(&pace, 7);
	EXPECT_EQ(pace.failures_in_row, 1);
}

TEST(HandlerCalls, AnotherErrorBeginsANewRow)
{
	HandlerPace pace = pace_of(1);
	for (int job = 1; job < HandlerPace::kSlowAfter; job++)
		fail(&pace, job);
	fail(&pace, 100, 2);
	EXPECT_EQ(pace.failures_in_row, 1);
}

TEST(HandlerCalls, AFailedBatchIsNobodysFailure)
{
	HandlerPace pace = pace_of(1);
	for (int i = 0; i < 100; i++)
		fail(&pace, 0);
	EXPECT_EQ(pace.failures_in_row, 0);
	EXPECT_EQ(pace.failures, 100);
}

TEST(HandlerCalls, JobsThatWereGivenBackAreCalledAlone)
{
	HandlerPace pace = pace_of(1);
	pace.single_calls = 2;
	EXPECT_EQ(pace.next_batch(100), 1);
	pace.note_call({false, 0, 1, nullptr}, kNow, kWall);
	EXPECT_EQ(pace.next_batch(100), 1);
	pace.note_call({false, 0, 2, nullptr}, kNow, kWall);
	EXPECT_EQ(pace.next_batch(100), 100);
	pace.note_call({false, 0, 0, nullptr}, kNow, kWall);
	EXPECT_EQ(pace.single_calls, 0);
}

TEST(HandlerCalls, RestLongerEachTimeTheServerIsTheReason)
{
	HandlerPace pace = pace_of(1);
	int64_t expected[] = {1, 2, 4, 8, 16, 32, 60, 60};
	for (int64_t seconds : expected)
	{
		(void) pace.note_server_fault(7, kNow, kWall);
		EXPECT_EQ(pace.call_after, kNow + seconds * kSecond);
		EXPECT_EQ(pace.call_after_wall, kWall + seconds * kSecond);
	}
	for (int i = 0; i < 100; i++)
		(void) pace.note_server_fault(7, kNow, kWall);
	EXPECT_EQ(pace.call_after, kNow + 60 * kSecond);
	pace.note_call({false, 0, 1, nullptr}, kNow, kWall);
	EXPECT_TRUE(pace.note_server_fault(8, kNow, kWall));
	EXPECT_EQ(pace.call_after, kNow + kSecond);
}

TEST(HandlerCalls, BlameTheJobIfOthersSucceedBetweenItsFaults)
{
	HandlerPace pace = pace_of(1);
	EXPECT_TRUE(pace.note_server_fault(7, kNow, kWall));
	EXPECT_TRUE(pace.note_server_fault(7, kNow, kWall));
	pace.note_call({false, 0, 1, nullptr}, kNow, kWall);
	int64_t before = pace.call_after;
	EXPECT_FALSE(pace.note_server_fault(7, kNow + kSecond, kWall));
	EXPECT_EQ(pace.call_after, before);
	/* A claim that fails is never the fault of a job. */
	EXPECT_TRUE(pace.note_server_fault(0, kNow, kWall));
	pace.note_call({false, 0, 1, nullptr}, kNow, kWall);
	EXPECT_TRUE(pace.note_server_fault(0, kNow, kWall));
}

TEST(HandlerCalls, AnotherDefinitionForgetsWhatWasSlow)
{
	HandlerPace pace = pace_of(3);
	for (int job = 1; job <= 30; job++)
		fail(&pace, job);
	pace.note_worker_end(false, kNow);
	(void) pace.note_server_fault(7, kNow, kWall);
	pace.places = 1;
	pace.restart(2);
	EXPECT_EQ(pace.allowed(), 2);
	EXPECT_TRUE(pace.take_place(kNow));
	EXPECT_FALSE(pace.take_place(kNow));
	pace.places = 0;
	pace.claimable_since = 0;
	EXPECT_EQ(pace.start_at(true, kNow), kNow);
}

TEST(HandlerDelays, AreDoubledUpToABound)
{
	EXPECT_EQ(HandlerPace::delay_of(0, 60 * kSecond), kSecond);
	EXPECT_EQ(HandlerPace::delay_of(5, 60 * kSecond), 32 * kSecond);
	EXPECT_EQ(HandlerPace::delay_of(6, 60 * kSecond), 60 * kSecond);
	EXPECT_EQ(HandlerPace::delay_of(1000, 60 * kSecond), 60 * kSecond);
	EXPECT_EQ(HandlerPace::delay_of(1000, INT64_MAX), kSecond << 20);
}

} // namespace
