/* Queues with fifo: the heads of groups that memory knows, and the jobs behind them. */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using pgq::GroupRules;
using pgq::Heads;
using pgq::Hint;
using pgq::Key;
using pgq::Schedule;
using pgq::TimerKey;
using pgq::Visit;

constexpr GroupRules kFifo{.limit = 0, .fifo = true};
constexpr int64_t kNow = 1000;

Hint
job(int64_t id, int64_t group, int64_t run_at = kNow, bool delayed = false)
{
	return {.key = {0, run_at, id}, .place = {}, .delayed = delayed, .group = group};
}

/* The ids of groups are hashes. */
int64_t
group_of(int64_t i)
{
	return static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u);
}

/* A queue whose timer was read, and which has no rows. */
struct Queue
{
	explicit Queue(uint32_t window, const GroupRules &rules = kFifo)
		: nodes(Schedule::nodes(window)), timer(1024), entries(16)
	{
		c.init(nodes.data(), window, timer.data(), 1024);
		c.reset(rules);
		for (auto &entry : entries)
			c.groups().give(&entry);
		c.begin_timer_refill(kNow);
		c.finish_timer_refill(TimerKey::highest());
	}

	std::vector<Schedule::Node> nodes;
	std::vector<Schedule::Timer::Node> timer;
	std::vector<pgq::Group> entries;
	Schedule c;
};

/* A claim of a queue with rows that all wait for the delayed heads of their groups. Return the number of leases that it takes. */
int
claim_in_vain(Schedule &c, const std::vector<Hint> &rows, const std::vector<Hint> &heads)
{
	static constexpr size_t kBatch = 1024;
	int leases = 0;
	for (;;)
	{
		c.clear_way();
		if (c.poppable())
		{
			Hint hint = c.pop();
			if (!c.admit(hint))
				continue;
			c.took(hint);
			leases++;
			c.release_group(hint.group, true);
			c.look_at_group(hint.group);
		}
		else if (c.wants_visit())
		{
			Visit visits[pgq::kVisitsMax];
			int n = c.begin_visits(visits, pgq::kVisitsMax);
			for (int i = 0; i < n; i++)
				for (Hint head : heads)
					if (head.group == visits[i].group)
						c.finish_visit(visits[i], &head, 1, Key::highest(), head.key.job_id);
			c.end_visits();
		}
		else if (c.wants_window_refill())
		{
			Key from = c.begin_window_refill(kNow);
			size_t i = 0;
			while (i < rows.size() && rows[i].key < from)
				i++;
			size_t end = std::min(rows.size(), i + kBatch);
			for (; i < end; i++)
				c.merge_window_row(rows[i]);
			c.finish_window_refill(end < rows.size() ? rows[end].key : Key::highest());
		}
		else
			return leases;
	}
}

/* A claim finds out once for each group that its head waits, not once for each job behind the head. */
TEST(Heads, ManyGroupsThatWait)
{
	static constexpr int kGroups = 1000;
	Queue q(2048);
	std::vector<Hint> heads, rows;
	for (int g = 1; g <= kGroups; g++)
		q.c.file(heads.emplace_back(job(g, group_of(g), kNow + 5000, true)));
	for (int64_t id = kGroups + 1; id <= 11 * kGroups; id++)
		rows.push_back(job(id, group_of(1 + id % kGroups)));
	EXPECT_LE(claim_in_vain(q.c, rows, heads), kGroups + kGroups / 4);
	int unknown = 0;
	for (const Hint &row : rows)
		unknown += !q.c.covers(row);
	EXPECT_LE(unknown, kGroups / 4) << "these would be looked up by the reconciler";
}

/* A lease that ends is one piece of news, although its group gets the marker twice. */
TEST(Heads, OneMarkerIsOnePieceOfNews)
{
	for (bool fair : {false, true})
	{
		GroupRules rules = kFifo;
		rules.fair = fair;
		Queue q(64, rules);
		if (!fair)
		{
			q.c.begin_window_refill(kNow);
			q.c.finish_window_refill(Key::highest());
		}
		q.c.look_at_group(7);
		EXPECT_EQ(q.c.take_news(), 1u);
		q.c.look_at_group(7);
		EXPECT_EQ(q.c.take_news(), 0u) << "the marker is there";
		Visit visits[pgq::kVisitsMax];
		EXPECT_GT(q.c.begin_visits(visits, pgq::kVisitsMax), 0);
		q.c.look_at_group(7);
		EXPECT_EQ(q.c.take_news(), 1u) << "the visit may have read before";
		q.c.end_visits();
	}
}

/* A queue has as many floors as places of the window, so a search for a head does not read what has ended. */
TEST(Heads, FloorsOfManyGroups)
{
	static constexpr uint32_t kSlots = 2048;
	std::vector<Heads::Slot> slots(kSlots);
	Heads heads;
	heads.init(slots.data(), kSlots);
	for (int64_t g = 1; g <= 1500; g++)
	{
		EXPECT_EQ(heads.begin_visit(group_of(g)), INT64_MIN);
		heads.end_visit(group_of(g), g);
	}
	int known = 0;
	for (int64_t g = 1; g <= 1500; g++)
		known += heads.floor_of(group_of(g)) == g;
	EXPECT_GE(known, 1400);
}

/* Groups whose jobs have all ended make room for others first. */
TEST(Heads, IdleGroupsMakeRoom)
{
	std::vector<Heads::Slot> slots(8);
	Heads heads;
	heads.init(slots.data(), 8);
	for (int64_t g = 1; g <= 8; g++)
	{
		heads.begin_visit(g);
		heads.end_visit(g, g == 1 ? 1 : INT64_MAX);
	}
	for (int64_t g = 9; g <= 15; g++)
	{
		heads.begin_visit(g);
		heads.end_visit(g, g);
	}
	EXPECT_TRUE(heads.knows(1));
	heads.forget();
	EXPECT_EQ(heads.floor_of(1), INT64_MIN);
	EXPECT_FALSE(heads.knows(15));
}

} // namespace
