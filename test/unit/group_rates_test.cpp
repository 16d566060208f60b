/*
 * Rate limits of groups: each rule alone, and many groups with random starts, compared with a count
 * of all starts. group_model_test.cpp tests the limits among several sessions.
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using pgq::Group;
using pgq::GroupRules;
using pgq::Hint;
using pgq::Key;
using pgq::Schedule;
using pgq::TimerKey;
using pgq::Visit;

constexpr int64_t kPeriod = 16000;
constexpr int64_t kA = 1;
constexpr int64_t kB = 2;
constexpr int64_t kC = 3;

Hint
job(int64_t id, int64_t group)
{
	return {.key = {0, 10, id}, .place = {}, .delayed = false, .group = group};
}

constexpr GroupRules
rate(int32_t limit, int64_t period = kPeriod)
{
	return {.limit = 0, .fifo = false, .rate = limit, .period = period};
}

class GroupRatesTest : public testing::Test
{
protected:
	/* A loaded queue without any rows. */
	void load(const GroupRules &rules, uint32_t window_size = 8, int entries = 8)
	{
		schedule.init(window, window_size, timer, 4);
		schedule.reset(rules);
		for (Group &entry : groups)
			schedule.groups().give(&entry);
		schedule.groups().remember_at_most(entries);
		schedule.begin_timer_refill(100);
		schedule.finish_timer_refill(TimerKey::highest());
		schedule.begin_window_refill(100);
		schedule.finish_window_refill(Key::highest());
		ASSERT_TRUE(schedule.exhausted());
	}

	/* Take the lease of the next job, as a claim does. Return its id; 0: there is no job, or its group has no room. */
	int64_t take()
	{
		if (!schedule.poppable())
			return 0;
		Hint hint = schedule.pop();
		if (!schedule.admit(hint))
			return 0;
		schedule.took(hint);
		return hint.key.job_id;
	}
	void hand_out(int64_t group) { schedule.groups().note_start(group, true); }
	int64_t claim(int64_t group)
	{
		int64_t id = take();
		if (id != 0)
			hand_out(group);
		return id;
	}
	void end(int64_t group, bool claiming = false)
	{
		schedule.release_group(group, claiming);
		schedule.look_at_group(group);
	}
	void file(const std::vector<Hint> &jobs)
	{
		for (const Hint &hint : jobs)
			schedule.file(hint);
	}
	int64_t next_time() { return schedule.groups().rates().next_time(); }
	const Group *group(int64_t id) { return schedule.groups().find(id); }

	Schedule schedule;
	Schedule::Node window[Schedule::nodes(8)];
	Schedule::Timer::Node timer[8];
	Group groups[8];
};

/* The reconciler calls covers() under a lock that it shares with other processes. */
TEST_F(GroupRatesTest, CoversChangesNothing)
{
	GroupRules rules = rate(1);
	rules.fifo = true;
	load(rules);
	schedule.let_time_pass(500);
	file({job(1, kA)});
	EXPECT_EQ(claim(kA), 1);
	end(kA);
	file({job(2, kA)});
	schedule.groups().rates().pass(40 * kPeriod);
	Group before = *group(kA);
	EXPECT_TRUE(schedule.covers(job(2, kA)))
		<< "the group waits for its time until let_time_pass() is called";
	EXPECT_EQ(memcmp(&before, group(kA), sizeof(Group)), 0);
}

TEST_F(GroupRatesTest, AGroupThatHasHadItsShareWaitsForItsTime)
{
	load(rate(1));
	schedule.let_time_pass(500);
	file({job(1, kA), job(2, kA), job(3, kB)});
	EXPECT_EQ(claim(kA), 1);
	EXPECT_EQ(take(), 0);
	EXPECT_EQ(claim(kB), 3);
	EXPECT_TRUE(schedule.exhausted()) << "nothing may go out";
	EXPECT_TRUE(schedule.covers(job(2, kA)));
	EXPECT_EQ(next_time(), 17000);
	end(kA);
	EXPECT_FALSE(schedule.wants_visit()) << "it is not that it runs";
	schedule.let_time_pass(16999);
	EXPECT_FALSE(schedule.wants_visit());
	schedule.take_news();
	schedule.let_time_pass(17000);
	EXPECT_TRUE(schedule.wants_visit());
	EXPECT_EQ(schedule.take_news(), 1u);
	EXPECT_EQ(next_time(), INT64_MAX) << "nobody waits for time any more";
	Visit visit;
	ASSERT_EQ(schedule.begin_visits(&visit, 1), 1);
	EXPECT_EQ(visit.room, 1);
	Hint found = job(2, kA);
	schedule.finish_visit(visit, &found, 1, Key::highest(), INT64_MAX);
	schedule.end_visits();
	EXPECT_EQ(claim(kA), 2);
}

TEST_F(GroupRatesTest, WhatIsTakenCountsAndIsGivenBack)
{
	load(rate(2));
	file({job(1, kA), job(2, kA), job(3, kA)});
	EXPECT_EQ(take(), 1);
	EXPECT_EQ(take(), 2);
	EXPECT_EQ(take(), 0);
	EXPECT_EQ(next_time(), INT64_MAX) << "the end of one of the claims will tell";
	end(kA, true);
	EXPECT_TRUE(schedule.wants_visit());
	schedule.let_time_pass(5000);
	hand_out(kA);
	Visit visit;
	ASSERT_EQ(schedule.begin_visits(&visit, 1), 1);
	EXPECT_EQ(visit.room, 1);
}

TEST_F(GroupRatesTest, AStartIsThatOfTheHandOut)
{
	load(rate(1));
	file({job(1, kA), job(2, kA)});
	take();
	schedule.let_time_pass(30000);
	hand_out(kA);
	EXPECT_EQ(take(), 0);
	EXPECT_EQ(next_time(), 47000);
}

TEST_F(GroupRatesTest, AnEntryStaysUntilWhatItCountsHasFaded)
{
	load(rate(1));
	file({job(1, kA)});
	claim(kA);
	end(kA);
	ASSERT_NE(group(kA), nullptr);
	EXPECT_EQ(next_time(), INT64_MAX) << "nobody waits for that";
	schedule.let_time_pass(16999);
	EXPECT_FALSE(schedule.file(job(2, kA)));
	schedule.let_time_pass(17000);
	Visit visit;
	ASSERT_EQ(schedule.begin_visits(&visit, 1), 1);
	schedule.finish_visit(visit, nullptr, 0, Key::highest(), INT64_MAX);
	EXPECT_EQ(group(kA), nullptr);
}

TEST_F(GroupRatesTest, WithoutAnEntryNothingIsForgotten)
{
	load(rate(2), 8, 1);
	file({job(1, kA), job(2, kB), job(3, kA), job(4, kA), job(5, kC)});
	EXPECT_EQ(claim(kA), 1);
	end(kA);
	schedule.let_time_pass(3000);
	EXPECT_EQ(claim(kB), 2);
	EXPECT_NE(group(kA), nullptr);
	end(kB);
	EXPECT_EQ(group(kA), nullptr) << "one group can be remembered";
	EXPECT_EQ(claim(kA), 3) << "all others count one";
	EXPECT_EQ(take(), 0) << "one of its own, and one that the others had before";
	EXPECT_EQ(next_time(), 17000);
	EXPECT_EQ(claim(kC), 5);
	end(kC);
	end(kA);
	EXPECT_EQ(schedule.groups().size(), 1);
	EXPECT_TRUE(schedule.exhausted());
	EXPECT_TRUE(schedule.covers(job(4, kA)));
	EXPECT_FALSE(schedule.file(job(6, kA)));
	EXPECT_TRUE(schedule.covers(job(6, kA)));
	EXPECT_EQ(next_time(), 17000);
}

TEST_F(GroupRatesTest, TheOthersGoOnTogether)
{
	load(rate(1));
	schedule.groups().rates().assume_most(kPeriod, 0);
	file({job(2, kA), job(3, kB)});
	EXPECT_EQ(take(), 0);
	EXPECT_EQ(take(), 0);
	EXPECT_EQ(schedule.groups().size(), 0);
	EXPECT_TRUE(schedule.exhausted());
	EXPECT_FALSE(schedule.file(job(1, kB)));
	EXPECT_EQ(next_time(), 17000);
	EXPECT_FALSE(schedule.let_time_pass(16999));
	EXPECT_TRUE(schedule.let_time_pass(17000));
	EXPECT_EQ(schedule.cursor(), job(1, kB).key);
	EXPECT_EQ(next_time(), INT64_MAX);
	EXPECT_TRUE(schedule.wants_window_refill());
}

TEST_F(GroupRatesTest, WithoutARateNobodyWaitsForTime)
{
	load(rate(1));
	file({job(1, kA), job(2, kA)});
	EXPECT_EQ(claim(kA), 1);
	EXPECT_EQ(take(), 0);
	EXPECT_NE(next_time(), INT64_MAX);
	schedule.change_group_rules({}, 1000);
	EXPECT_EQ(group(kA)->running, 1);
	EXPECT_EQ(next_time(), INT64_MAX);
}

TEST_F(GroupRatesTest, OtherRules)
{
	load(rate(1));
	file({job(1, kA), job(2, kA)});
	claim(kA), take();
	end(kA);
	schedule.change_group_rules(rate(2), 1000);
	EXPECT_EQ(schedule.cursor(), Key::lowest());
	EXPECT_EQ(schedule.groups().room(schedule.groups().find(kA)), 1) << "what has started counts";
	schedule.change_group_rules(rate(2, 10 * kPeriod), 2000);
	EXPECT_EQ(schedule.groups().rates().next_start(schedule.groups().find(kA)), 2000)
		<< "one of two";
	schedule.change_group_rules(rate(1, 10 * kPeriod), 2000);
	EXPECT_EQ(schedule.groups().rates().next_start(schedule.groups().find(kA)), 170000)
		<< "as if it were now";
	schedule.change_group_rules({.limit = 1, .fifo = false}, 3000);
	schedule.change_group_rules(rate(1), 4000);
	EXPECT_TRUE(schedule.groups().rates().others_have_room()) << "a limit holds from then on";
}

/* ---- any number of groups, at random ---- */

/*
 * A queue with many groups, its table, and its only worker. There are more groups than may be remembered. The worker records all
 * starts of each group, so check() can compare them with the limit.
 */
class Worker
{
public:
	Worker(unsigned seed, const GroupRules &rules, int remembered, int groups)
		: random_(seed),
		  rules_(rules),
		  groups_(groups),
		  remembered_(remembered),
		  entries_(remembered + groups)
	{
		schedule_.init(window_, 1 + random_() % 8, timer_, 4);
		schedule_.reset(rules);
		for (Group &entry : entries_)
			schedule_.groups().give(&entry);
		schedule_.groups().remember_at_most(remembered);
		schedule_.begin_timer_refill(100);
		schedule_.finish_timer_refill(TimerKey::highest());
	}

	void enqueue(int n)
	{
		for (int i = 0; i < n; i++)
		{
			/* Some groups have most of the jobs. */
			int64_t group = 1 + (random_() % 2 == 0 ? random_() % 3 : random_() % groups_);
			Hint hint = job(++last_, group);
			table_[hint.key.job_id] = hint;
			schedule_.file(hint);
		}
	}

	/* Do something at random: enqueue, claim, hand out, give back, end a job, or let time pass. */
	void step()
	{
		int64_t before = now_;
		/* Other queues may take entries from the common half. */
		if (random_() % 100 == 0)
			schedule_.groups().remember_at_most(random_() % 2 == 0 ? std::min(remembered_, 2)
																   : remembered_);
		switch (random_() % 6)
		{
			case 0:
				enqueue(static_cast<int>(random_() % 4));
				break;
			case 1:
				pass(now_ + static_cast<int64_t>(random_() % (rules_.period / 4)));
				break;
			case 2:
				end_one();
				break;
			default:
				(void) claim();
		}
		for (const auto &[id, hint] : table_)
		{
			bool covered = rules_.fifo || taken_.contains(id) || schedule_.covers(hint);
			ASSERT_TRUE(covered) << id << " of " << hint.group;
		}
		ASSERT_LE(before, now_);
	}

	/* End all leases, and claim until no job is left. Time passes only when no job may start. */
	void finish()
	{
		while (!claimed_.empty() || !out_.empty())
			end_one();
		for (int patience = 0; !table_.empty(); patience++)
		{
			ASSERT_LT(patience, 100000) << table_.size() << " are left";
			if (claim())
				end_one();
			else if (!claimed_.empty() || !out_.empty())
				end_one();
			else
			{
				int64_t next = schedule_.groups().rates().next_time();
				ASSERT_LT(next, INT64_MAX) << table_.size() << " are left";
				ASSERT_GT(next, now_);
				pass(next);
			}
		}
	}

	void check()
	{
		for (auto &[group, starts] : starts_)
			for (size_t i = rules_.rate; i < starts.size(); i++)
				ASSERT_GE(starts[i] - starts[i - rules_.rate], rules_.period)
					<< "group " << group << " at " << starts[i];
	}

	int64_t now() const { return now_; }

private:
	void pass(int64_t now)
	{
		now_ = now;
		schedule_.let_time_pass(now);
	}

	/* Claim one job. Return false if there is none now. */
	bool claim()
	{
		for (int patience = 0; patience < 1000; patience++)
		{
			schedule_.clear_way();
			if (schedule_.poppable())
			{
				Hint hint = schedule_.pop();
				if (!table_.contains(hint.key.job_id) || taken_.contains(hint.key.job_id))
					continue;
				if (!schedule_.admit(hint))
					continue;
				return take(hint), true;
			}
			if (schedule_.wants_visit())
				visit();
			else if (schedule_.wants_window_refill())
				refill();
			else
			{
				EXPECT_TRUE(schedule_.exhausted());
				return false;
			}
		}
		ADD_FAILURE() << "a claim goes round in circles";
		return false;
	}

	bool is_head(const Hint &hint) const
	{
		return std::none_of(table_.begin(), table_.end(), [&](const auto &other) {
			return other.second.group == hint.group && other.first < hint.key.job_id;
		});
	}

	void take(const Hint &hint)
	{
		schedule_.took(hint);
		if (rules_.fifo && !is_head(hint))
		{
			schedule_.release_group(hint.group, true);
			return schedule_.look_at_group(hint.group);
		}
		taken_.insert(hint.key.job_id);
		claimed_.push_back(hint);
		/* A slow claim hands the job out later. */
		if (random_() % 4 != 0)
			hand_out_one();
	}

	void hand_out_one()
	{
		Hint hint = claimed_.back();
		claimed_.pop_back();
		schedule_.groups().note_start(hint.group, true);
		starts_[hint.group].push_back(now_);
		out_.push_back(hint);
	}

	/* End a random job, or give back a job that was not handed out. */
	void end_one()
	{
		bool claimed = !claimed_.empty();
		if (claimed && random_() % 2 == 0)
			return hand_out_one();
		std::vector<Hint> &from = claimed ? claimed_ : out_;
		if (from.empty())
			return;
		size_t i = random_() % from.size();
		Hint hint = from[i];
		from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
		taken_.erase(hint.key.job_id);
		schedule_.release_group(hint.group, claimed);
		if (!claimed)
			table_.erase(hint.key.job_id);
		schedule_.look_at_group(hint.group);
		if (claimed)
			schedule_.file(hint);
	}

	void refill()
	{
		Key start = schedule_.begin_window_refill(100);
		Key end = Key::highest();
		int n = 0;
		for (const auto &[id, hint] : table_)
		{
			if (hint.key < start)
				continue;
			if (n++ == 5)
			{
				end = hint.key;
				break;
			}
			if (!taken_.contains(id))
				schedule_.merge_window_row(hint);
		}
		schedule_.finish_window_refill(end);
	}

	void visit()
	{
		Visit visits[4];
		int n = schedule_.begin_visits(visits, 4);
		for (int i = 0; i < n; i++)
			visit(visits[i]);
		schedule_.end_visits();
	}

	void visit(const Visit &visit)
	{
		std::vector<Hint> rows;
		Key next = Key::highest();
		int64_t head = INT64_MAX;
		for (const auto &[id, hint] : table_)
		{
			if (hint.group != visit.group)
				continue;
			if (rules_.fifo)
			{
				head = id;
				if (!taken_.contains(id))
					rows.push_back(hint);
				break;
			}
			if (hint.key < visit.from || taken_.contains(id))
				continue;
			if (rows.size() == static_cast<size_t>(std::min(visit.room, 3)))
			{
				next = hint.key;
				break;
			}
			rows.push_back(hint);
		}
		schedule_.finish_visit(visit, rows.data(), static_cast<int>(rows.size()), next, head);
	}

	std::mt19937 random_;
	GroupRules rules_;
	int groups_;
	int remembered_;
	std::vector<Group> entries_;
	Schedule schedule_;
	Schedule::Node window_[Schedule::nodes(8)];
	Schedule::Timer::Node timer_[4];
	int64_t now_ = 0;
	int64_t last_ = 0;
	std::map<int64_t, Hint> table_;
	std::set<int64_t> taken_;
	std::vector<Hint> claimed_, out_;
	std::map<int64_t, std::vector<int64_t>> starts_;
};

class ManyGroups : public testing::TestWithParam<unsigned>
{};

TEST_P(ManyGroups, NoneIsEverTooFastAndAllComeToAnEnd)
{
	unsigned seed = GetParam();
	GroupRules rules = rate(1 + static_cast<int>(seed % 3), seed % 2 == 0 ? kPeriod : 999);
	if (seed % 5 == 1)
		rules.limit = 1;
	if (seed % 5 == 2)
		rules.fifo = true;
	int entries = seed % 4 == 0 ? 200 : 1 + static_cast<int>(seed % 7);
	Worker worker(seed, rules, entries, 20);
	for (int i = 0; i < 1500 && !testing::Test::HasFatalFailure(); i++)
		worker.step();
	worker.finish();
	worker.check();
	EXPECT_GT(worker.now(), 10 * rules.period) << "nobody had to wait";
}

INSTANTIATE_TEST_SUITE_P(Rates, ManyGroups, testing::Range(1u, 81u));

} // namespace
