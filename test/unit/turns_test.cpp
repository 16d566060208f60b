/* The order of the turns of groups, and the runs that are evicted when there are too few nodes. */
#include "core/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using pgq::Hint;
using pgq::Turns;

Hint
job(int64_t id, int64_t group, int32_t priority = 0)
{
	return {.key = {priority, 10, id}, .place = {}, .delayed = false, .group = group};
}

class TurnsTest : public testing::Test
{
protected:
	/* Initialize turns that lack no job. */
	void init(uint32_t capacity)
	{
		nodes.resize(Turns::nodes(capacity));
		turns.init(nodes.data(), capacity);
		pgq::LapStep step = turns.begin_step();
		EXPECT_FALSE(turns.look_at_step(&step, pgq::Lap::kNone));
		turns.end_step();
		pgq::Visit visit;
		EXPECT_EQ(turns.begin_visits(&visit, 1, false), 1);
		turns.end_visit(0, nullptr, 0, pgq::Key::highest(), false);
		EXPECT_TRUE(turns.all_known());
	}
	void insert(const Hint &hint) { turns.insert(hint, false); }
	std::vector<int64_t> pop_all()
	{
		std::vector<int64_t> ids;
		while (turns.poppable())
			ids.push_back(turns.pop().key.job_id);
		return ids;
	}
	using Ids = std::vector<int64_t>;

	std::vector<Turns::Node> nodes;
	Turns turns;
};

TEST_F(TurnsTest, GroupsTakeTurns)
{
	init(8);
	for (int64_t id : {1, 2, 3})
		insert(job(id, 7));
	insert(job(4, 9));
	insert(job(5, 0));
	EXPECT_EQ(pop_all(), (Ids{5, 1, 4, 2, 3}));
	EXPECT_TRUE(turns.all_known());
}

TEST_F(TurnsTest, WhoComesLaterDoesNotStartTheRoundAnew)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 5)), insert(job(3, 9));
	EXPECT_EQ(turns.pop().key.job_id, 1);
	insert(job(4, 1));
	insert(job(5, 5));
	EXPECT_EQ(pop_all(), (Ids{3, 4, 2, 5}));
}

TEST_F(TurnsTest, ThePriorityComesFirstAndEachHasItsTurns)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 9)), insert(job(3, 5));
	EXPECT_EQ(turns.pop().key.job_id, 1);
	insert(job(4, 1, 1));
	EXPECT_EQ(turns.pop().key.job_id, 4);
	insert(job(5, 1, 1));
	EXPECT_EQ(pop_all(), (Ids{5, 2, 3}));
}

/* A job of each higher priority goes out between two turns of the lowest priority. */
TEST_F(TurnsTest, TurnsOfAPriorityOutlastThoseOfAnyOthers)
{
	init(16);
	for (int64_t group : {1, 2, 3})
		insert(job(group, group, -1000));
	Ids groups;
	for (int64_t round = 0; round < 6; round++)
	{
		for (int32_t priority : {-999, -1, 0, 1, 2, 3, 4, 200, INT32_MAX})
		{
			insert(job(1000, 2, priority));
			EXPECT_EQ(turns.pop().key.priority, priority);
		}
		Hint turn = turns.pop();
		groups.push_back(turn.group);
		insert(turn);
	}
	EXPECT_EQ(groups, (Ids{1, 2, 3, 1, 2, 3}));
}

TEST_F(TurnsTest, AReturnedTurnComesAgain)
{
	init(8);
	for (int64_t id : {1, 2, 3})
		insert(job(id, id));
	EXPECT_EQ(turns.pop().key.job_id, 1);
	for (int i = 0; i < 3; i++)
	{
		Hint hint = turns.pop();
		EXPECT_EQ(hint.key.job_id, 2);
		EXPECT_TRUE(turns.return_turn(hint, turns.last_turn()));
		insert(hint);
	}
	EXPECT_EQ(pop_all(), (Ids{2, 3}));
}

TEST_F(TurnsTest, AJobThatIsNotHandedOutUsesUpNoTurn)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 9)), insert(job(3, 9)), insert(job(4, 12));
	EXPECT_EQ(turns.pop().key.job_id, 1);
	Hint gone = turns.pop();
	EXPECT_EQ(gone.key.job_id, 2);
	EXPECT_TRUE(turns.return_turn(gone, turns.last_turn()));
	EXPECT_EQ(pop_all(), (Ids{3, 4}));
}

TEST_F(TurnsTest, ATurnIsNotReturnedAfterTheTurnOfAnotherGroup)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 9)), insert(job(3, 5));
	Hint gone = turns.pop();
	Turns::Given turn = turns.last_turn();
	EXPECT_EQ(turns.pop().key.job_id, 2);
	EXPECT_FALSE(turns.return_turn(gone, turn));
	insert(job(4, 9));
	EXPECT_EQ(pop_all(), (Ids{3, 4}));
}

TEST_F(TurnsTest, ATurnIsNotReturnedAfterALaterTurnOfItsGroup)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 5));
	Hint gone = turns.pop();
	Turns::Given turn = turns.last_turn();
	EXPECT_EQ(turns.pop().key.job_id, 2);
	EXPECT_FALSE(turns.return_turn(gone, turn));
	insert(job(3, 5)), insert(job(4, 9));
	EXPECT_EQ(pop_all(), (Ids{4, 3}));
}

TEST_F(TurnsTest, TurnsAreReturnedFromTheLastOneOn)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 9)), insert(job(3, 12));
	Hint one = turns.pop();
	Turns::Given first = turns.last_turn();
	Hint two = turns.pop();
	Turns::Given second = turns.last_turn();
	EXPECT_FALSE(turns.return_turn(one, first));
	EXPECT_TRUE(turns.return_turn(two, second));
	EXPECT_TRUE(turns.return_turn(one, first));
	insert(job(4, 9)), insert(job(5, 5));
	EXPECT_EQ(pop_all(), (Ids{5, 4, 3}));
}

TEST_F(TurnsTest, AnEqualOneIsReplaced)
{
	init(4);
	insert(job(1, 5)), insert(job(2, 5)), insert(job(1, 5));
	EXPECT_EQ(turns.size(), 3u) << "a run and two jobs";
	EXPECT_TRUE(turns.contains(job(2, 5)));
	EXPECT_FALSE(turns.contains(job(2, 6)));
}

/* While there are no more groups than places, each group keeps its run. */
TEST_F(TurnsTest, WhatDoesNotFitIsTheLastOfAGroup)
{
	init(16);
	for (int64_t id = 0; id < 100; id++)
		insert(job(id, 1000));
	for (int64_t group = 1; group < 16; group++)
		for (int64_t id : {1, 2, 3})
			insert(job(group * 100 + id, group * 31));
	EXPECT_FALSE(turns.lap().on());
	for (int64_t group = 1; group < 16; group++)
		EXPECT_TRUE(turns.covers(job(group * 100 + 3, group * 31), false));
	EXPECT_TRUE(turns.covers(job(99, 1000), false));
}

TEST_F(TurnsTest, AGroupThatDoesNotFitIsForALap)
{
	init(1);
	for (int64_t group : {1, 2, 3, 4, 5})
		insert(job(group, group));
	EXPECT_TRUE(turns.lap().on());
	for (int64_t group : {1, 2, 3, 4, 5})
		EXPECT_TRUE(turns.covers(job(group, group), false));
	EXPECT_EQ(turns.pop().key.job_id, 1);
}

TEST_F(TurnsTest, LowerPrioritiesMakeRoom)
{
	init(1);
	insert(job(1, 5)), insert(job(2, 6, 1)), insert(job(3, 7, 2));
	EXPECT_EQ(turns.pop().key.job_id, 3);
	EXPECT_TRUE(turns.covers(job(1, 5), false));
	EXPECT_TRUE(turns.covers(job(2, 6, 1), false));
}

} // namespace
