/*
 * Tests of what the torture test knows of batches: it must report a server that breaks a rule, and must
 * report nothing about a correct server.
 */
#include "test/torture/batched.h"
#include "test/unit/ledger_fixture.h"

namespace {

using namespace torture;

class BatchedTest : public LedgerTest
{
protected:
	Batched batched{ledger};
	std::vector<BatchedRow> rows;
	Key batch = 0;
	Key member = 0;

	static constexpr int64_t kId = 77;

	/* A committed batch with one member. */
	void SetUp() override
	{
		LedgerTest::SetUp();
		TxRef tx = begin();
		batch = batched.creating(tx);
		batched.created(batch, kId);
		commit(tx);
		member = add();
	}

	Key add(bool in_hand = false)
	{
		later();
		TxRef tx = begin();
		Key key = batched.adding(tx, batch);
		batched.added(key, 100, in_hand);
		commit(tx);
		return key;
	}
	TxRef close()
	{
		TxRef tx = begin();
		batched.closing(tx, batch);
		commit(tx);
		return tx;
	}
	void end(Key key, MemberEnd how)
	{
		TxRef tx = begin();
		batched.ended(tx, key, how);
		commit(tx);
	}
	/* The callback was received, and its effect is committed. */
	void call(BatchEvent event)
	{
		TxRef tx = begin();
		batched.calling(tx, batch, kId, event, kEventNames[static_cast<int>(event)]);
		commit(tx);
		rows.push_back({BatchedRow::kEffect, batch, event});
	}
	void see(BatchedRow::Kind kind, Key key) { rows.push_back({kind, key}); }
	void audit(bool drained = true) { batched.audit(rows, drained); }
};

TEST_F(BatchedTest, SaysNothingOfAServerThatIsRight)
{
	Key second = add();
	see(BatchedRow::kMember, member);
	see(BatchedRow::kMember, second);
	audit(false);
	rows.clear();
	end(member, MemberEnd::kDeath);
	call(BatchEvent::kFailure);
	close();
	end(second, MemberEnd::kAck);
	call(BatchEvent::kFinish);
	see(BatchedRow::kDeadMember, member);
	audit();
	EXPECT_EQ(batched.missing(rows), "");
	rows.pop_back();
	end(member, MemberEnd::kAck); /* it was brought back */
	EXPECT_EQ(batched.missing(rows), "success of batch 1, id 77");
	call(BatchEvent::kSuccess);
	audit();
	TxRef tx = begin();
	EXPECT_EQ(batched.forgetting(tx, rows).size(), 1u);
	commit(tx);
	batched.forget();
	EXPECT_EQ(batched.done, 1);
	EXPECT_EQ(batched.members_done, 2);
	rows.clear();
	audit();
	expect_nothing();
}

TEST_F(BatchedTest, SaysNothingOfWhatIsOpen)
{
	/* A member of a transaction that is rolled back, and a close that is. */
	TxRef tx = begin();
	Key undone = batched.adding(tx, batch);
	batched.added(undone, 101);
	TxRef closing = begin();
	batched.closing(closing, batch);
	ledger.aborted(tx);
	ledger.aborted(closing);
	end(member, MemberEnd::kAck);
	EXPECT_EQ(batched.missing(rows), "");
	audit();
	close();
	EXPECT_EQ(batched.missing(rows), "finish of batch 1, id 77");
	Batched::Known known{};
	EXPECT_EQ(batched.some_batch(7, &known), true);
	EXPECT_EQ(known.id, kId);
	EXPECT_EQ(batched.open_batches().size(), 0u);
	EXPECT_EQ(batched.some_members(3, 5).size(), 0u);
	expect_nothing();
}

TEST_F(BatchedTest, ACallbackComesTwice)
{
	end(member, MemberEnd::kAck);
	close();
	call(BatchEvent::kSuccess);
	call(BatchEvent::kFinish);
	see(BatchedRow::kCallback, batch);
	rows.back().event = BatchEvent::kFinish;
	audit();
	expect("the callback finish has come 2 times");
}

TEST_F(BatchedTest, ACallbackDoesNotCome)
{
	end(member, MemberEnd::kAck);
	close();
	call(BatchEvent::kFinish);
	audit(false);
	expect_nothing();
	audit();
	expect("the callback success has not come");
}

TEST_F(BatchedTest, FailureDoesNotCome)
{
	end(member, MemberEnd::kDeath);
	see(BatchedRow::kDeadMember, member);
	audit();
	expect("the callback failure has not come");
}

TEST_F(BatchedTest, ACallbackComesBeforeTheClose)
{
	end(member, MemberEnd::kAck);
	call(BatchEvent::kFinish);
	close();
	audit(false);
	expect("the callback finish has come before the close");
}

TEST_F(BatchedTest, ACallbackComesBeforeAnEnd)
{
	close();
	call(BatchEvent::kFinish);
	end(member, MemberEnd::kAck);
	audit(false);
	expect("the callback finish has come, but was not due");
}

TEST_F(BatchedTest, ACallbackComesBeforeAPreparedMember)
{
	end(member, MemberEnd::kAck);
	TxRef tx = begin();
	batched.added(batched.adding(tx, batch), 101);
	close();
	ledger.ending(tx);
	ledger.prepared(tx);
	call(BatchEvent::kFinish);
	audit(false);
	expect("the callback finish has come, but was not due");
}

TEST_F(BatchedTest, SuccessComesAfterACancel)
{
	end(member, MemberEnd::kGone);
	close();
	call(BatchEvent::kFinish);
	audit();
	expect_nothing();
	call(BatchEvent::kSuccess);
	audit();
	expect("the callback success has come, but was not due");
}

TEST_F(BatchedTest, FailureComesWithoutADeath)
{
	end(member, MemberEnd::kGone);
	close();
	call(BatchEvent::kFinish);
	call(BatchEvent::kFailure);
	audit();
	expect("the callback failure has come, but was not due");
}

TEST_F(BatchedTest, ACallbackOfABatchThatWasUndone)
{
	TxRef tx = begin();
	batch = batched.creating(tx);
	batched.created(batch, kId);
	batched.closing(tx, batch);
	ledger.aborted(tx);
	see(BatchedRow::kMember, member);
	audit(false);
	expect_nothing();
	see(BatchedRow::kCallback, batch);
	audit(false);
	expect("has a callback, but was not made");
}

TEST_F(BatchedTest, ACallbackHasOtherHeaders)
{
	TxRef tx = begin();
	batched.calling(tx, batch, kId, BatchEvent::kFinish, "success");
	expect("a callback has the headers of batch 77, event success");
}

TEST_F(BatchedTest, AMemberIsLost)
{
	audit(false);
	expect("member -1 is lost");
}

TEST_F(BatchedTest, AMemberIsThereTwice)
{
	see(BatchedRow::kMember, member);
	see(BatchedRow::kDeadMember, member);
	audit(false);
	expect("member -1 is there twice");
}

TEST_F(BatchedTest, AMemberEndsTwice)
{
	end(member, MemberEnd::kAck);
	end(member, MemberEnd::kAck);
	audit(false);
	expect("member -1 has ended twice");
}

TEST_F(BatchedTest, AMemberIsThereAfterItsEnd)
{
	end(member, MemberEnd::kAck);
	see(BatchedRow::kMember, member);
	audit(false);
	expect("member -1 has ended, and is there");
}

TEST_F(BatchedTest, AMemberIsThereThatWasUndone)
{
	TxRef tx = begin();
	Key undone = batched.adding(tx, batch);
	batched.added(undone, 101);
	ledger.aborted(tx);
	see(BatchedRow::kMember, member);
	see(BatchedRow::kMember, undone);
	audit(false);
	expect("member -2 is there, but was not enqueued");
}

TEST_F(BatchedTest, AMemberDiesByItself)
{
	see(BatchedRow::kDeadMember, member);
	audit(false);
	expect("member -1 is a dead letter, but nobody has failed it");
}

TEST_F(BatchedTest, AMemberEndsByAPurge)
{
	TxRef tx = begin();
	batched.purging(tx);
	commit(tx);
	audit(false);
	close();
	call(BatchEvent::kFinish);
	audit();
	expect_nothing();
}

TEST_F(BatchedTest, ABatchIsCancelled)
{
	Key second = add();
	end(member, MemberEnd::kAck);
	TxRef tx = begin();
	batched.cancelling(tx, batch);
	ledger.aborted(tx);
	see(BatchedRow::kMember, second);
	audit(false);
	tx = begin();
	batched.cancelling(tx, batch);
	commit(tx);
	end(second, MemberEnd::kAck); /* the scheduler was not the first */
	rows.clear();
	EXPECT_EQ(batched.missing(rows), "finish of batch 1, id 77");
	call(BatchEvent::kFinish);
	audit();
	expect_nothing();
	call(BatchEvent::kSuccess);
	audit();
	expect("the callback success has come, but was not due");
}

TEST_F(BatchedTest, AMemberIsAddedAfterTheClose)
{
	close();
	(void) add(true);
	expect_nothing();
	(void) add();
	expect("a member was added after the close");
}

TEST_F(BatchedTest, AMemberIsRefusedBeforeTheClose)
{
	TxRef tx = begin();
	batched.closing(tx, batch);
	batched.refused(tx, batched.adding(tx, batch));
	expect_nothing();
	batched.refused(begin(), batched.adding(begin(), batch));
	expect("an enqueue was refused, but the batch is open");
}

TEST_F(BatchedTest, AMemberInWorkIsRefused)
{
	close();
	batched.refused(begin(), batched.adding(begin(), batch), true);
	expect("a member in work could not add a member");
}

TEST_F(BatchedTest, AMemberThatWasDeadIsRefused)
{
	close();
	end(member, MemberEnd::kDeath);
	batched.refused(begin(), batched.adding(begin(), batch), true);
	expect_nothing();
}

TEST_F(BatchedTest, SomethingComesLongAfterTheEnd)
{
	end(member, MemberEnd::kAck);
	close();
	call(BatchEvent::kSuccess);
	call(BatchEvent::kFinish);
	TxRef tx = begin();
	(void) batched.forgetting(tx, rows);
	commit(tx);
	batched.forget();
	audit();
	expect("a callback of batch 1 has ended long ago, and is there");
	batched.calling(begin(), batch, kId, BatchEvent::kFinish, "finish");
	expect("a callback of batch 1, which has ended long ago");
}

} // namespace
