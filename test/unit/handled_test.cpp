/*
 * Tests of what the torture test knows of the jobs of handlers: it must report a server that breaks
 * a rule, and must report nothing about a correct server.
 */
#include "test/torture/handled.h"
#include "test/unit/ledger_fixture.h"

namespace {

using namespace torture;

/* Keys of jobs whose handler does something special: see handled.cpp. */
constexpr Key kFails = -41; /* its first three attempts fail */
constexpr Key kBuried = -7;
constexpr Key kFollowed = -8;
constexpr Key kPlain = -18;
constexpr Key kLast = -60;

class HandledTest : public LedgerTest
{
protected:
	Handled handled{ledger};
	std::vector<HandledRow> rows;

	/* Enqueue jobs up to this key, all in one transaction. */
	TxRef enqueue_up_to(Key last)
	{
		TxRef tx = begin();
		for (Key key = 0; key > last;)
		{
			key = handled.enqueuing(tx, kHandledQueue);
			handled.enqueued(key, 100 - key);
		}
		return tx;
	}

	/* Commit all jobs, each of which is done by the handler, as it should be. */
	void do_all()
	{
		commit(enqueue_up_to(kLast));
		for (Key key = -1; key >= kLast; key--)
		{
			rows.push_back(effect(key));
			if (has_follow_up(key))
				rows.push_back(effect(key - kFollowUp, kManyQueue, "handle_many"));
		}
	}

	static HandledRow effect(Key key, const std::string &queue = kHandledQueue,
							 const std::string &function = "handle")
	{
		return {HandledRow::kEffect, key, queue, failing_attempts(key) + 1, function};
	}
	static HandledRow job(Key key) { return {HandledRow::kJob, key, kHandledQueue}; }
	static HandledRow dead(Key key, const std::string &reason)
	{
		return {HandledRow::kDead, key, kHandledQueue, 1, reason};
	}

	/* Remove the effect of the job. */
	void undo(Key key)
	{
		std::erase_if(rows, [&](const HandledRow &row) { return row.key == key; });
	}

	void cancel(const TxRef &tx, Key key, bool found)
	{
		handled.cancelling(tx, key);
		handled.cancelled(tx, key, found);
	}

	void audit(long kills = 0, bool drained = true) { handled.audit(rows, drained, kills); }
};

TEST_F(HandledTest, SaysNothingOfAServerThatIsRight)
{
	do_all();
	audit();
	EXPECT_EQ(handled.some(7, 2).size(), 2u);
	TxRef tx = begin();
	EXPECT_EQ(handled.forgetting(tx).size(), 2u * -kLast);
	ledger.aborted(tx);
	handled.forget();
	audit();
	EXPECT_EQ(handled.forgetting(tx = begin()).size(), 2u * -kLast);
	commit(tx);
	handled.forget();
	EXPECT_EQ(handled.done, -kLast + handled.follow_ups);
	EXPECT_EQ(handled.follow_ups, 6);
	rows.clear();
	audit();
	EXPECT_TRUE(handled.some(0, 1).empty());
	expect_nothing();
}

TEST_F(HandledTest, JobsThatNeverWere)
{
	ledger.aborted(enqueue_up_to(-10));
	TxRef tx = begin();
	handled.undone({handled.enqueuing(tx, kHandledQueue)});
	commit(tx);
	ledger.prepared(enqueue_up_to(-20));
	audit();
	expect_nothing();
	rows = {effect(-10)};
	audit();
	expect("handled job -10: is there, or has an effect, but was cancelled or never enqueued");
	rows = {job(-11)};
	audit();
	expect("handled job -11: is there");
	rows = {effect(-13)};
	audit();
	expect("handled job -13: is there");
}

TEST_F(HandledTest, TwoEffects)
{
	do_all();
	rows.push_back(effect(kPlain));
	audit();
	expect("handled job -18: has two effects");
}

TEST_F(HandledTest, AnEffectOfAJobThatIsLeft)
{
	do_all();
	rows.push_back(job(kPlain));
	audit();
	expect("handled job -18: is there twice");
}

TEST_F(HandledTest, ALostJob)
{
	do_all();
	undo(kPlain);
	audit();
	expect("handled job -18: is lost");
}

TEST_F(HandledTest, AJobThatNoHandlerRuns)
{
	do_all();
	undo(kPlain);
	rows.push_back(job(kPlain));
	audit(0, false);
	expect_nothing();
	audit();
	expect("handled job -18: waits for ever");
}

TEST_F(HandledTest, AnEffectOfACallThatHasFailed)
{
	do_all();
	undo(kFails);
	rows.push_back(effect(kFails));
	EXPECT_EQ(failing_attempts(kFails), 3);
	rows.back().attempt = 3;
	audit();
	expect("handled job -41: has an effect of a call that has failed");
}

TEST_F(HandledTest, AnotherHandler)
{
	do_all();
	undo(kPlain);
	rows.push_back(effect(kPlain, kHandledQueue, "handle_many"));
	audit();
	expect("handled job -18: was done by the handler of another queue");
}

TEST_F(HandledTest, DeadLetters)
{
	static const std::string crash = "the server crashed twice while a handler ran the job";
	do_all();
	undo(kPlain);
	undo(kBuried);
	rows.push_back(dead(kPlain, crash));
	rows.push_back(dead(kBuried, "never"));
	audit(2);
	expect_nothing();
	audit(1);
	expect("1 dead letters because of crashes, but only 1 workers were killed");
	undo(kPlain);
	rows.push_back(dead(kPlain, "max_attempts reached"));
	audit(2);
	expect("handled job -18 is a dead letter, for the reason: max_attempts reached");
	undo(kPlain);
	rows.push_back(dead(kPlain, crash));
	rows.push_back(effect(kPlain));
	audit(2);
	expect("handled job -18: is there twice");
}

TEST_F(HandledTest, FollowUpJobs)
{
	do_all();
	undo(kFollowed - kFollowUp);
	audit();
	expect("handled job -8: has 0 follow-up jobs and 1 effects");
	rows.push_back(effect(kFollowed - kFollowUp, kManyQueue, "handle_many"));
	rows.push_back(effect(kFollowed - kFollowUp, kManyQueue, "handle_many"));
	audit();
	expect("handled job -8: its follow-up job has two effects");
	undo(kFollowed - kFollowUp);
	rows.push_back({HandledRow::kJob, kFollowed - kFollowUp, kManyQueue});
	audit();
	expect("handled job -8: its follow-up job waits for ever");
	undo(kPlain - kFollowUp);
	rows.push_back({HandledRow::kJob, kPlain - kFollowUp, kManyQueue});
	audit();
	expect("handled job -18: has 1 follow-up jobs and 1 effects");
}

TEST_F(HandledTest, CancelledJobs)
{
	do_all();
	TxRef undone = begin();
	TxRef late = begin();
	TxRef prepared = begin();
	cancel(undone, -1, true);
	cancel(late, -2, false);
	cancel(prepared, -3, true);
	ledger.aborted(undone);
	commit(late);
	ledger.prepared(prepared);
	EXPECT_TRUE(handled.is_locked());
	audit();
	expect_nothing();
	undo(-3);
	commit(prepared);
	EXPECT_FALSE(handled.is_locked());
	audit();
	expect_nothing();
	rows.push_back(effect(-3));
	audit();
	expect("handled job -3: is there, or has an effect, but was cancelled or never enqueued");
}

TEST_F(HandledTest, AJobThatWasForgotten)
{
	do_all();
	audit();
	TxRef tx = begin();
	(void) handled.forgetting(tx);
	commit(tx);
	handled.forget();
	rows = {effect(kPlain)};
	audit();
	expect("handled job -18 has ended long ago, and is there again, or has an effect: handle");
	cancel(begin(), kPlain, false);
	rows.clear();
	told();
	audit();
	EXPECT_EQ(told(), "");
	cancel(begin(), kPlain, true);
	expect("cancelled, but handled job -18 was done");
}

TEST_F(HandledTest, AHandlerThatIsBeingChanged)
{
	TxRef tx = begin();
	handled.changing(tx);
	ledger.prepared(tx);
	EXPECT_TRUE(handled.is_locked());
	commit(tx);
	EXPECT_FALSE(handled.is_locked());
	expect_nothing();
}

} // namespace
