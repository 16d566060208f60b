/* Turns when memory is full, and when the hint of a deleted row comes. */
#include "core/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using pgq::Hint;
using pgq::Key;
using pgq::Lap;
using pgq::LapStep;
using pgq::Turns;

Hint
job(int64_t id, int64_t group, int32_t priority = 0)
{
	return {.key = {priority, 10, id}, .place = {}, .delayed = false, .group = group};
}

/* Memory is full, and a step reads groups whose first rows all have leases: a run without jobs takes a node, too. */
void
step_over_leased(uint32_t capacity, int groups, bool then_a_job)
{
	std::vector<Turns::Node> nodes(Turns::nodes(capacity) + 40);
	memset(static_cast<void *>(nodes.data()), 0x5a, nodes.size() * sizeof(Turns::Node));
	Turns turns;
	turns.init(nodes.data(), capacity);
	LapStep step = turns.begin_step();
	EXPECT_TRUE(turns.look_at_step(&step, 0));
	/* Memory is filled by groups of the arc. */
	int64_t group = 1;
	while (turns.size() < capacity + Turns::kLeast)
	{
		Hint hint = job(group, group);
		EXPECT_TRUE(turns.take_group(step, group, true, &hint, 1, Key::highest()));
		group++;
	}
	turns.end_step();
	step = turns.begin_step();
	EXPECT_TRUE(turns.look_at_step(&step, 0));
	for (int i = 0; i < groups; i++, group++)
		turns.take_group(step, group, true, nullptr, 0, job(group, group).key);
	if (then_a_job)
	{
		Hint hint = job(group, group);
		turns.take_group(step, group, true, &hint, 1, Key::highest());
	}
	auto *end = reinterpret_cast<unsigned char *>(&nodes[Turns::nodes(capacity)]);
	size_t spoilt = 0;
	for (size_t i = 0; i < 40 * sizeof(Turns::Node); i++)
		spoilt += end[i] != 0x5a;
	EXPECT_EQ(spoilt, 0u) << "bytes behind the array of nodes were overwritten";
	EXPECT_LE(turns.size(), capacity + Turns::kLeast + Turns::kSpare);
}

TEST(FullTurns, OneLeasedGroupThenAJob)
{
	step_over_leased(21, 1, true);
}
TEST(FullTurns, AStepOfLeasedGroups)
{
	step_over_leased(64, 16, false);
}

/*
 * With fifo, the hint of a delayed job that was cancelled leaves the timer, with a smaller id than the known head. If the
 * hint took the place of the head without a marker, nothing in memory would lead to the head after the hint was evicted.
 */
TEST(FullTurns, AHintWithoutARowLeavesAMarkerAtTheHead)
{
	std::vector<Turns::Node> nodes(Turns::nodes(5));
	Turns turns;
	turns.init(nodes.data(), 5);
	LapStep step = turns.begin_step();
	EXPECT_FALSE(turns.look_at_step(&step, Lap::kNone));
	turns.end_step();
	pgq::Visit visit;
	EXPECT_EQ(turns.begin_visits(&visit, 1, true), 1);
	turns.end_visit(0, nullptr, 0, Key::highest(), false);
	Hint head = job(12, 2, 1);
	turns.insert(head, true);
	EXPECT_TRUE(turns.covers(head, true));
	turns.insert(job(4, 2, 0), true); /* from the timer; its row is gone */
	EXPECT_TRUE(turns.covers(head, true)) << "behind job 4, it says";
	for (int64_t g = 3; g < 9; g++)
		turns.insert(job(10 + g, g, 1), true); /* of a higher priority than job 4 */
	EXPECT_TRUE(turns.covers(head, true)) << "forgotten";
}

} // namespace
