/* Claims in a queue with rules for groups, round by round: each one ends, and reads only what it needs. */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace {

using pgq::ChangedRows;
using pgq::GroupRules;
using pgq::Hint;
using pgq::Key;
using pgq::Lap;
using pgq::LapStep;
using pgq::Schedule;
using pgq::TimerKey;
using pgq::Visit;

constexpr GroupRules kFair{.limit = 0, .fifo = false, .fair = true};

/*
 * A queue, its rows, and one claim as src/claim does it: pop_under_lock(), what_is_missing(), clear_the_way(), with the
 * calls of fire() that these make, and a clock that goes on between two of them.
 */
class Claimer
{
public:
	Claimer(uint32_t window, uint32_t timer, const GroupRules &rules)
		: nodes(Schedule::nodes(window)), timer_nodes(timer), entries(4096)
	{
		c.init(nodes.data(), window, timer_nodes.data(), timer);
		for (auto &entry : entries)
			c.groups().give(&entry);
		c.reset(rules);
		c.doubt_horizon(INT64_MIN);
		batch = static_cast<int>(std::min<uint32_t>(1024, window));
		timer_batch = static_cast<int>(std::min<uint32_t>(1024, timer));
	}

	int64_t now() { return clock++; }
	void add(int64_t group, int32_t priority = 0, int64_t run_at = 0, bool delayed = false)
	{
		int64_t id = next_id++;
		rows[id] = {.key = {priority, run_at, id}, .place = {}, .delayed = delayed, .group = group};
	}

	bool due(const Hint &row) const { return row.key.run_at <= c.due_line() || !row.delayed; }

	/* Returns the id; 0: nothing; -1: it goes round in circles. */
	int64_t claim(int most_rounds = 3000)
	{
		bool refilled = false;
		for (rounds = 0; rounds < most_rounds; rounds++)
		{
			refilled ? c.notice_step_back(now()) : c.fire(now());
			refilled = false;
			c.clear_way();
			if (c.poppable())
			{
				Hint hint = c.pop();
				if (!c.admit(hint))
					continue;
				if (rows.contains(hint.key.job_id) && !leased.contains(hint.key.job_id))
				{
					leased[hint.key.job_id] = hint;
					if (hint.group != 0 && c.rules().count())
						c.took(hint);
					return hint.key.job_id;
				}
				c.left(hint);
			}
			else if (c.hides_due() && c.wants_timer_refill())
				refilled = timer_refill(), (void) window_refill();
			else if (c.wants_visit())
				visit();
			else if (c.wants_step())
				step();
			else if (c.wants_window_refill())
			{
				refilled = timer_refill();
				refilled |= window_refill();
			}
			else
			{
				c.note_exhausted();
				return 0;
			}
		}
		return -1;
	}

	bool timer_refill()
	{
		c.fire(now());
		if (!c.wants_timer_refill())
			return false;
		timer_refills++;
		TimerKey from = c.begin_timer_refill(now());
		std::map<std::pair<int64_t, int64_t>, Hint> order;
		for (auto &[id, row] : rows)
			if (row.delayed && !(row.timer_key() < from))
				order[{row.key.run_at, id}] = row;
		int n = 0;
		for (auto &[key, row] : order)
		{
			if (n++ == timer_batch)
			{
				c.finish_timer_refill(row.timer_key());
				return true;
			}
			if (!leased.contains(row.key.job_id))
				c.merge_timer_row(row);
		}
		c.finish_timer_refill(TimerKey::highest());
		return true;
	}

	bool window_refill()
	{
		c.fire(now());
		if (!c.wants_window_refill())
			return false;
		refills++;
		Key from = c.begin_window_refill(now());
		std::map<Key, Hint> order;
		for (auto &[id, row] : rows)
			if (due(row) && !(row.key < from))
				order[row.key] = row;
		int n = 0;
		looks += static_cast<int>(order.size());
		for (auto &[key, row] : order)
		{
			if (n++ == batch)
			{
				c.finish_window_refill(key);
				return true;
			}
			if (!leased.contains(row.key.job_id))
				c.merge_window_row(row);
		}
		c.finish_window_refill(Key::highest());
		return true;
	}

	/* The rows of a group from that key on, `wanted` free ones of the first wanted + 2. */
	int rows_of(int64_t group, const Key &from, int wanted, std::vector<Hint> &out, Key *next)
	{
		std::map<Key, Hint> order;
		for (auto &[id, row] : rows)
			if (row.group == group && due(row) && !(row.key < from))
				order[row.key] = row;
		out.clear();
		*next = Key::highest();
		int read = 0;
		for (auto &[key, row] : order)
		{
			if (read++ == wanted + 2 || static_cast<int>(out.size()) == wanted)
			{
				*next = key;
				break;
			}
			if (!leased.contains(row.key.job_id))
				out.push_back(row);
		}
		return static_cast<int>(out.size());
	}

	void visit()
	{
		c.fire(now());
		c.clear_way();
		if (!c.wants_visit())
			return;
		visits++;
		Visit of[pgq::kVisitsMax];
		int n = c.begin_visits(of, pgq::kVisitsMax);
		for (int i = 0; i < n; i++)
		{
			std::vector<Hint> found;
			Key next;
			looks++;
			int k = rows_of(of[i].group, of[i].from, std::min(of[i].room, 32), found, &next);
			c.finish_visit(of[i], found.data(), k, next, INT64_MAX);
		}
		c.end_visits();
	}

	void step()
	{
		c.fire(now());
		if (!c.wants_step())
			return;
		steps++;
		LapStep step = c.begin_step();
		std::map<Key, Hint> from_priority;
		std::map<int64_t, int> groups;
		int64_t highest = Lap::kNone;
		for (auto &[id, row] : rows)
		{
			/* Of a row with a lease nothing can go out, as in src/load/lap.cpp. */
			if (due(row) && row.key.priority <= step.priority && !leased.contains(id))
				highest = std::max<int64_t>(highest, row.key.priority);
			if (due(row) && row.group != 0 && row.group >= step.from && row.group <= step.to)
				groups[row.group]++;
		}
		bool more = groups.size() > pgq::kVisitsMax;
		bool valid = c.look_at_step(&step, highest);
		int n = 0;
		for (auto &[group, rows_] : groups)
		{
			looks++;
			if (!valid || n++ == pgq::kVisitsMax)
				break;
			std::vector<Hint> found;
			Key next;
			int k = rows_of(group, Key::lowest(), std::min(step.room, 32), found, &next);
			valid = c.take_group(step, group, found.data(), k, next);
		}
		if (valid && !more)
			c.take_rest(step);
		c.end_step();
	}

	void ack(int64_t id)
	{
		Hint hint = leased[id];
		leased.erase(id);
		rows.erase(id);
		if (hint.group != 0 && c.rules().count())
			c.release_group(hint.group);
		c.look_at_group(hint.group);
	}

	std::vector<Schedule::Node> nodes;
	std::vector<Schedule::Timer::Node> timer_nodes;
	std::vector<pgq::Group> entries;
	Schedule c;
	std::map<int64_t, Hint> rows;
	std::map<int64_t, Hint> leased;
	int64_t clock = 1000, next_id = 1;
	int batch, timer_batch;
	int rounds = 0, steps = 0, visits = 0, refills = 0, timer_refills = 0;
	int looks =
		0; /* groups that visits and steps have read, and rows that refills of the window could have read */
};

/* Only claims read rows: no scheduler runs, or it has not come to this queue yet. One job is ready. */
TEST(GroupClaim, AFairQueueWhoseTimerWasNotRead)
{
	Claimer q(64, 16, kFair);
	q.add(7);
	EXPECT_EQ(q.claim(), 1) << q.steps << " steps, " << q.visits << " visits, " << q.timer_refills
							<< " timer refills";
}

/* The same after all rows are to be read again: a job with two missed hints has ended. */
TEST(GroupClaim, AFairQueueThatIsReadAgain)
{
	Claimer q(64, 16, kFair);
	for (int64_t g = 1; g <= 40; g++)
		q.add(g);
	q.timer_refill(); /* the scheduler has been there */
	EXPECT_GT(q.claim(), 0);
	q.c.pull_back(Key::lowest(), TimerKey::lowest());
	EXPECT_GT(q.claim(), 0) << q.steps << " steps, " << q.visits << " visits, " << q.timer_refills
							<< " timer refills";
}

/* The same without fair. */
TEST(GroupClaim, OtherQueuesWhoseTimerWasNotRead)
{
	for (const GroupRules &rules : {GroupRules{}, GroupRules{.limit = 1}})
	{
		Claimer q(64, 16, rules);
		q.add(7);
		EXPECT_EQ(q.claim(), 1);
	}
}

/* COMMIT PREPARED of one delayed job (hand_over_jobs: key +infinity): what is in memory stays. */
TEST(GroupClaim, APreparedDelayedJobCostsNothing)
{
	Claimer q(256, 16, kFair);
	for (int64_t g = 1; g <= 100; g++)
		q.add(g), q.add(g);
	q.timer_refill();
	EXPECT_GT(q.claim(), 0);
	uint32_t before = q.c.size();
	q.c.pull_back(Key::highest(), {1'000'000, 1});
	EXPECT_EQ(q.c.size(), before) << "all is read again for a job that is not even due";
}

/* COMMIT PREPARED of jobs of a few groups: claims read these groups, and no other row. */
TEST(GroupClaim, PreparedJobsCostAsManyLooksAsTheyHaveGroups)
{
	for (const GroupRules &rules :
		 {kFair, GroupRules{.limit = 8, .fifo = false, .fair = true}, GroupRules{.limit = 8}})
		for (int changed : {1, ChangedRows::kGroupsMax})
		{
			Claimer q(4096, 16, rules);
			q.timer_refill();
			EXPECT_EQ(q.claim(), 0) << "memory lacks no row";
			for (int64_t g = 0; g < 2000; g++)
			{
				q.add(1 + g % 1000);
				q.c.file(q.rows.rbegin()->second);
			}
			q.looks = 0;
			for (int round = 0; round < 20; round++)
			{
				ChangedRows rows = ChangedRows::none();
				for (int i = 0; i < changed; i++)
				{
					q.add(1 + (round * 37 + i * 101) % 1000);
					rows.add(q.rows.rbegin()->second);
				}
				q.c.pull_back(rows);
				q.ack(q.claim());
			}
			while (int64_t id = q.claim())
				q.ack(id);
			EXPECT_TRUE(q.rows.empty());
			EXPECT_LE(q.looks, 20 * changed)
				<< "fair " << rules.fair << ", " << changed << " groups";
		}
}

/*
 * Why a queue cannot have fair and group_rate_limit: the groups that are not remembered share one count of starts. Each start uses
 * up the room of all, and when there is room again, claims have to look at each group.
 */
TEST(GroupClaim, FairAndARateLookAtAllGroupsForEachStart)
{
	static constexpr int kGroups = 1000;
	static constexpr int kStarts = 20;
	for (int remembered : {0, kGroups})
	{
		Claimer q(4096, 16, {.limit = 0, .fifo = false, .fair = true, .rate = 1, .period = 1600});
		q.c.groups().remember_at_most(remembered);
		q.timer_refill();
		for (int i = 0; i < 2 * kGroups; i++)
			q.add(1 + i % kGroups);
		for (int i = 0; i < kStarts; i++)
		{
			int64_t id = q.claim();
			ASSERT_GT(id, 0);
			q.c.groups().note_start(q.leased[id].group, true);
			q.ack(id);
			if (remembered > 0)
				continue;
			EXPECT_EQ(q.claim(), 0) << "no group may start a job now";
			(void) q.c.let_time_pass(3200 * (i + 1));
		}
		EXPECT_EQ(remembered == 0, q.looks >= kStarts * kGroups) << q.looks << " look-ups";
	}
}

/*
 * Memory may lack rows (after COMMIT PREPARED, or when a job with two missed hints has ended), while one job of a higher
 * priority is in work. Its row must not make the lap visit all groups at a priority of which no job can go out.
 */
TEST(GroupClaim, ALeasedJobOfAHigherPriorityCostsALapOfAllGroups)
{
	int steps[2];
	for (int leased = 0; leased < 2; leased++)
	{
		Claimer q(64, 16, kFair);
		q.timer_refill();
		q.add(1, leased);
		for (int64_t g = 1; g <= 2000; g++)
			q.add(g);
		EXPECT_EQ(q.claim(), 1);
		q.c.pull_back(Key::lowest(), TimerKey::highest());
		int before = q.steps;
		EXPECT_GT(q.claim(), 0);
		steps[leased] = q.steps - before;
	}
	EXPECT_LE(steps[1], 4 * steps[0] + 8);
}

/*
 * With fifo, a job becomes due while a step reads, and the step takes the job over before its commit callback runs. Its end makes a
 * claim look for the next job of the group before a job of a lower priority goes out.
 */
TEST(GroupClaim, AJobThatBecomesDueDuringAStep)
{
	Claimer q(64, 16, {.limit = 0, .fifo = true, .fair = true});
	Schedule &c = q.c;
	q.timer_refill();
	c.fire(1000);
	LapStep step = c.begin_step();
	Hint low{.key = {0, 1000, 1}, .place = {}, .delayed = false, .group = 3};
	Hint late{.key = {4, 2000, 2}, .place = {}, .delayed = true, .group = 4};
	c.fire(2000);
	EXPECT_TRUE(c.look_at_step(&step, low.key.priority));
	EXPECT_TRUE(c.take_group(step, low.group, &low, 1, Key::highest()));
	EXPECT_TRUE(c.take_group(step, late.group, &late, 1, Key::highest()));
	c.take_rest(step);
	c.end_step();
	while (c.wants_visit()) /* of the jobs without a group */
		q.visit();
	Hint popped = c.pop();
	EXPECT_EQ(popped.key.job_id, 2);
	EXPECT_TRUE(c.admit(popped));
	c.took(popped);
	c.release_group(late.group);
	EXPECT_FALSE(c.poppable()) << "the next job of the group may have the higher priority";
	EXPECT_TRUE(c.wants_visit());
}

/* A group with many jobs in work is read again: its leased rows are passed over three at a time, each a look-up. */
TEST(GroupClaim, LeasedRowsOfAHotGroup)
{
	Claimer q(64, 16, kFair);
	q.timer_refill();
	for (int i = 0; i < 400; i++)
		q.add(1);
	for (int i = 0; i < 300; i++)
		EXPECT_GT(q.claim(), 0);
	for (int64_t g = 2; g <= 100; g++)
		q.add(g), q.c.file(q.rows[static_cast<int64_t>(q.rows.size())]);
	q.c.pull_back(Key::lowest(), TimerKey::highest());
	q.visits = q.steps = 0;
	int64_t id;
	do
		ASSERT_GT(id = q.claim(), 0);
	while (q.leased[id].group != 1);
	EXPECT_LE(q.visits, 40);
}

/* After a start, scans look for rows of any run_at, until a claim has found that there is no ready row any more. */
TEST(GroupClaim, AnEmptyFairQueueLowersTheHorizon)
{
	Claimer q(64, 16, kFair);
	q.c.doubt_horizon(INT64_MAX);
	q.add(7, 0, 5000);
	q.add(8);
	q.add(8, 0, 9000, true);
	EXPECT_EQ(q.claim(), 1);
	EXPECT_EQ(q.claim(), 2);
	EXPECT_EQ(q.c.horizon(), INT64_MAX);
	EXPECT_EQ(q.claim(), 0);
	EXPECT_EQ(q.c.horizon(), 5000) << "of job 1, which may come back";
}

/* Many delayed jobs are due at once. The first claim does not read all of them before it hands a job out. */
TEST(GroupClaim, ManyJobsAreDueAtOnce)
{
	for (const GroupRules &rules : {GroupRules{}, GroupRules{.limit = 1}, kFair})
	{
		Claimer q(64, 16, rules);
		for (int64_t g = 1; g <= 2000; g++)
			q.add(g, 0, 2000, true);
		EXPECT_EQ(q.claim(), 0);
		q.clock = 5000;
		q.timer_refills = 0;
		for (int i = 0; i < 5; i++)
			EXPECT_GT(q.claim(), 0);
		EXPECT_LE(q.timer_refills, 8);
		q.add(3000, 1, 0, false);
		q.c.file(q.rows.rbegin()->second);
		EXPECT_EQ(q.claim(), 2001) << "a job of a higher priority goes out next";
		for (int i = 6; i < 2000; i++)
			ASSERT_GT(q.claim(), 0);
	}
}

/* All rows are to be read again while a refill of the timer is under way. Its end does not count as a refill after that. */
TEST(GroupClaim, AllRowsAreReadAgainDuringARefillOfTheTimer)
{
	for (const GroupRules &rules : {GroupRules{.limit = 1}, kFair})
	{
		Claimer q(64, 16, rules);
		for (int64_t g = 1; g <= 500; g++)
			q.add(g, 0, 500, true);
		q.c.begin_timer_refill(q.now());
		q.c.pull_back(Key::lowest(), TimerKey::lowest());
		q.c.finish_timer_refill(TimerKey::highest());
		EXPECT_GT(q.claim(), 0);
		EXPECT_LE(q.timer_refills, 2);
	}
}

/*
 * By way of claims alone: 90 groups of one job, then tenants with 4 of 6 jobs in work, and one job of a higher priority in
 * work, in a window of 64. Rows may lack, and one claim reads. Memory is full when its steps come to the tenants.
 */
TEST(GroupClaim, AClaimWritesBehindTheNodes)
{
	EXPECT_EXIT(
		{
			Claimer q(64, 16, kFair);
			q.timer_refill();
			q.add(1, 1);
			for (int64_t g = 91; g <= 106; g++)
				for (int i = 0; i < 6; i++)
					q.add(g);
			for (int i = 0; i < 1 + 16 * 4; i++)
				(void) q.claim();
			for (int64_t g = 1; g <= 90; g++)
				q.add(g);
			q.c.pull_back(Key::lowest(), TimerKey::highest());
			int64_t id = q.claim();
			exit(id > 0 && q.c.size() <= Schedule::nodes(64) ? 0 : 1);
		},
		testing::ExitedWithCode(0), "");
}

} // namespace
