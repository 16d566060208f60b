/*
 * The rules of Schedule, each rule alone. schedule_model_test.cpp tests all rules together.
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using pgq::Hint;
using pgq::Key;
using pgq::Schedule;
using pgq::TimerKey;

constexpr Key kEnd = Key::highest();
constexpr TimerKey kTimerEnd = TimerKey::highest();

Hint
delayed(int64_t run_at, int64_t id, int32_t priority = 0)
{
	return {.key = {priority, run_at, id}, .place = {}, .delayed = true, .group = 0};
}

/* A job that was due when it was enqueued. */
Hint
immediate(int64_t run_at, int64_t id, int32_t priority = 0)
{
	return {.key = {priority, run_at, id}, .place = {}, .delayed = false, .group = 0};
}

class Rules : public testing::Test
{
protected:
	/* A loaded queue without any rows, the due line at now. */
	void load(uint32_t window_size, uint32_t timer_size, int64_t now = 100)
	{
		schedule.init(window, window_size, timer, timer_size);
		refill_timer(now);
		refill_window(now);
		ASSERT_TRUE(schedule.exhausted());
		ASSERT_FALSE(schedule.scheduled_beyond_timer());
		schedule.take_fired();
	}

	void refill_window(int64_t now, const std::vector<Hint> &rows = {}, Key end = kEnd)
	{
		schedule.begin_window_refill(now);
		for (const Hint &row : rows)
			schedule.merge_window_row(row);
		schedule.finish_window_refill(end);
	}

	void refill_timer(int64_t now, const std::vector<Hint> &rows = {}, TimerKey end = kTimerEnd)
	{
		schedule.begin_timer_refill(now);
		for (const Hint &row : rows)
			schedule.merge_timer_row(row);
		schedule.finish_timer_refill(end);
	}

	/* Job ids in the window, in order. */
	std::vector<int64_t> ready() const
	{
		std::vector<int64_t> ids;
		schedule.window().for_each([&](const Hint &h) { ids.push_back(h.key.job_id); });
		return ids;
	}

	std::vector<int64_t> timed() const
	{
		std::vector<int64_t> ids;
		schedule.timer().for_each([&](const Hint &h) { ids.push_back(h.key.job_id); });
		return ids;
	}

	using Ids = std::vector<int64_t>;

	Schedule schedule;
	Schedule::Node window[Schedule::nodes(8)];
	Schedule::Timer::Node timer[8];
};

/* ---- a new queue ---- */

TEST_F(Rules, JobsAheadAreCountedAsFarAsMemoryKnows)
{
	load(8, 8);
	for (int id = 1; id <= 5; id++)
		schedule.file(immediate(50, id));
	schedule.file(immediate(60, 9, 1));
	auto ahead = [&](const Hint &hint, uint32_t most) {
		Schedule::Ahead a = schedule.ahead_of(hint, most);
		return std::make_pair(a.jobs, a.or_more);
	};
	EXPECT_EQ(ahead(immediate(60, 9, 1), 10), std::make_pair(0u, false));
	EXPECT_EQ(ahead(immediate(50, 1), 10), std::make_pair(1u, false));
	EXPECT_EQ(ahead(immediate(50, 5), 10), std::make_pair(5u, false));
	/* No more are counted than were asked for. */
	EXPECT_EQ(ahead(immediate(50, 5), 3), std::make_pair(3u, true));
	/* Memory has none of that key, and would have it. */
	EXPECT_EQ(ahead(immediate(55, 7), 10), std::make_pair(0u, true));
	/* It does not have all: these go out before, and perhaps others. */
	schedule.pull_back({0, 54, 0}, kTimerEnd);
	EXPECT_EQ(ahead(immediate(55, 7), 10), std::make_pair(6u, true));
	schedule.begin_window_refill(100);
	EXPECT_EQ(ahead(immediate(55, 7), 4), std::make_pair(4u, true));
	schedule.abandon_window_refill();
}

Hint
of_group(int64_t id, int64_t group)
{
	Hint hint = immediate(50, id);
	hint.group = group;
	return hint;
}

TEST_F(Rules, JobsAheadAreCountedInQueuesWithRulesForGroups)
{
	for (bool fifo : {false, true})
	{
		load(3, 8);
		schedule.reset({.limit = fifo ? 0 : 1, .fifo = fifo});
		refill_timer(100);
		refill_window(100);
		for (int id = 1; id <= 5; id++)
			schedule.file(of_group(id, id % 2 + 1));
		auto ahead = [&](int id) {
			Schedule::Ahead a = schedule.ahead_of(of_group(id, id % 2 + 1), 10);
			return std::make_pair(a.jobs, a.or_more);
		};
		EXPECT_EQ(ahead(2), std::make_pair(1u, false));
		/* With fifo, those of its own group are left to the table. */
		EXPECT_EQ(ahead(3), std::make_pair(fifo ? 1u : 2u, false));
		EXPECT_EQ(ahead(5), std::make_pair(fifo ? 1u : 3u, true))
			<< "the window has no place for it";
	}
}

TEST_F(Rules, JobsAheadAreCountedIfMemoryDropsAJobBehindItsHead)
{
	load(8, 8);
	schedule.reset({.limit = 0, .fifo = true});
	refill_timer(100);
	refill_window(100);
	for (int id : {1, 2, 4})
		schedule.file(of_group(id, id));
	schedule.look_at_group(4);
	pgq::Visit visit;
	ASSERT_EQ(schedule.begin_visits(&visit, 1), 1);
	Hint head = of_group(4, 4);
	schedule.finish_visit(visit, &head, 1, kEnd, 4);
	schedule.end_visits();
	EXPECT_FALSE(schedule.file(of_group(6, 4)));
	Schedule::Ahead ahead = schedule.ahead_of(of_group(6, 4), 10);
	EXPECT_EQ(ahead.jobs, 2u) << "of its own group, the table tells";
	EXPECT_TRUE(ahead.or_more) << "memory does not know what it has dropped";
	/* The head ends, and a marker comes before all jobs. */
	schedule.look_at_group(4);
	ahead = schedule.ahead_of(of_group(2, 2), 10);
	EXPECT_EQ(ahead.jobs, 1u);
	EXPECT_TRUE(ahead.or_more);
}

TEST_F(Rules, NothingIsSaidBeforeTheHeapWasRead)
{
	schedule.init(window, 2, timer, 2);
	EXPECT_FALSE(schedule.exhausted());
	EXPECT_FALSE(schedule.poppable());
	EXPECT_TRUE(schedule.wants_window_refill());
	EXPECT_TRUE(schedule.wants_timer_refill());
	EXPECT_TRUE(schedule.scheduled_beyond_timer());
	EXPECT_EQ(schedule.next_timer(), INT64_MIN);

	/* Everything is beyond the cursor, so nothing is kept, and nothing is lost. */
	EXPECT_TRUE(schedule.file(immediate(1, 1)));
	EXPECT_FALSE(schedule.poppable());
	EXPECT_FALSE(schedule.exhausted());
	refill_timer(100);
	EXPECT_EQ(schedule.begin_window_refill(100), Key::lowest());
}

TEST_F(Rules, ResetForgetsEverythingButTheHeap)
{
	load(2, 2);
	schedule.file(immediate(1, 1));
	schedule.file(delayed(200, 2));
	schedule.begin_window_refill(100);
	schedule.begin_timer_refill(100);
	schedule.reset();
	EXPECT_EQ(ready(), Ids{});
	EXPECT_EQ(timed(), Ids{});
	EXPECT_FALSE(schedule.window_refill_active() || schedule.timer_refill_active());
	EXPECT_TRUE(schedule.wants_window_refill() && schedule.wants_timer_refill());
	EXPECT_FALSE(schedule.exhausted());
}

/* ---- the window and its cursor ---- */

TEST_F(Rules, JobsArePoppedInOrder)
{
	load(4, 1);
	schedule.file(immediate(50, 3));
	schedule.file(immediate(50, 2));
	schedule.file(immediate(90, 4, 7));
	schedule.file(immediate(10, 5));
	Ids popped;
	while (schedule.poppable())
		popped.push_back(schedule.pop().key.job_id);
	EXPECT_EQ(popped, (Ids{4, 5, 2, 3}));
	EXPECT_TRUE(schedule.exhausted());
}

TEST_F(Rules, EvictionLowersTheCursor)
{
	load(2, 1);
	schedule.file(immediate(20, 2));
	schedule.file(immediate(30, 3));
	EXPECT_EQ(schedule.cursor(), kEnd);
	schedule.file(immediate(10, 1));
	EXPECT_EQ(ready(), (Ids{1, 2}));
	EXPECT_EQ(schedule.cursor(), (Key{0, 30, 3}));
}

TEST_F(Rules, RefusalLowersTheCursor)
{
	load(1, 1);
	schedule.file(immediate(10, 1));
	EXPECT_TRUE(schedule.file(immediate(30, 3)));
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_EQ(schedule.cursor(), (Key{0, 30, 3}));
	schedule.file(immediate(20, 2));
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2})) << "to the smallest that is missing";
	schedule.file(immediate(40, 4));
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2})) << "never forward";
}

TEST_F(Rules, WhatIsBeyondTheCursorIsNotKept)
{
	load(2, 1);
	schedule.pull_back({0, 20, 2}, kTimerEnd);
	EXPECT_TRUE(schedule.file(immediate(20, 2))) << "it is ready all the same";
	EXPECT_TRUE(schedule.file(immediate(30, 3)));
	EXPECT_EQ(ready(), Ids{});
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2}));
	schedule.file(immediate(10, 1));
	EXPECT_EQ(ready(), Ids{1});
}

TEST_F(Rules, OnlyWhatIsBelowTheCursorCanBePopped)
{
	load(2, 1);
	schedule.file(immediate(20, 2));
	EXPECT_TRUE(schedule.poppable());
	schedule.pull_back({0, 20, 1}, kTimerEnd);
	EXPECT_FALSE(schedule.poppable()) << "there may be another before it";
	EXPECT_TRUE(schedule.wants_window_refill());
	schedule.file(immediate(10, 3));
	EXPECT_TRUE(schedule.poppable());
	EXPECT_EQ(schedule.pop().key.job_id, 3);
	EXPECT_FALSE(schedule.poppable());
	EXPECT_FALSE(schedule.exhausted());
}

TEST_F(Rules, WhatIsAtTheCursorItselfCanBePopped)
{
	load(2, 1);
	schedule.file(immediate(20, 2));
	schedule.pull_back({0, 20, 2}, kTimerEnd);
	EXPECT_TRUE(schedule.poppable()) << "there can be no other";
	EXPECT_EQ(schedule.pop().key.job_id, 2);
	EXPECT_FALSE(schedule.exhausted());
}

TEST_F(Rules, AHintTooManyIsKeptOnce)
{
	load(2, 2);
	for (int i = 0; i < 3; i++)
	{
		schedule.file(immediate(10, 1));
		schedule.file(delayed(200, 2));
	}
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_EQ(timed(), Ids{2});

	/* The largest of a full set is in it: nothing is missing, the cursor stays. */
	schedule.file(immediate(20, 3));
	schedule.file(immediate(20, 3));
	EXPECT_EQ(ready(), (Ids{1, 3}));
	EXPECT_EQ(schedule.cursor(), kEnd);
	schedule.file(delayed(300, 4));
	schedule.file(delayed(300, 4));
	EXPECT_EQ(schedule.timer_cursor(), kTimerEnd);
}

TEST_F(Rules, WindowOfOne)
{
	load(1, 1);
	for (int id = 5; id >= 1; id--)
		schedule.file(immediate(10, id));
	for (int id = 1; id <= 5; id++)
	{
		ASSERT_TRUE(schedule.poppable()) << id;
		EXPECT_EQ(schedule.pop().key.job_id, id);
		EXPECT_EQ(schedule.exhausted(), id == 5);
		if (id == 5)
			break;
		ASSERT_TRUE(schedule.wants_window_refill());
		EXPECT_EQ(schedule.begin_window_refill(100), (Key{0, 10, id + 1}));
		schedule.merge_window_row(immediate(10, id + 1));
		schedule.finish_window_refill(id < 4 ? Key{0, 10, id + 2} : kEnd);
	}
}

/* ---- refill of the window ---- */

TEST_F(Rules, ARefillKeepsWhatIsFiledMeanwhile)
{
	load(2, 1);
	schedule.pull_back({0, 20, 2}, kTimerEnd);
	EXPECT_EQ(schedule.begin_window_refill(100), (Key{0, 20, 2}));
	EXPECT_EQ(schedule.cursor(), kEnd);
	EXPECT_FALSE(schedule.exhausted());
	EXPECT_FALSE(schedule.wants_window_refill()) << "one at a time";
	schedule.file(immediate(30, 3));
	EXPECT_EQ(ready(), Ids{3});
	EXPECT_FALSE(schedule.poppable()) << "what the scan will bring may come before it";
	schedule.file(immediate(10, 1));
	EXPECT_TRUE(schedule.poppable()) << "below the start everything is in the window";
	schedule.pop();
	schedule.merge_window_row(immediate(20, 2));
	schedule.finish_window_refill(kEnd);
	EXPECT_EQ(ready(), (Ids{2, 3}));
	EXPECT_TRUE(schedule.poppable());
	EXPECT_EQ(schedule.cursor(), kEnd);
}

/* The shortest way to lose a job was to let the refill's end overwrite this (protocol: evictions-lower-the-end). */
TEST_F(Rules, EvictionDuringARefillOutlivesIt)
{
	load(1, 1);
	schedule.begin_window_refill(100);
	schedule.file(immediate(20, 2));
	schedule.file(immediate(10, 1));
	EXPECT_EQ(schedule.cursor(), kEnd);
	schedule.finish_window_refill(kEnd);
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2}));
}

TEST_F(Rules, TheSmallerOfEndAndEvictedWins)
{
	load(1, 1);
	schedule.begin_window_refill(100);
	schedule.merge_window_row(immediate(10, 1));
	schedule.merge_window_row(immediate(20, 2));
	schedule.finish_window_refill({0, 30, 3});
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2})) << "a row of the scan that did not fit";

	schedule.begin_window_refill(100);
	schedule.finish_window_refill({0, 15, 9});
	EXPECT_EQ(schedule.cursor(), (Key{0, 15, 9})) << "lowest starts anew with each refill";
}

TEST_F(Rules, PullBackDuringARefillOutlivesIt)
{
	load(2, 2);
	schedule.begin_window_refill(100);
	schedule.begin_timer_refill(100);
	schedule.pull_back({0, 50, 5}, {150, 6});
	EXPECT_EQ(schedule.cursor(), kEnd);
	EXPECT_EQ(schedule.timer_cursor(), kTimerEnd);
	schedule.finish_timer_refill(kTimerEnd);
	schedule.finish_window_refill(kEnd);
	EXPECT_EQ(schedule.cursor(), (Key{0, 50, 5}));
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{150, 6}));
}

TEST_F(Rules, AnAbandonedRefillRestoresItsStart)
{
	load(2, 2);
	schedule.pull_back({0, 50, 5}, {150, 6});
	schedule.begin_window_refill(100);
	schedule.begin_timer_refill(100);
	schedule.abandon_timer_refill();
	schedule.abandon_window_refill();
	EXPECT_EQ(schedule.cursor(), (Key{0, 50, 5}));
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{150, 6}));
	EXPECT_TRUE(schedule.wants_window_refill() && schedule.wants_timer_refill());
}

TEST_F(Rules, AnAbandonedRefillRestoresWhatWasEvictedBelowItsStart)
{
	load(2, 2);
	schedule.pull_back({0, 50, 5}, {250, 6});
	schedule.begin_window_refill(100);
	schedule.begin_timer_refill(100);
	for (int id : {3, 2, 1})
	{
		schedule.file(immediate(10, id));
		schedule.file(delayed(200, id));
	}
	schedule.abandon_window_refill();
	schedule.abandon_timer_refill();
	EXPECT_EQ(schedule.cursor(), (Key{0, 10, 3}));
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{200, 3}));
}

/*
 * What was evicted below the start is missing already while the refill goes on,
 * so what comes after it must wait.
 */
TEST_F(Rules, NothingIsPoppedPastWhatWasEvictedDuringARefill)
{
	load(2, 1);
	schedule.file(immediate(20, 2));
	schedule.pull_back({0, 90, 9}, kTimerEnd);
	schedule.begin_window_refill(100);
	schedule.file(immediate(11, 11));
	schedule.file(immediate(10, 10)); /* evicts 2 */
	EXPECT_EQ(schedule.pop().key.job_id, 10);
	EXPECT_EQ(schedule.pop().key.job_id, 11);
	schedule.file(immediate(30, 3));
	EXPECT_FALSE(schedule.poppable()) << "job 2 comes before job 3";
	schedule.finish_window_refill({0, 90, 9});
	EXPECT_FALSE(schedule.poppable());
	refill_window(100, {immediate(20, 2), immediate(30, 3)}, {0, 90, 9});
	EXPECT_EQ(schedule.pop().key.job_id, 2);
}

TEST_F(Rules, ARefillIsWantedOnceHalfTheWindowIsGone)
{
	load(4, 1);
	refill_window(100);
	for (int id = 1; id <= 5; id++)
		schedule.file(immediate(10, id));
	EXPECT_FALSE(schedule.wants_window_refill());
	schedule.pop();
	EXPECT_FALSE(schedule.wants_window_refill());
	schedule.pop();
	EXPECT_TRUE(schedule.wants_window_refill());
	refill_window(100, {immediate(10, 5)});
	EXPECT_FALSE(schedule.wants_window_refill()) << "the end has been reached";
}

/* ---- the due line ---- */

TEST_F(Rules, TheDueLineNeverGoesBack)
{
	load(2, 2, 100);
	schedule.fire(150);
	schedule.fire(120);
	EXPECT_EQ(schedule.due_line(), 150);
	EXPECT_TRUE(schedule.file(delayed(150, 1))) << "due by the line, whatever the clock says";
	EXPECT_FALSE(schedule.file(delayed(151, 2)));
	schedule.begin_window_refill(90);
	schedule.finish_window_refill(kEnd);
	EXPECT_EQ(schedule.due_line(), 150);
}

TEST_F(Rules, BeginningARefillMovesTheDueLine)
{
	load(2, 2, 100);
	schedule.file(delayed(110, 1));
	schedule.file(delayed(120, 2));
	schedule.begin_window_refill(110);
	EXPECT_EQ(ready(), Ids{1});
	schedule.begin_timer_refill(120);
	EXPECT_EQ(ready(), (Ids{1, 2}));
	EXPECT_EQ(schedule.due_line(), 120);
}

TEST_F(Rules, AnImmediateJobIsDueAlthoughTheClockIsBehind)
{
	load(2, 2, 100);
	Hint ahead = immediate(5000, 1);
	EXPECT_TRUE(schedule.due(ahead));
	EXPECT_TRUE(schedule.file(ahead));
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_TRUE(schedule.poppable());
	EXPECT_FALSE(schedule.due(delayed(5000, 2)));

	/* Should it be evicted, the scan must go up to it. */
	EXPECT_EQ(schedule.horizon(), 5000);
	schedule.file(immediate(4000, 3));
	schedule.file(delayed(6000, 4));
	EXPECT_EQ(schedule.horizon(), 5000);
	schedule.fire(7000);
	EXPECT_EQ(schedule.horizon(), 7000);
}

/* ---- the timer and its cursor ---- */

TEST_F(Rules, TimersFireWhenTheirTimeHasCome)
{
	load(4, 4, 100);
	schedule.file(delayed(130, 3));
	schedule.file(delayed(120, 2, -1));
	schedule.file(delayed(110, 1));
	EXPECT_EQ(schedule.next_timer(), 110);
	schedule.fire(109);
	EXPECT_EQ(ready(), Ids{});
	EXPECT_TRUE(schedule.exhausted());
	schedule.fire(120);
	EXPECT_EQ(ready(), (Ids{1, 2}));
	EXPECT_EQ(timed(), Ids{3});
	EXPECT_EQ(schedule.take_fired(), 2u);
	EXPECT_EQ(schedule.take_fired(), 0u);
	EXPECT_EQ(schedule.next_timer(), 130);
	schedule.fire(130);
	EXPECT_EQ(schedule.next_timer(), INT64_MAX);
}

TEST_F(Rules, EvictionLowersTheTimerCursor)
{
	load(1, 2);
	schedule.file(delayed(120, 2));
	schedule.file(delayed(130, 3));
	schedule.file(delayed(110, 1, -9));
	EXPECT_EQ(timed(), (Ids{1, 2})) << "the timer goes by time alone";
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{130, 3}));
	EXPECT_EQ(schedule.cursor(), kEnd);
	schedule.file(delayed(125, 4));
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{125, 4}));
	EXPECT_EQ(schedule.next_timer(), 110);
	schedule.fire(120);
	EXPECT_EQ(schedule.next_timer(), 125) << "where the timer ends, somebody has to look";
}

/* Somebody has changed the priority of a waiting row. */
TEST_F(Rules, ATimerHintWithAnotherPriorityIsKeptToo)
{
	for (uint32_t timer_size : {1, 2})
	{
		SCOPED_TRACE(timer_size);
		load(1, timer_size);
		schedule.file(delayed(110, 1, 0));
		schedule.file(delayed(110, 1, 9));
		schedule.file(immediate(10, 2, 5));
		schedule.fire(110);
		Key row{9, 110, 1};
		EXPECT_TRUE(schedule.window().first().key == row || !(row < schedule.cursor()));
		EXPECT_FALSE(schedule.poppable() && row < schedule.window().first().key);
	}
}

TEST_F(Rules, FiringIntoAFullWindowLowersItsCursor)
{
	load(1, 3);
	for (int id : {1, 2, 3})
		schedule.file(delayed(110 + id, id));
	schedule.fire(200);
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_EQ(schedule.cursor(), (Key{0, 112, 2}));
}

/* Rows between the old and the new timer cursor are ready now; only the window's scan will find them. */
TEST_F(Rules, TheWindowTakesOverWhenTheDueLinePassesTheTimerCursor)
{
	load(2, 2, 100);
	schedule.file(immediate(10, 1));
	schedule.pull_back(kEnd, {150, 5});
	schedule.fire(149);
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{150, 5}));
	EXPECT_TRUE(schedule.poppable());
	schedule.take_fired();

	schedule.fire(150);
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{151, INT64_MIN}));
	EXPECT_EQ(schedule.cursor(), Key::lowest());
	EXPECT_FALSE(schedule.poppable()) << "one of them may come before job 1";
	EXPECT_TRUE(schedule.take_handed_over());
	EXPECT_FALSE(schedule.file(delayed(151, 6)));
	EXPECT_EQ(timed(), Ids{}) << "beyond the new cursor too";

	/* Under a refill it lowers what the refill will restore. */
	schedule.begin_window_refill(150);
	schedule.fire(160);
	schedule.finish_window_refill(kEnd);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
}

TEST_F(Rules, WhileTheTimerIsRefilledTheDueLineMayPassItsStart)
{
	load(2, 2, 100);
	schedule.file(immediate(10, 1));
	schedule.pull_back(kEnd, {150, 5});
	EXPECT_EQ(schedule.begin_timer_refill(100), (TimerKey{150, 5}));
	EXPECT_EQ(schedule.next_timer(), 150);
	EXPECT_TRUE(schedule.poppable());
	schedule.fire(170);
	EXPECT_FALSE(schedule.poppable()) << "job 5 may come before job 1";
	EXPECT_FALSE(schedule.exhausted());

	/* Each row goes where it belongs by the due line of now. */
	schedule.merge_timer_row(delayed(150, 5, 9));
	schedule.merge_timer_row(delayed(180, 6));
	EXPECT_EQ(ready(), (Ids{5, 1}));
	EXPECT_EQ(timed(), Ids{6});
	schedule.finish_timer_refill({190, 7});
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{190, 7}));
	EXPECT_EQ(schedule.cursor(), kEnd) << "the scan went past the due line: nothing to hand over";
	EXPECT_EQ(schedule.pop().key.job_id, 5);
}

TEST_F(Rules, ATimerRefillThatEndsBehindTheDueLineHandsOver)
{
	for (bool abandon : {false, true})
	{
		SCOPED_TRACE(abandon);
		load(2, 2, 100);
		schedule.pull_back(kEnd, {150, 5});
		schedule.begin_timer_refill(100);
		schedule.fire(200);
		if (abandon)
			schedule.abandon_timer_refill();
		else
			schedule.finish_timer_refill({160, 6});
		EXPECT_EQ(schedule.timer_cursor(), (TimerKey{201, INT64_MIN}));
		EXPECT_EQ(schedule.cursor(), Key::lowest());
		EXPECT_FALSE(schedule.exhausted());
	}
}

/* As for the window: what was evicted below the start is missing, and its time may come. */
TEST_F(Rules, TimersEvictedDuringARefillAreNotForgotten)
{
	load(2, 2, 100);
	schedule.file(immediate(10, 1));
	schedule.file(delayed(130, 3, 9));
	schedule.pull_back(kEnd, {190, 9});
	schedule.begin_timer_refill(100);
	schedule.file(delayed(110, 11));
	schedule.file(delayed(111, 12)); /* evicts 3 */
	schedule.fire(120);
	schedule.pop();
	schedule.pop();
	EXPECT_LE(schedule.next_timer(), 130);
	schedule.file(immediate(11, 2));
	schedule.fire(130);
	EXPECT_FALSE(schedule.poppable()) << "job 3 comes first";
	EXPECT_FALSE(schedule.exhausted());
	schedule.finish_timer_refill(kTimerEnd);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
}

TEST_F(Rules, PullBackMovesBothCursorsAndNeverForward)
{
	load(2, 2);
	schedule.pull_back({0, 20, 2}, {200, 2});
	schedule.pull_back({0, 30, 3}, {150, 1});
	EXPECT_EQ(schedule.cursor(), (Key{0, 20, 2}));
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{150, 1}));
	schedule.pull_back(Key::lowest(), TimerKey::lowest());
	EXPECT_EQ(schedule.cursor(), Key::lowest());
	/* What is due is for the window's scan to find. */
	EXPECT_EQ(schedule.timer_cursor(), (TimerKey{schedule.due_line() + 1, INT64_MIN}));
	EXPECT_TRUE(schedule.wants_window_refill() && schedule.wants_timer_refill());
}

} // namespace
