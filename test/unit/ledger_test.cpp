/*
 * Tests of the torture test's ledger. The ledger must report the fault of a server that breaks one
 * rule, and must report nothing about a correct server.
 */
#include "test/torture/coordination.h"
#include "test/torture/timetable.h"
#include "test/unit/ledger_fixture.h"

namespace {

using namespace torture;

TEST_F(LedgerTest, SaysNothingOfAServerThatIsRight)
{
	Key key = job();
	end(claim(key, kToken), Deed::kRetry);
	Held again = claim(key, 2 * kToken, {.attempt = 2});
	ledger.extended(again, kServer, now(), 60 * kSecond);
	ledger.audit({key}, {});
	end(again, Deed::kAck);
	ledger.seen_acked(key);
	ledger.refused(begin(), again, kServer);

	Key dead = job();
	end(claim(dead, 3 * kToken), Deed::kBury);
	ledger.audit({}, {{dead, {1, 3, "said so"}}});
	TxRef tx = begin();
	ledger.reviving(tx, {dead});
	commit(tx);
	ledger.audit({dead}, {});

	Key undone = enqueue(tx = begin());
	ledger.aborted(tx);
	TxRef claims = begin();
	Held held = claim(dead, 4 * kToken, {.tx = claims});
	end_in(claims, held, Deed::kRelease);
	commit(claims);
	end(claim(dead, 5 * kToken), Deed::kAck);
	ledger.audit({}, {});
	EXPECT_GT(undone, dead);
	expect_nothing();
}

/* ---- enqueue ---- */

TEST_F(LedgerTest, AnIdThatChanges)
{
	ledger.enqueued(job(), 7);
	expect("its id is 7");
}

TEST_F(LedgerTest, AUniqueKeyOfTwo)
{
	Key owner = job_like(kKeyedQueue, 1, 5);
	expect_nothing();
	job_like(kKeyedQueue, 1, 5);
	expect("enqueued, but job " + std::to_string(100 + owner) + " has its unique key");
}

TEST_F(LedgerTest, AUniqueKeyOfNobody)
{
	TxRef tx = begin();
	ledger.met(tx, enqueue(tx, kKeyedQueue));
	expect("not enqueued, but nobody has its unique key");
}

TEST_F(LedgerTest, AHandOutOfWhatIsNotCommitted)
{
	TxRef tx = begin();
	Key key = enqueue(tx);
	claim(key, kToken);
	expect("handed out, but its enqueue is not committed");
	ledger.prepared(tx);
	claim(key, 2 * kToken);
	expect("handed out, but its enqueue is not committed");
}

TEST_F(LedgerTest, AHandOutOfWhatIsUndoneAfterThat)
{
	TxRef tx = begin();
	Key key = enqueue(tx);
	ledger.ending(tx);
	claim(key, kToken);
	expect_nothing();
	ledger.aborted(tx);
	expect("handed out, but its enqueue was undone");
}

/* ---- a hand-out ---- */

TEST_F(LedgerTest, AHandOutOfWhatNobodyKnows)
{
	claim(kUnknown, kToken);
	expect("handed out: key 999");
}

TEST_F(LedgerTest, AHandOutWithAnotherId)
{
	claim(job(), kToken, {.id = 7});
	expect("handed out with another job's id");
}

TEST_F(LedgerTest, AHandOutByAnotherQueue)
{
	claim(job(), kToken, {.queue = "other"});
	expect("handed out by queue other");
}

TEST_F(LedgerTest, AHandOutWithAnotherPriority)
{
	claim(job(), kToken, {.priority = 7});
	expect("handed out with priority 7");
}

TEST_F(LedgerTest, AHandOutBeforeItsTime)
{
	claim(job("q", 3600 * kSecond), kToken);
	expect("handed out before its time");
}

TEST_F(LedgerTest, AHandOutAfterItsTime)
{
	Key key = job("q", 0, kMillisecond);
	nap(clock_margin() + 10 * kMillisecond);
	claim(key, kToken);
	expect("handed out, but its time was over");
}

TEST_F(LedgerTest, AnAttemptAfterTheLast)
{
	claim(job(), kToken, {.attempt = 4});
	expect("attempt 4 of 3");
}

TEST_F(LedgerTest, AnAttemptThatIsNotCounted)
{
	Key key = job();
	end(claim(key, kToken), Deed::kRetry);
	claim(key, 2 * kToken);
	expect("attempt 1 after attempt 1");
}

TEST_F(LedgerTest, AnAttemptThatNobodyHasSeen)
{
	Key key = job();
	end(claim(key, kToken), Deed::kRetry);
	ledger.claim_failed(ledger.claiming(kServer, {"q"}, kSecond));
	claim(key, 2 * kToken, {.attempt = 3});
	ledger.audit({key}, {});
	expect_nothing();
	Key other = job();
	claim(other, 3 * kToken, {.attempt = 3});
	ledger.audit({key, other}, {});
	expect("attempt 3 after attempt 0, and only 1 claims failed");
}

/* ---- tokens ---- */

TEST_F(LedgerTest, ATokenOlderThanThatOfAnotherJob)
{
	claim(job(), 5 * kToken);
	claim(job(), 4 * kToken);
	expect("is older than 5120");
}

TEST_F(LedgerTest, ATokenNotAboveTheOneBefore)
{
	Key key = job();
	end(claim(key, 5 * kToken + 7), Deed::kRetry);
	claim(key, 5 * kToken + 6, {.attempt = 2});
	expect("lease 5126 is not above 5127");
}

TEST_F(LedgerTest, ATokenTwice)
{
	Key key = job();
	claim(key, kToken);
	claim(key, kToken);
	expect("lease 1024 was handed out twice");
}

/* ---- one at a time ---- */

TEST_F(LedgerTest, AHandOutWhileALeaseRuns)
{
	Key key = job();
	claim(key, kToken);
	claim(key, 2 * kToken, {.attempt = 2});
	expect("handed out while lease 1024 runs");
}

TEST_F(LedgerTest, AHandOutUnderAPreparedClaim)
{
	Key key = job();
	TxRef tx = begin();
	claim(key, kToken, {.tx = tx});
	ledger.prepared(tx);
	claim(key, 2 * kToken, {.attempt = 2});
	expect("handed out while a prepared transaction holds lease 1024");
}

TEST_F(LedgerTest, AHandOutUnderAPreparedEnd)
{
	Key key = job();
	TxRef tx = begin();
	end_in(tx, claim(key, kToken), Deed::kAck);
	ledger.prepared(tx);
	claim(key, 2 * kToken, {.attempt = 2, .epoch = kStandby});
	expect("handed out while a prepared transaction ends lease 1024");
}

TEST_F(LedgerTest, MoreThanTheLimit)
{
	TxRef tx = begin();
	ledger.limiting(tx, 1);
	commit(tx);
	claim(job(kLimitedQueue), kToken, {.queue = kLimitedQueue});
	expect_nothing();
	claim(job(kLimitedQueue), 2 * kToken, {.queue = kLimitedQueue});
	expect("handed out with 0 others, while 1 are in work, of 1");
}

TEST_F(LedgerTest, MoreThanTheRate)
{
	for (int i = 1; i <= kRate; i++)
		claim(job(kRatedQueue), i * kToken, {.queue = kRatedQueue});
	expect_nothing();
	claim(job(kRatedQueue), 20 * kToken, {.queue = kRatedQueue});
	expect("11 hand-outs in one period of rated");
}

/* ---- none ---- */

TEST_F(LedgerTest, AClaimThatFindsNothingThoughOneWaits)
{
	Key later_one = job("q", 3600 * kSecond);
	Key key = job();
	nap(clock_margin() + 10 * kMillisecond);
	find_nothing("other");
	ledger.audit({key, later_one}, {});
	expect_nothing();
	find_nothing("q");
	ledger.audit({key, later_one}, {});
	expect("a claim found nothing");
}

/* ---- a lease that is used ---- */

TEST_F(LedgerTest, UsesOfWhatNobodyKnows)
{
	Held held = {kUnknown, 1, kToken, 1, 3};
	ledger.accepted(begin(), held, Deed::kAck, now());
	expect("accepted: ack of job 1, which is done and forgotten");
	ledger.extended(held, kServer, now(), kSecond);
	expect("extended: job 1, which is done and forgotten");
	ledger.deleted(begin(), {kUnknown});
	expect("deleted key 999, which is done and forgotten");
}

TEST_F(LedgerTest, ARetryOfTheLastAttempt)
{
	end(claim(job(), kToken, {.attempt = 1, .max_attempts = 1}), Deed::kRetry);
	expect("to be retried, but its attempts are used up");
}

TEST_F(LedgerTest, ALeaseOfAFormerMemory)
{
	Held held = claim(job(), kToken);
	end(held, Deed::kRetry, {1, 101});
	expect("fail (retry) with lease 1024 of a former memory was accepted");
}

TEST_F(LedgerTest, ALeaseThatAFastRestartHasSaved)
{
	int64_t stop = 50 * kSecond;
	Epoch before = {1, 100};
	Epoch after = {1, stop};
	Held held = claim(job(), kToken, {.epoch = before});
	ledger.stopping_fast(stop);
	ledger.started_again(stop);
	end(held, Deed::kRetry, after);
	expect_nothing();
}

TEST_F(LedgerTest, ALeaseAfterItsEnd)
{
	Held held = claim(job(), kToken);
	end(held, Deed::kAck);
	end_in(begin(), held, Deed::kAck);
	expect("ack with lease 1024 was accepted after its end: ack");
}

TEST_F(LedgerTest, ALeaseOfAFormerLife)
{
	Key key = job();
	Held held = claim(key, kToken);
	end(held, Deed::kBury);
	TxRef tx = begin();
	ledger.reviving(tx, {key});
	commit(tx);
	expect_nothing();
	end_in(begin(), held, Deed::kAck);
	expect("ack with lease 1024 of a former life was accepted");
}

TEST_F(LedgerTest, ALeaseAfterALaterOne)
{
	Key key = job();
	Held held = claim(key, kToken, {.lease_time = 0});
	claim(key, 2 * kToken, {.attempt = 2});
	expect_nothing();
	end_in(begin(), held, Deed::kAck);
	expect("ack with lease 1024 was accepted after lease 2048 was handed out");
}

TEST_F(LedgerTest, AnEndThatIsCommittedAfterALaterLease)
{
	Key key = job();
	TxRef tx = begin();
	end_in(tx, claim(key, kToken), Deed::kAck);
	claim(key, 2 * kToken, {.attempt = 2});
	expect_nothing();
	commit(tx);
	expect("ack with lease 1024 is committed, but lease 2048 was handed out");
}

TEST_F(LedgerTest, AHandOutAfterTheEnd)
{
	Key key = job();
	end(claim(key, kToken), Deed::kAck);
	claim(key, 2 * kToken, {.attempt = 2});
	expect("handed out after its end: ack");
}

TEST_F(LedgerTest, TwoEnds)
{
	Key key = job();
	TxRef acks = begin();
	TxRef deletes = begin();
	end_in(acks, claim(key, kToken), Deed::kAck);
	ledger.deleted(deletes, {key});
	commit(acks);
	expect_nothing();
	commit(deletes);
	expect("ended twice: ack, then delete");
}

TEST_F(LedgerTest, ARefusalOfWhatIsHeld)
{
	Held held = claim(job(), kToken);
	ledger.refused(begin(), held, kServer);
	expect("lease 1024 is refused, but it is current");
	TxRef tx = begin();
	held = claim(job(), 2 * kToken, {.tx = tx});
	ledger.refused(tx, held, kServer);
	expect("lease 2048 is refused, but it is current");
}

TEST_F(LedgerTest, APurgeOfWhatIsHeld)
{
	Held expired = claim(job(), kToken, {.lease_time = 0});
	Held ended = claim(job(), 2 * kToken);
	end(ended, Deed::kRetry);
	Held former = claim(job(), 3 * kToken, {.epoch = {1, 99}});
	ledger.purged(begin(), {job(), expired.key, ended.key, former.key});
	expect_nothing();
	ledger.purged(begin(), {claim(job(), 4 * kToken).key});
	expect("purged while lease 4096 runs");
}

TEST_F(LedgerTest, AResultOfNobody)
{
	Key key = job();
	claim(key, kToken);
	ledger.seen_acked(key);
	expect("acknowledged by nobody, says pgq_result");
}

TEST_F(LedgerTest, ADeadOneThatIsHandedOut)
{
	Key key = job();
	end(claim(key, kToken), Deed::kBury);
	TxRef tx = begin();
	ledger.reviving(tx, {key});
	claim(key, 2 * kToken);
	expect_nothing();
	ledger.aborted(tx);
	expect("handed out, but it is still dead");
}

/* ---- tables ---- */

TEST_F(LedgerTest, ARowThatShouldNotBe)
{
	ledger.audit({kUnknown}, {});
	expect("key 999 is in pgq_ext.job, but was never committed, or is done");
	Key done = job();
	end(claim(done, kToken), Deed::kAck);
	ledger.audit({done}, {});
	expect("is in pgq_ext.job, but was never committed, or is done");
}

TEST_F(LedgerTest, ARowThatIsLost)
{
	job();
	ledger.audit({}, {});
	expect("a committed job is lost");
}

TEST_F(LedgerTest, ADeadLetterThatIsLost)
{
	end(claim(job(), kToken), Deed::kBury);
	ledger.audit({}, {});
	expect("a dead job is not in pgq_ext.dead_job");
}

TEST_F(LedgerTest, ADeadLetterThatIsNotDead)
{
	Key key = job();
	ledger.audit({key}, {{key, {1, 3, "none"}}});
	expect("in pgq_ext.dead_job: none");
	Key done = job();
	end(claim(done, kToken), Deed::kAck);
	ledger.audit({key}, {{done, {3, 3, "another"}}});
	expect("in pgq_ext.dead_job: another");
}

/* ---- locks, runs and rates ---- */

class CoordinationTest : public LedgerTest
{
protected:
	Coordination coordination{ledger};
	LockName lock = {.name = "l"};
	LockName run = {.name = "r", .is_run = true};

	/* committed: whether the taking is committed, by a transaction that does nothing else */
	GrantRef take(const LockName &of, int64_t token, Time ttl = 60 * kSecond, bool committed = true)
	{
		TxRef tx = begin();
		Time sent = now();
		later();
		GrantRef grant = coordination.granted(of, token, tx, sent, ttl, nullptr);
		if (of.is_run)
			coordination.belongs_to(grant, "ever");
		if (committed)
			commit(tx);
		return grant;
	}

	void use(const GrantRef &grant, Use how, bool accepted = true)
	{
		TxRef tx = begin();
		later();
		UsageRef usage = coordination.using_it(grant, how, tx, kServer, 60 * kSecond);
		later();
		if (accepted)
			coordination.accepted(usage);
		else
			coordination.refused(usage);
		commit(tx);
	}

	void expect_at_audit(const std::string &what)
	{
		expect_nothing();
		coordination.audit();
		expect(what);
	}
};

TEST_F(CoordinationTest, SaysNothingOfAServerThatIsRight)
{
	GrantRef first = take(lock, 1);
	use(first, Use::kAssert);
	use(first, Use::kExtend);
	use(first, Use::kUnlock);
	use(first, Use::kAssert, false);
	GrantRef second = take(lock, 2);
	use(first, Use::kUnlock, false);
	use(second, Use::kUnlock);
	GrantRef given_up = take(run, 3);
	use(given_up, Use::kUnlock);
	use(take(run, 4), Use::kDone);
	coordination.took({"rate", 3, kSecond, 3}, 3, now());
	coordination.audit();
	EXPECT_EQ(coordination.done_runs().size(), 1);
	expect_nothing();
}

TEST_F(CoordinationTest, ATokenThatIsNone)
{
	take(lock, 0);
	expect("token 0 of l is not above 0, which was given before");
}

TEST_F(CoordinationTest, TokensThatDoNotGrow)
{
	use(take(lock, 2), Use::kUnlock);
	take(lock, 1);
	expect("tokens do not grow");
}

TEST_F(CoordinationTest, ATokenTwice)
{
	use(take(lock, 2), Use::kUnlock);
	take(lock, 2);
	expect("a token was given twice");
}

TEST_F(CoordinationTest, TooManyHolders)
{
	LockName two = {.name = "two", .slots = 2};
	take(two, 1);
	take(two, 2);
	coordination.audit();
	expect_nothing();
	take(two, 3);
	expect_at_audit("3 holders at");
}

TEST_F(CoordinationTest, TwoHoldersOfWhichOneIsNotCommitted)
{
	GrantRef open = take(lock, 1, 60 * kSecond, false);
	take(lock, 2);
	coordination.seen_open(open->taker, std::make_shared<Time>());
	expect_at_audit("2 holders at");
}

TEST_F(CoordinationTest, ARefusalOfWhatIsHeld)
{
	use(take(lock, 1), Use::kAssert, false);
	expect_at_audit("but it was held");
}

TEST_F(CoordinationTest, AUseOfWhatWasNeverCommitted)
{
	GrantRef grant = take(lock, 1, 60 * kSecond, false);
	ledger.aborted(grant->taker);
	use(grant, Use::kAssert);
	expect_at_audit("but it was never committed");
}

TEST_F(CoordinationTest, AUseAfterItsTime)
{
	GrantRef grant = take(lock, 1, kMillisecond);
	nap(2 * kMillisecond);
	use(grant, Use::kAssert);
	expect_at_audit("but its time was over");
}

TEST_F(CoordinationTest, AUseOfWhatWasGivenBack)
{
	GrantRef grant = take(lock, 1);
	use(grant, Use::kUnlock);
	use(grant, Use::kAssert);
	expect_at_audit("but it had been given back");
}

TEST_F(CoordinationTest, AUseOfWhatSomebodyElseHas)
{
	GrantRef grant = take(lock, 1);
	take(lock, 2);
	use(grant, Use::kAssert);
	expect_at_audit("but somebody else has it");
}

TEST_F(CoordinationTest, ALockThatIsGivenBackTwice)
{
	GrantRef grant = take(lock, 1);
	use(grant, Use::kUnlock);
	use(grant, Use::kUnlock);
	expect_at_audit("given back twice");
}

TEST_F(CoordinationTest, ARunThatIsDoneTwice)
{
	use(take(run, 1), Use::kDone);
	use(take(run, 2), Use::kDone);
	expect_at_audit("done twice, with token 1 as well");
}

TEST_F(CoordinationTest, ARunThatIsBegunWhenItIsDone)
{
	use(take(run, 1), Use::kDone);
	take(run, 2);
	expect_at_audit("begun, but it was done before with token 1");
}

TEST_F(CoordinationTest, ARunWhoseRowIsAnothers)
{
	GrantRef grant = take(run, 1);
	coordination.belongs_to(grant, "");
	use(grant, Use::kDone);
	expect_at_audit("done, but its row was another's");
}

TEST_F(CoordinationTest, TooManyPermits)
{
	RateName rate = {"rate", 3, 3600 * kSecond, 3};
	coordination.took(rate, 3, now());
	expect_nothing();
	coordination.took(rate, 1, now());
	expect("4 permits of rate in one period, of 3");
}

/* ---- schedules ---- */

class TimetableTest : public LedgerTest
{
protected:
	Timetable timetable{ledger};
	Moment tick = wall() / (6 * kSecond) * (6 * kSecond); /* a tick of each strict schedule */

	void SetUp() override
	{
		LedgerTest::SetUp();
		timetable.begins(tick - 1, tick - 1);
	}

	Ticked ticked(int64_t job_id, Moment at, const std::string &schedule = "all")
	{
		later();
		return {job_id, kToken, schedule, at, now(), now()};
	}

	void see(const Ticked &one, Epoch epoch = kServer) { timetable.handed_out(one, epoch); }

	void ack(const Ticked &one, Epoch epoch = kServer)
	{
		TxRef tx = begin(epoch);
		timetable.acked(one, tx);
		commit(tx);
	}

	void change(bool active)
	{
		TxRef tx = begin();
		timetable.changing("loose-1", tx, active);
		commit(tx);
	}
};

TEST_F(TimetableTest, SaysNothingOfAServerThatIsRight)
{
	EXPECT_EQ(timetable.missing(tick), "all " + std::to_string(tick / kMillisecond) + " ms");
	for (const StrictSchedule &schedule : kStrictSchedules)
	{
		Ticked one = ticked(1, tick, schedule.name);
		see(one);
		see(one);
		ack(one);
	}
	EXPECT_EQ(timetable.missing(tick), "");
	EXPECT_EQ(timetable.missing(tick + 2 * kSecond),
			  "all " + std::to_string(tick / kMillisecond + 2000) + " ms");
	change(true);
	see(ticked(2, tick, "loose-1"));
	timetable.audit();
	EXPECT_EQ(timetable.ticks(), 3);
	expect_nothing();
}

TEST_F(TimetableTest, ATickBeforeItsTime)
{
	see(ticked(1, tick + 3600 * kSecond));
	expect("came before its time");
}

TEST_F(TimetableTest, ATickThatIsNone)
{
	see(ticked(1, tick - kSecond));
	expect("is none");
}

TEST_F(TimetableTest, ATickAfterItsEnd)
{
	Ticked one = ticked(1, tick);
	see(one);
	ack(one);
	expect_nothing();
	see(ticked(1, tick));
	expect("is handed out again, job 1");
}

TEST_F(TimetableTest, TwoJobsOfATick)
{
	see(ticked(1, tick));
	see(ticked(2, tick));
	expect("has two jobs: 2 and 1");
}

TEST_F(TimetableTest, TwoJobsOfATickOnTwoServers)
{
	Ticked one = ticked(1, tick);
	Ticked other = ticked(2, tick);
	see(one);
	see(other, kStandby);
	expect_nothing();
	ack(one);
	timetable.audit();
	expect("has two jobs");
}

TEST_F(TimetableTest, ATickOfAPausedSchedule)
{
	change(true);
	change(false);
	Ticked one = ticked(1, tick, "loose-1");
	one.enqueued_at = now() + clock_margin() + kSecond;
	see(one);
	expect_nothing();
	timetable.audit();
	expect("was enqueued while it was paused, or not there: job 1");
}

} // namespace
