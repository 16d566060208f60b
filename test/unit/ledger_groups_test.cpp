/* Tests of the rules of the torture test's ledger for groups: as ledger_test.cpp. */
#include "test/unit/ledger_fixture.h"

namespace {

using namespace torture;

class LedgerGroupTest : public LedgerTest
{
protected:
	int64_t token = 0;

	ClaimCall ask(const std::string &queue, Epoch epoch = kServer)
	{
		later();
		ClaimCall call = ledger.claiming(epoch, {queue}, 60 * kSecond);
		later();
		return call;
	}

	/* Answer a claim by these jobs. */
	std::vector<Held> answer(const ClaimCall &call, const std::vector<Key> &keys,
							 const TxRef &tx = nullptr)
	{
		std::vector<ClaimedRow> rows;
		std::vector<Held> held;
		later();
		for (Key key : keys)
		{
			held.push_back({key, 100 + key, token += kToken, 1, 3});
			rows.push_back({held.back(), 0, call.queues[0]});
		}
		ledger.claimed(call, tx, rows);
		later();
		return held;
	}

	Held take(const std::string &queue, Key key) { return answer(ask(queue), {key})[0]; }

	void take_and_end(const std::string &queue, Key key) { end(take(queue, key), Deed::kAck); }

	/* Let the administrator change the rules. */
	void rule(const GroupRules &rules)
	{
		later();
		TxRef tx = begin();
		ledger.ruling(tx, rules);
		commit(tx);
	}
};

/* ---- how many ---- */

TEST_F(LedgerGroupTest, AHandOutBesideOneOfItsGroup)
{
	Key one = job_of(kGroupedQueue, 1);
	Key other = job_of(kGroupedQueue, 1);
	take(kGroupedQueue, one);
	take(kGroupedQueue, job_of(kGroupedQueue, 2));
	expect_nothing();
	take(kGroupedQueue, other);
	expect(
		"handed out with 0 others of its group, while 1 are in work, of 1:\n  beside lease 1024");
}

TEST_F(LedgerGroupTest, ASecondOneOfItsGroupInOneClaim)
{
	for (const GroupQueue &queue : kGroupQueues)
		if (queue.rules.concurrency == 1 || queue.rules.fifo)
		{
			std::vector<Key> apart = {job_of(queue.name, 1), job_of(queue.name, 2),
									  job_of(queue.name, 0), job_of(queue.name, 0)};
			answer(ask(queue.name), apart);
			EXPECT_EQ(told(), "");
			std::vector<Key> together = {job_of(queue.name, 3), job_of(queue.name, 3)};
			answer(ask(queue.name), together);
			expect("handed out with 1 others of its group, while 0 are in work, of 1");
		}
}

TEST_F(LedgerGroupTest, TwoOfAGroupByClaimsAtTheSameTime)
{
	ClaimCall first = ask(kLineQueue);
	ClaimCall second = ask(kLineQueue);
	Key one = job_of(kLineQueue, 1);
	Key other = job_of(kLineQueue, 1);
	answer(first, {one});
	expect_nothing();
	answer(second, {other});
	expect("2 jobs of its group are in work at once, of 1");
}

TEST_F(LedgerGroupTest, OneOfAGroupAfterTheEndOfAnother)
{
	Key one = job_of(kLineQueue, 1);
	Key other = job_of(kLineQueue, 1);
	ClaimCall first = ask(kLineQueue);
	ClaimCall second = ask(kLineQueue);
	TxRef acks = begin();
	end_in(acks, answer(first, {one})[0], Deed::kAck);
	ledger.ending(acks);
	answer(second, {other});
	ledger.committed(acks);
	expect_nothing();
}

TEST_F(LedgerGroupTest, MoreOfAGroupThanTheRulesAllow)
{
	take(kRuledQueue, job_of(kRuledQueue, 1));
	take(kRuledQueue, job_of(kRuledQueue, 1));
	expect_nothing();
	take(kRuledQueue, job_of(kRuledQueue, 1));
	expect("handed out with 0 others of its group, while 2 are in work, of 2");
}

TEST_F(LedgerGroupTest, MoreOfAGroupThanTheNewRulesAllow)
{
	take(kRuledQueue, job_of(kRuledQueue, 1));
	rule({.concurrency = 3});
	take(kRuledQueue, job_of(kRuledQueue, 1));
	take(kRuledQueue, job_of(kRuledQueue, 1));
	rule({});
	take(kRuledQueue, job_of(kRuledQueue, 1));
	ClaimCall during = ask(kRuledQueue);
	rule({.concurrency = 2});
	answer(during, {job_of(kRuledQueue, 1)});
	TxRef undone = begin();
	ledger.ruling(undone, {});
	ledger.aborted(undone);
	expect_nothing();
	take(kRuledQueue, job_of(kRuledQueue, 1));
	expect("handed out with 0 others of its group, while 5 are in work, of 2");
}

TEST_F(LedgerGroupTest, TwoAtTheSameTimeUnderRulesThatChange)
{
	rule({.concurrency = 1});
	Key one = job_of(kRuledQueue, 1);
	ClaimCall first = ask(kRuledQueue);
	ClaimCall second = ask(kRuledQueue);
	answer(first, {one});
	TxRef unknown = begin();
	ledger.ruling(unknown, {.concurrency = 2});
	ledger.ending(unknown);
	answer(second, {job_of(kRuledQueue, 1)});
	expect_nothing();
	ledger.committed(unknown);
	rule({.concurrency = 1});
	ClaimCall third = ask(kRuledQueue);
	ClaimCall fourth = ask(kRuledQueue);
	answer(third, {job_of(kRuledQueue, 2)});
	answer(fourth, {job_of(kRuledQueue, 2)});
	expect("2 jobs of its group are in work at once, of 1");
}

/* ---- rates ---- */

TEST_F(LedgerGroupTest, MoreThanTheRateOfAGroup)
{
	for (const std::string &queue : {kGroupedQueue, kPacedQueue})
	{
		for (int i = 1; i <= kGroupRate; i++)
			take_and_end(queue, job_of(queue, 1));
		take_and_end(queue, job_of(queue, 2));
		EXPECT_EQ(told(), "");
		take_and_end(queue, job_of(queue, 1));
		expect("3 hand-outs in one period of " + queue + ", group 1");
	}
}

TEST_F(LedgerGroupTest, MoreThanTheNewRateOfAGroup)
{
	rule({.rate = 3});
	/* The period begins when there was no rate. */
	for (int i = 1; i <= 4; i++)
		take_and_end(kRuledQueue, job_of(kRuledQueue, 1));
	nap(kRatePeriod);
	for (int i = 1; i <= 3; i++)
		take_and_end(kRuledQueue, job_of(kRuledQueue, 1));
	rule({.rate = 4});
	take_and_end(kRuledQueue, job_of(kRuledQueue, 1));
	ClaimCall during = ask(kRuledQueue);
	rule({.rate = 5});
	answer(during, {job_of(kRuledQueue, 1)});
	rule({.rate = 1});
	expect_nothing();
	take(kRuledQueue, job_of(kRuledQueue, 1));
	expect("6 hand-outs in one period of ruled, group 1");
}

/* ---- the order ---- */

TEST_F(LedgerGroupTest, AHandOutBeforeTheFirstOfItsGroup)
{
	for (const std::string &queue : {kFifoQueue, kLineQueue, kHeadsQueue})
	{
		Key one = job_of(queue, 1);
		take(queue, job_of(queue, 2));
		EXPECT_EQ(told(), "");
		take(queue, job_of(queue, 1));
		expect("handed out before job " + std::to_string(100 + one) + " of its group");
	}
}

TEST_F(LedgerGroupTest, AHandOutBeforeASmallerIdOfTheSameTransaction)
{
	TxRef tx = begin();
	skip_to(kFifoQueue, 1);
	Key one = enqueue(tx, kFifoQueue);
	skip_to(kFifoQueue, 1);
	Key other = enqueue(tx, kFifoQueue);
	ClaimCall early = ask(kFifoQueue);
	commit(tx);
	end(answer(early, {other})[0], Deed::kRelease);
	expect_nothing();
	later();
	ClaimCall call = ask(kFifoQueue);
	token += kToken;
	ledger.claimed(call, nullptr, {{{other, 100 + other, token, 1, 3}, 0, kFifoQueue}});
	expect("handed out before job " + std::to_string(100 + one) + " of its group");
}

TEST_F(LedgerGroupTest, AHandOutBeforeTheFirstUnderRulesThatChange)
{
	Key one = job_of(kRuledQueue, 1);
	rule({.fifo = true, .fair = true});
	rule({});
	take_and_end(kRuledQueue, job_of(kRuledQueue, 1));
	ClaimCall during = ask(kRuledQueue);
	rule({.fifo = true});
	end(answer(during, {job_of(kRuledQueue, 1)})[0], Deed::kAck);
	expect_nothing();
	take(kRuledQueue, job_of(kRuledQueue, 1));
	expect("handed out before job " + std::to_string(100 + one) + " of its group");
}

/* ---- none ---- */

TEST_F(LedgerGroupTest, AClaimThatFindsNothingThoughAGroupHasRoom)
{
	for (const std::string &queue : {kFifoQueue, kFairQueue, kLineQueue, kHeadsQueue, kRuledQueue})
	{
		Key key = job_of(queue, 1);
		nap(clock_margin() + 10 * kMillisecond);
		find_nothing(queue);
		ledger.audit({key}, {});
		expect("a claim found nothing");
		take_and_end(queue, key);
	}
}

TEST_F(LedgerGroupTest, AClaimThatFindsNothingThoughGroupsHaveNoLimit)
{
	Key busy = job_of(kTurnsQueue, 1);
	Key key = job_of(kTurnsQueue, 1);
	nap(clock_margin() + 10 * kMillisecond);
	take(kTurnsQueue, busy);
	find_nothing(kTurnsQueue);
	ledger.audit({busy, key}, {});
	expect("a claim found nothing");
}

TEST_F(LedgerGroupTest, AClaimThatFindsNothingSinceGroupsHaveNoRoom)
{
	Key busy = job_of(kFairQueue, 1);
	Key older = job_of(kLineQueue, 1);
	Key looked_at = job_of(kHeadsQueue, 1);
	Key late = job_of(kPacedQueue, 1);
	std::set<Key> all = {busy, older, looked_at, late};
	for (const std::string &queue : {kFairQueue, kLineQueue, kHeadsQueue})
		all.insert(job_of(queue, queue == kHeadsQueue ? 2 : 1));
	ledger.touched({older});
	nap(clock_margin() + 10 * kMillisecond);
	take(kFairQueue, busy);
	ClaimCall beside = ask(kHeadsQueue);
	for (const std::string &queue : {kFairQueue, kLineQueue, kHeadsQueue, kPacedQueue})
		find_nothing(queue);
	answer(beside, {looked_at});
	ledger.audit(all, {});
	expect_nothing();
}

TEST_F(LedgerGroupTest, AClaimThatFindsNothingBesideOneThatIsRefused)
{
	Key key = job_of(kFairQueue, 1);
	nap(clock_margin() + 10 * kMillisecond);
	ClaimCall call = ask(kFairQueue);
	find_nothing(kFairQueue);
	ledger.claim_refused(call);
	ledger.audit({key}, {});
	expect_nothing();
	find_nothing(kFairQueue);
	ledger.audit({key}, {});
	expect("a claim found nothing");
}

/* ---- turns ---- */

TEST_F(LedgerGroupTest, TurnsThatAreUnfair)
{
	EXPECT_EQ(unfair_turn({}), "");
	EXPECT_EQ(unfair_turn({1, 1, 1}), "");
	EXPECT_EQ(unfair_turn({2, 3, 1, 2, 1, 2, 2}), "");
	EXPECT_EQ(unfair_turn({1, 1, 2}),
			  "group 1 has the turns 0 and 1, and group 2 has none between them");
	EXPECT_EQ(unfair_turn({3, 1, 2, 1, 3, 2}),
			  "group 1 has the turns 1 and 3, and group 3 has none between them");
}

class LedgerTurnsTest : public LedgerGroupTest
{
protected:
	static constexpr int kMost = 5;
	std::set<Key> left;

	void SetUp() override
	{
		LedgerGroupTest::SetUp();
		ledger.longest_move = kMillisecond;
	}

	/* Let a job of the group have its turn. */
	void turn(int group)
	{
		Key key = job_of(kTurnsQueue, group);
		nap(2 * kMillisecond);
		take_and_end(kTurnsQueue, key);
	}

	void turns(int group, int n)
	{
		for (int i = 0; i < n; i++)
			turn(group);
	}

	Key wait(int group)
	{
		Key key = job_of(kTurnsQueue, group);
		left.insert(key);
		return key;
	}
};

TEST_F(LedgerTurnsTest, AGroupThatIsPassedOver)
{
	turns(1, kMost);
	wait(2);
	turns(1, kMost);
	ledger.audit(left, {});
	expect_nothing();
	turns(1, kMost);
	ledger.audit(left, {});
	expect_nothing();
	turns(1, kMost + 1);
	ledger.audit(left, {});
	expect("passed over: group 1 has had 6 turns while it waited");
}

TEST_F(LedgerTurnsTest, AGroupThatHasItsTurnsBetween)
{
	wait(2);
	turns(1, kMost);
	turn(2);
	turns(1, kMost);
	turns(3, kMost);
	/* Another claim is under way all the time, and takes a job of the group. */
	ClaimCall during = ask(kTurnsQueue);
	turns(1, kMost + 1);
	answer(during, {*left.begin()});
	ledger.audit(left, {});
	expect_nothing();
}

TEST_F(LedgerTurnsTest, AGroupThatIsPassedOverUntilItsTurn)
{
	Key key = wait(2);
	turns(3, kMost + 1);
	turns(1, 1);
	take_and_end(kTurnsQueue, key);
	ledger.audit({}, {});
	expect("passed over: group 3 has had 6 turns while it waited");
}

TEST_F(LedgerTurnsTest, AGroupWhoseJobMayBeInMotion)
{
	wait(2);
	Time from = now();
	turns(1, kMost + 2);
	ledger.move_kept(from, from + kMillisecond / 2);
	ledger.audit(left, {});
	expect_nothing();
	from = now();
	turns(1, kMost + 3);
	ledger.move_kept(from, from + kMillisecond / 2);
	ledger.audit(left, {});
	expect("passed over: group 1 has had 8 turns");
}

TEST_F(LedgerTurnsTest, AGroupWhoseJobAnotherClaimMayHaveHad)
{
	wait(2);
	turns(1, 1);
	ledger.claim_failed(ask(kTurnsQueue), false);
	turns(1, kMost + 1);
	ledger.audit(left, {});
	expect_nothing();
}

TEST_F(LedgerTurnsTest, AGroupThatIsPassedOverThoughClaimsAreRefused)
{
	wait(2);
	turns(1, 1);
	ledger.claim_refused(ask(kTurnsQueue));
	turns(1, kMost);
	ledger.audit(left, {});
	expect("passed over: group 1 has had 6 turns");
}

} // namespace
