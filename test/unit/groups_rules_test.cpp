/*
 * The rules for groups, each rule alone. group_model_test.cpp tests all rules together.
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using pgq::Group;
using pgq::GroupRules;
using pgq::Hint;
using pgq::Key;
using pgq::Probe;
using pgq::Schedule;
using pgq::TimerKey;
using Admission = Schedule::Admission;

constexpr Key kEnd = Key::highest();
constexpr int64_t kA = 1;
constexpr int64_t kB = 2;

Hint
job(int64_t id, int64_t group, int32_t priority = 0)
{
	return {.key = {priority, 10, id}, .place = {}, .delayed = false, .group = group};
}

Hint
delayed(int64_t run_at, int64_t id, int64_t group)
{
	return {.key = {0, run_at, id}, .place = {}, .delayed = true, .group = group};
}

class GroupRulesTest : public testing::Test
{
protected:
	/* A loaded queue without any rows, the due line at 100. */
	void load(const GroupRules &rules, uint32_t window_size = 4, int entries = 4)
	{
		schedule.init(window, window_size, timer, 4);
		schedule.reset(rules);
		for (int i = 0; i < entries; i++)
			schedule.groups().give(&groups[i]);
		schedule.begin_timer_refill(100);
		schedule.finish_timer_refill(TimerKey::highest());
		refill({});
		ASSERT_TRUE(schedule.exhausted());
	}
	void load_limited(int32_t limit, uint32_t window_size = 4, int entries = 4)
	{
		load({.limit = limit, .fifo = false}, window_size, entries);
	}
	void load_fifo(uint32_t window_size = 4, int entries = 4)
	{
		load({.limit = 0, .fifo = true}, window_size, entries);
	}

	void refill(const std::vector<Hint> &rows, Key end = kEnd)
	{
		schedule.begin_window_refill(100);
		for (const Hint &row : rows)
			schedule.merge_window_row(row);
		schedule.finish_window_refill(end);
	}

	void file(const std::vector<Hint> &jobs)
	{
		for (const Hint &hint : jobs)
			schedule.file(hint);
	}

	/* As a claim does. 0: it was passed over. */
	int64_t claim()
	{
		Hint hint = schedule.pop();
		if (schedule.admit(hint) != Admission::kGo)
			return 0;
		schedule.took(hint);
		return hint.key.job_id;
	}

	/* As the end of a lease does. */
	void end(int64_t group)
	{
		schedule.release_group(group);
		schedule.look_at_group(group);
	}

	Probe begin_probe()
	{
		Probe probe{};
		EXPECT_EQ(schedule.begin_probes(&probe, 1), 1);
		return probe;
	}
	void finish_limited(int64_t group, const std::vector<Hint> &rows, Key next = kEnd)
	{
		schedule.finish_probe(group, rows.data(), static_cast<int>(rows.size()), next, INT64_MIN);
	}
	void finish_head(const Hint &head)
	{
		schedule.finish_probe(head.group, &head, 1, {0, 0, head.key.job_id + 1}, head.key.job_id);
	}

	const Group *group(int64_t id) const { return schedule.groups().find(id); }

	std::vector<int64_t> ready() const
	{
		std::vector<int64_t> ids;
		schedule.window().for_each([&](const Hint &h) { ids.push_back(h.key.job_id); });
		return ids;
	}
	using Ids = std::vector<int64_t>;

	Schedule schedule;
	Schedule::Window::Node window[8];
	Schedule::Timer::Node timer[8];
	Group groups[8];
};

/* ---- limits ---- */

TEST_F(GroupRulesTest, AGroupWithoutRoomIsPassedOver)
{
	load_limited(1);
	file({job(1, kA), job(2, kA), job(3, kB)});
	EXPECT_EQ(claim(), 1);
	EXPECT_EQ(claim(), 0);
	EXPECT_EQ(claim(), 3);
	EXPECT_TRUE(schedule.exhausted()) << "nothing may go out";
	EXPECT_TRUE(schedule.covers(job(2, kA)));
}

TEST_F(GroupRulesTest, AGroupWithRoomIsProbedBeforeWhatComesAfterIt)
{
	load_limited(1);
	file({job(1, kA), job(3, kA)});
	claim(), claim();
	file({job(2, kB), job(4, kB)});
	schedule.groups().take_news();
	end(kA);
	EXPECT_EQ(schedule.groups().take_news(), 1u);
	EXPECT_TRUE(schedule.wants_probes());
	EXPECT_EQ(claim(), 2) << "that comes before it";
	EXPECT_FALSE(schedule.poppable());
	EXPECT_FALSE(schedule.exhausted());
	Probe probe = begin_probe();
	EXPECT_EQ(probe.group, kA);
	EXPECT_EQ(probe.start, job(3, kA).key);
	EXPECT_EQ(probe.room, 1);
	EXPECT_FALSE(schedule.wants_probes());
	EXPECT_FALSE(schedule.poppable());
	finish_limited(kA, {job(3, kA)});
	EXPECT_EQ(ready(), (Ids{3, 4}));
	EXPECT_EQ(claim(), 3);
	EXPECT_EQ(schedule.groups().size(), 2) << "it is aside no more, but they run";
}

TEST_F(GroupRulesTest, TwoOfAGroupMayRun)
{
	load_limited(2);
	file({job(1, kA), job(2, kA), job(3, kA)});
	EXPECT_EQ(claim(), 1);
	EXPECT_EQ(claim(), 2);
	EXPECT_EQ(claim(), 0);
	end(kA);
	EXPECT_EQ(begin_probe().room, 1);
}

TEST_F(GroupRulesTest, JobsWithoutAGroupAreNotHeldUp)
{
	load_limited(1);
	file({job(1, kA), job(2, 0), job(3, 0)});
	EXPECT_EQ(claim(), 1);
	EXPECT_EQ(schedule.pop().key.job_id, 2);
	EXPECT_EQ(schedule.pop().key.job_id, 3);
}

TEST_F(GroupRulesTest, WhatIsFiledAtOrBeyondTheCursorIsDropped)
{
	load_limited(1);
	file({job(1, kA), job(3, kA)});
	claim(), claim();
	EXPECT_FALSE(schedule.file(job(5, kA))) << "it waits for its group";
	EXPECT_EQ(ready(), Ids{});
	EXPECT_TRUE(schedule.file(job(2, kA)));
	EXPECT_EQ(group(kA)->cursor, job(2, kA).key);
	EXPECT_FALSE(group(kA)->pending) << "it has no room";
	end(kA);
	EXPECT_TRUE(group(kA)->pending);
}

TEST_F(GroupRulesTest, WhatIsFiledDuringAProbeOutlivesIt)
{
	load_limited(1);
	file({job(1, kA), job(4, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	schedule.file(job(3, kA));
	schedule.file(job(6, kA));
	finish_limited(kA, {job(4, kA)}, job(5, kA).key);
	EXPECT_EQ(group(kA)->cursor, job(3, kA).key);
	EXPECT_TRUE(group(kA)->pending);
	EXPECT_EQ(ready(), Ids{}) << "job 4 is beyond the cursor now";
}

TEST_F(GroupRulesTest, AnAbandonedProbeLeavesTheCursorWhereItWas)
{
	load_limited(1);
	file({job(1, kA), job(4, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	schedule.groups().take_news();
	schedule.abandon_probes();
	EXPECT_EQ(schedule.groups().probing(), 0);
	EXPECT_EQ(group(kA)->cursor, job(4, kA).key);
	EXPECT_TRUE(schedule.wants_probes());
	EXPECT_EQ(schedule.groups().take_news(), 1u);
}

TEST_F(GroupRulesTest, AProbeThatFindsNoneButRowsAreLeftGoesOn)
{
	load_limited(1);
	file({job(1, kA), job(4, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	finish_limited(kA, {}, job(9, kA).key);
	EXPECT_TRUE(schedule.wants_probes());
	EXPECT_EQ(begin_probe().start, job(9, kA).key);
	finish_limited(kA, {});
	EXPECT_EQ(group(kA), nullptr);
	EXPECT_TRUE(schedule.exhausted());
}

TEST_F(GroupRulesTest, ARefusedCandidateHoldsNobodyUpThatComesBefore)
{
	load_limited(1, 1);
	file({job(1, kA)});
	claim();
	file({job(5, kA)});
	claim();
	file({job(3, kB)});
	end(kA);
	begin_probe();
	finish_limited(kA, {job(5, kA)});
	EXPECT_EQ(ready(), Ids{3});
	EXPECT_EQ(schedule.cursor(), kEnd);
	EXPECT_EQ(group(kA)->cursor, job(5, kA).key);
	EXPECT_TRUE(group(kA)->pending);
	EXPECT_EQ(claim(), 3);
	EXPECT_FALSE(schedule.poppable() || schedule.exhausted());
}

TEST_F(GroupRulesTest, WhoFindsItsJobLeasedLooksForTheNext)
{
	load_limited(1);
	file({job(1, kA), job(2, kA), job(3, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	finish_limited(kA, {job(2, kA)}, job(3, kA).key);
	Hint hint = schedule.pop();
	EXPECT_EQ(schedule.admit(hint), Admission::kGo);
	EXPECT_FALSE(group(kA)->pending);
	schedule.left(hint);
	EXPECT_TRUE(group(kA)->pending);
}

/* ---- entries ---- */

TEST_F(GroupRulesTest, AnIdleEntryIsGivenUpAndReadAgain)
{
	load_limited(1, 4, 1);
	file({job(1, kA), job(2, kA), job(3, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	finish_limited(kA, {job(2, kA)}, job(3, kA).key);
	schedule.file(job(1, kB));
	EXPECT_EQ(claim(), 1);
	EXPECT_EQ(group(kA), nullptr);
	EXPECT_NE(group(kB), nullptr);
	EXPECT_EQ(schedule.cursor(), job(3, kA).key);
}

TEST_F(GroupRulesTest, AnEntryOfAGroupInWorkIsNot)
{
	load_limited(2, 4, 1);
	file({job(1, kA), job(2, kA), job(3, kA), job(4, kA)});
	claim(), claim(), claim(), claim();
	end(kA);
	begin_probe();
	finish_limited(kA, {job(3, kA)}, job(4, kA).key);
	schedule.file(job(1, kB));
	EXPECT_EQ(schedule.admit(schedule.pop()), Admission::kNoEntry);
	EXPECT_NE(group(kA), nullptr);
	EXPECT_TRUE(group(kA)->aside);
}

TEST_F(GroupRulesTest, AnEntryOfAGroupThatIsBeingProbedIsNot)
{
	load_limited(1, 4, 1);
	file({job(1, kA), job(2, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	schedule.file(job(1, kB));
	EXPECT_EQ(schedule.admit(schedule.pop()), Admission::kNoEntry);
	EXPECT_NE(group(kA), nullptr);
}

TEST_F(GroupRulesTest, AnEntryThatIsOfNoUseIsSpare)
{
	load_limited(1);
	file({job(1, kA)});
	EXPECT_EQ(schedule.groups().spares(), 4);
	claim();
	EXPECT_EQ(schedule.groups().spares(), 3);
	end(kA);
	EXPECT_EQ(schedule.groups().spares(), 4);
	EXPECT_TRUE(schedule.exhausted());
}

/* ---- fifo ---- */

TEST_F(GroupRulesTest, OnlyOneOfAGroupRunsAndTheNextIsLookedFor)
{
	load_fifo();
	file({job(1, kA), job(2, kA)});
	EXPECT_EQ(claim(), 1);
	EXPECT_EQ(claim(), 0);
	EXPECT_TRUE(schedule.exhausted());
	end(kA);
	EXPECT_FALSE(schedule.exhausted());
	begin_probe();
	finish_head(job(2, kA));
	EXPECT_EQ(claim(), 2);
}

TEST_F(GroupRulesTest, WhileAHeadIsLookedForNothingGoesOut)
{
	load_fifo();
	file({job(1, kA)});
	claim();
	file({job(9, kB, 7)});
	EXPECT_TRUE(schedule.poppable());
	end(kA);
	EXPECT_FALSE(schedule.poppable()) << "the head of A may be more urgent";
	begin_probe();
	EXPECT_FALSE(schedule.poppable());
	schedule.finish_probe(kA, nullptr, 0, kEnd, INT64_MIN);
	EXPECT_TRUE(schedule.poppable());
}

TEST_F(GroupRulesTest, TheEndOfALeaseWithoutASlotHasTheGroupLookedAt)
{
	load_fifo();
	EXPECT_EQ(group(kA), nullptr);
	schedule.look_at_group(kA);
	EXPECT_TRUE(schedule.wants_probes());
	EXPECT_EQ(begin_probe().start, Key::lowest());
}

TEST_F(GroupRulesTest, IfThereIsNoEntryForThatAllIsReadAgain)
{
	load_fifo(4, 1);
	file({job(1, kA)});
	claim();
	schedule.look_at_group(kB);
	EXPECT_EQ(group(kB), nullptr);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
}

TEST_F(GroupRulesTest, WhoIsBehindWaitsForTheHead)
{
	load_fifo();
	file({job(2, kA)});
	Hint hint = schedule.pop();
	ASSERT_EQ(schedule.admit(hint), Admission::kGo);
	schedule.took(hint);
	schedule.pass_over(hint);
	end(kA);
	EXPECT_FALSE(schedule.poppable());
	begin_probe();
	finish_head(job(1, kA));
	EXPECT_EQ(ready(), Ids{1});
	EXPECT_TRUE(schedule.covers(job(2, kA)));
}

TEST_F(GroupRulesTest, AskedForDuringAProbeItIsProbedOnceMore)
{
	load_fifo();
	schedule.look_at_group(kA);
	begin_probe();
	schedule.look_at_group(kA);
	finish_head(delayed(200, 1, kA));
	EXPECT_TRUE(schedule.wants_probes()) << "that head may be gone";
}

TEST_F(GroupRulesTest, TheFloorIsTheHeadThatWasRead)
{
	load_fifo();
	schedule.look_at_group(kA);
	begin_probe();
	finish_head(job(5, kA));
	EXPECT_EQ(schedule.groups().floor_of(kA), 5);
	EXPECT_EQ(schedule.groups().floor_of(kB), INT64_MIN);
	schedule.file(job(3, kA));
	EXPECT_EQ(schedule.groups().floor_of(kA), 3);
	schedule.file(delayed(200, 2, kA));
	EXPECT_EQ(schedule.groups().floor_of(kA), 2) << "due or not, it is before them";
	schedule.pull_back({0, 50, 9}, TimerKey::highest());
	EXPECT_EQ(schedule.groups().floor_of(kA), INT64_MIN) << "any may be there";
}

TEST_F(GroupRulesTest, TheFloorIsNotBeyondWhatWasFiledMeanwhile)
{
	for (const Hint &earlier : {job(3, kA), delayed(200, 3, kA)})
	{
		load_fifo();
		schedule.look_at_group(kA);
		begin_probe();
		EXPECT_EQ(schedule.groups().floor_of(kA), INT64_MIN);
		schedule.file(earlier);
		finish_head(job(5, kA));
		EXPECT_EQ(schedule.groups().floor_of(kA), 3);
	}
}

/* Jobs of another group push out those behind the head, one after the other. */
TEST_F(GroupRulesTest, AHeadMakesNoRoomForWhatComesBehindIt)
{
	load({.fifo = true, .fair = true}, 2, 4);
	file({job(1, kA), job(2, kA), job(3, kA)});
	file({job(4, kB), job(5, kB + 1)});
	bool head = false;
	schedule.window().for_each([&](const Hint &hint) { head |= hint.key.job_id == 1; });
	EXPECT_TRUE(head || schedule.covers(job(1, kA)));
}

/* ---- all at once ---- */

TEST_F(GroupRulesTest, NewRulesHaveEverythingReadAgain)
{
	load_limited(1);
	file({job(1, kA), job(2, kA)});
	claim(), claim();
	schedule.change_group_rules({.limit = 2, .fifo = false}, 0);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
	EXPECT_EQ(group(kA)->running, 1);
	refill({job(2, kA), job(3, kA)});
	EXPECT_EQ(claim(), 2);
	EXPECT_EQ(claim(), 0);
}

TEST_F(GroupRulesTest, WhatRunsAlreadyCounts)
{
	load({});
	schedule.change_group_rules({.limit = 1, .fifo = false}, 0);
	EXPECT_TRUE(schedule.count_running(job(1, kA)));
	refill({job(2, kA)});
	EXPECT_EQ(claim(), 0);
	end(kA);
	EXPECT_TRUE(schedule.wants_probes());
}

TEST_F(GroupRulesTest, ARewindHasAllGroupsMetAgain)
{
	load_limited(1);
	file({job(1, kA), job(2, kA)});
	claim(), claim();
	schedule.fire(100 - 2 * pgq::kJump);
	EXPECT_FALSE(group(kA)->aside);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
}

TEST_F(GroupRulesTest, AProbeThatWasOvertakenByThatIsForgotten)
{
	load_limited(1);
	file({job(1, kA), job(2, kA)});
	claim(), claim();
	end(kA);
	begin_probe();
	schedule.pull_back(Key::lowest(), TimerKey::lowest());
	EXPECT_EQ(schedule.groups().probing(), 0);
	finish_limited(kA, {job(2, kA)});
	EXPECT_EQ(ready(), Ids{});
	EXPECT_TRUE(schedule.wants_window_refill());
}

/* ---- two hints of one job ---- */

TEST_F(GroupRulesTest, AHintOfAnotherGroupDoesNotStandForTheRow)
{
	load_limited(1);
	schedule.file(job(1, kA));
	EXPECT_FALSE(schedule.covers(job(1, kB)) || schedule.leads_to(job(1, kB)));
	schedule.file(job(1, kB));
	EXPECT_EQ(ready(), (Ids{1, 1}));
}

TEST_F(GroupRulesTest, AWindowTooSmallForBothDoesNotHoldThemUp)
{
	load_limited(1, 1);
	file({job(1, kA), job(1, kB)});
	EXPECT_EQ(schedule.cursor(), job(1, kB).key);
	EXPECT_TRUE(schedule.poppable());
	EXPECT_FALSE(schedule.wants_window_refill());
}

} // namespace
