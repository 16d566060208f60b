/*
 * The window of a queue with fair: groups take turns, with one job of each group in each turn.
 */
#include "core/window.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace {

using pgq::Hint;
using pgq::Window;

Hint
job(int64_t id, int64_t group, int32_t priority = 0)
{
	return {
		.key = {priority, 10, id}, .place = {}, .delayed = false, .in_turn = false, .group = group};
}

class WindowTest : public testing::Test
{
protected:
	void init(uint32_t capacity)
	{
		nodes.resize(capacity);
		window.init(nodes.data(), capacity);
		window.reset(true);
	}
	void insert(const Hint &hint)
	{
		window.insert(hint, [this](const Hint &out) { left_out.push_back(out.key.job_id); });
	}
	std::vector<int64_t> pop_all()
	{
		std::vector<int64_t> ids;
		while (!window.empty())
			ids.push_back(window.pop().key.job_id);
		return ids;
	}
	using Ids = std::vector<int64_t>;

	std::vector<Window::Node> nodes;
	Window window;
	Ids left_out;
};

TEST_F(WindowTest, GroupsTakeTurns)
{
	init(8);
	for (int64_t id : {1, 2, 3})
		insert(job(id, 7));
	insert(job(4, 9));
	insert(job(5, 0));
	EXPECT_EQ(window.groups(), 3u);
	EXPECT_EQ(pop_all(), (Ids{5, 1, 4, 2, 3}));
	EXPECT_EQ(window.groups(), 0u);
}

TEST_F(WindowTest, WhoComesLaterDoesNotStartTheRoundAnew)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 5)), insert(job(3, 9));
	EXPECT_EQ(window.pop().key.job_id, 1);
	insert(job(4, 1));
	insert(job(5, 5));
	EXPECT_EQ(pop_all(), (Ids{3, 4, 2, 5}));
}

TEST_F(WindowTest, ThePriorityComesFirstAndEachHasItsTurns)
{
	init(8);
	insert(job(1, 5)), insert(job(2, 9)), insert(job(3, 5));
	EXPECT_EQ(window.pop().key.job_id, 1);
	insert(job(4, 1, 1));
	EXPECT_EQ(window.pop().key.job_id, 4);
	insert(job(5, 1, 1));
	EXPECT_EQ(pop_all(), (Ids{5, 2, 3}));
}

/* A job of each of them goes out between two turns of the lowest one. */
TEST_F(WindowTest, TurnsOfAPriorityOutlastThoseOfAnyOthers)
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
			EXPECT_EQ(window.pop().key.priority, priority);
		}
		Hint turn = window.pop();
		groups.push_back(turn.group);
		insert(turn);
	}
	EXPECT_EQ(groups, (Ids{1, 2, 3, 1, 2, 3}));
}

TEST_F(WindowTest, AReturnedTurnComesAgain)
{
	init(8);
	for (int64_t id : {1, 2, 3})
		insert(job(id, id));
	EXPECT_EQ(window.pop().key.job_id, 1);
	for (int i = 0; i < 3; i++)
	{
		Hint hint = window.pop();
		EXPECT_EQ(hint.key.job_id, 2);
		window.return_turn(hint);
		insert(hint);
	}
	EXPECT_EQ(pop_all(), (Ids{2, 3}));
}

TEST_F(WindowTest, AnEqualOneIsReplaced)
{
	init(2);
	insert(job(1, 5)), insert(job(2, 5)), insert(job(1, 5));
	EXPECT_EQ(window.size(), 2u);
	EXPECT_EQ(window.groups(), 1u);
	EXPECT_TRUE(left_out.empty());
	EXPECT_TRUE(window.contains(job(2, 5)));
	EXPECT_FALSE(window.contains(job(2, 6)));
	EXPECT_TRUE(window.holds(0, 5));
	EXPECT_FALSE(window.holds(1, 5));
	EXPECT_FALSE(window.holds(0, 4));
}

TEST_F(WindowTest, WhatDoesNotFitIsTheLastOfAGroupWithSeveral)
{
	init(4);
	for (int64_t id : {1, 2, 3, 4})
		insert(job(id, 5));
	insert(job(5, 5));
	EXPECT_EQ(left_out, (Ids{5}));
	insert(job(6, 9));
	EXPECT_EQ(left_out, (Ids{5, 4}));
	insert(job(7, 1)), insert(job(8, 2));
	EXPECT_EQ(left_out, (Ids{5, 4, 3, 2}));
	EXPECT_EQ(window.groups(), 4u);
	insert(job(9, 3));
	EXPECT_EQ(left_out.back(), 9) << "all groups have one only";
	insert(job(0, 5));
	EXPECT_EQ(left_out.back(), 1) << "of the same group the later one";
}

TEST_F(WindowTest, LowerPrioritiesMakeRoom)
{
	init(2);
	insert(job(1, 5)), insert(job(2, 6, 1));
	EXPECT_TRUE(window.wants_groups());
	insert(job(3, 6, 1));
	EXPECT_EQ(left_out, (Ids{1}));
	insert(job(4, 7));
	EXPECT_EQ(left_out, (Ids{1, 4}));
	EXPECT_TRUE(window.wants_groups()) << "one group of two places";
	insert(job(5, 7, 1));
	EXPECT_EQ(left_out, (Ids{1, 4, 3}));
	EXPECT_FALSE(window.wants_groups());
}

/* As long as there are no more groups than places, each has a job in a full window, wherever it comes. */
TEST_F(WindowTest, EachGroupHasOne)
{
	init(64);
	std::map<int64_t, int> in_window;
	for (int64_t id = 0; id < 64; id++)
		insert(job(id, 1000));
	for (int64_t group = 1; group < 64; group++)
		for (int64_t id : {1, 2, 3})
			insert(job(group * 100 + id, group * 31));
	window.for_each([&](const Hint &hint) { in_window[hint.group]++; });
	EXPECT_EQ(in_window.size(), 64u);
	EXPECT_EQ(window.groups(), 64u);
}

} // namespace
