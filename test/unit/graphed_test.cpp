/*
 * Tests of what the torture test knows of graphs: it must report a server that breaks a rule, and must
 * report nothing about a correct server.
 */
#include "test/torture/graphed.h"
#include "test/unit/ledger_fixture.h"

namespace {

using namespace torture;

class GraphedTest : public LedgerTest
{
protected:
	Graphed graphed{ledger};
	std::vector<GraphRow> rows;
	Key parent = 0;

	/* A committed job without parents. */
	void SetUp() override
	{
		LedgerTest::SetUp();
		parent = add({});
	}

	Key add_in(const TxRef &tx, const GraphNode &node)
	{
		later();
		Key key = graphed.adding(tx, node);
		graphed.added(key, -key);
		later();
		return key;
	}
	Key add(GraphNode node)
	{
		node.queue = node.queue.empty() ? kPlainGraphs : node.queue;
		TxRef tx = begin();
		Key key = add_in(tx, node);
		commit(tx);
		return key;
	}
	Key child(OnFailure on_failure, const std::vector<Key> &parents)
	{
		GraphNode node{.on_failure = on_failure};
		for (Key key : parents)
			node.parents.push_back({key, false});
		return add(node);
	}
	void end(Key key, NodeEnd how)
	{
		TxRef tx = begin();
		graphed.ended(tx, key, how,
					  how == NodeEnd::kAck ? graph_result(key) : std::optional<std::string>{});
		commit(tx);
	}
	void hand_out(Key key)
	{
		later();
		graphed.handed_out(key, now());
	}
	void tell(Key key, const std::vector<ParentRow> &parents)
	{
		graphed.told(begin(), key, parents, now());
	}
	ParentRow acked(Key key) { return {-key, {}, "acked", graph_result(key), {}}; }
	ParentRow row(Key key, const std::string &state) { return {-key, {}, state, {}, {}}; }
	void see(GraphRow::Kind kind, Key key, GraphEvent event = {})
	{
		rows.push_back({kind, key, event});
	}
	void audit(bool drained = false) { graphed.audit(rows, drained); }

	Key batch_of(std::vector<Key> *members)
	{
		TxRef tx = begin();
		Key batch = graphed.creating_batch(tx);
		for (int i = 0; i < 2; i++)
			members->push_back(add_in(tx, {.queue = kPlainGraphs, .batch = batch}));
		commit(tx);
		return batch;
	}
	void call(Key batch, GraphEvent event)
	{
		TxRef tx = begin();
		graphed.calling(tx, batch, event, now());
		commit(tx);
		see(GraphRow::kEffect, batch, event);
	}
};

TEST_F(GraphedTest, SaysNothingOfAServerThatIsRight)
{
	Key cancel = child(OnFailure::kCancel, {parent});
	Key run = child(OnFailure::kRun, {parent, cancel});
	see(GraphRow::kLive, parent);
	see(GraphRow::kBlocked, cancel);
	see(GraphRow::kBlocked, run);
	audit();
	EXPECT_EQ(graphed.overdue(rows), "");
	hand_out(parent);
	end(parent, NodeEnd::kAck);
	hand_out(cancel);
	tell(cancel, {acked(parent)});
	end(cancel, NodeEnd::kCancel);
	hand_out(run);
	tell(run, {acked(parent), row(cancel, "cancelled")});
	end(run, NodeEnd::kAck);
	rows.clear();
	audit(true);
	EXPECT_EQ(graphed.forget(), 0);
	EXPECT_EQ(graphed.cancelled, 0);
	expect_nothing();
}

TEST_F(GraphedTest, SaysNothingOfDeadLetters)
{
	Key cancel = child(OnFailure::kCancel, {parent});
	Key below = child(OnFailure::kCancel, {cancel});
	Key run = child(OnFailure::kRun, {parent});
	Key hold = child(OnFailure::kHold, {parent});
	end(parent, NodeEnd::kDeath);
	see(GraphRow::kDead, parent);
	see(GraphRow::kBlocked, hold);
	hand_out(run);
	tell(run, {{-parent, {}, "dead", {}, kGraphError}});
	tell(run, {row(parent, "waiting")});
	see(GraphRow::kLive, run);
	audit();
	EXPECT_EQ(graphed.overdue(rows), "");
	end(parent, NodeEnd::kAck); /* it was redriven */
	hand_out(hold);
	tell(run, {acked(parent)});
	end(hold, NodeEnd::kAck);
	end(run, NodeEnd::kAck);
	rows.clear();
	audit(true);
	(void) graphed.forget();
	EXPECT_EQ(graphed.cancelled, 2) << cancel << below;
	expect_nothing();
}

TEST_F(GraphedTest, SaysNothingOfWhatIsOpen)
{
	TxRef undoes = begin();
	Key undone = add_in(undoes, {.queue = kPlainGraphs, .parents = {{parent, false}}});
	ledger.aborted(undoes);
	TxRef prepares = begin();
	graphed.ended(prepares, parent, NodeEnd::kCancel);
	ledger.ending(prepares);
	ledger.prepared(prepares);
	Key hold = child(OnFailure::kHold, {parent});
	see(GraphRow::kLive, parent);
	see(GraphRow::kBlocked, hold);
	audit();
	EXPECT_EQ(graphed.some(7, 3).size(), 2u) << undone;
	commit(prepares);
	rows.clear();
	audit(true);
	expect_nothing();
}

/* A failover may undo the ack of a parent after a worker has got the child. */
TEST_F(GraphedTest, AnAckThatWasSeenForAWhile)
{
	Key cancel = child(OnFailure::kCancel, {parent});
	TxRef tx = begin();
	graphed.ended(tx, parent, NodeEnd::kAck);
	ledger.ending(tx);
	hand_out(cancel);
	ledger.aborted(tx, 2);
	hand_out(cancel);
	expect_nothing();
	see(GraphRow::kLive, parent);
	see(GraphRow::kLive, cancel);
	audit();
	expect("is not blocked, but must wait");
}

TEST_F(GraphedTest, AChildIsEarly)
{
	hand_out(child(OnFailure::kRun, {parent}));
	expect("was handed out, but must wait for " + std::to_string(parent));
}

TEST_F(GraphedTest, AChildDoesNotWaitForItsSecondParent)
{
	Key second = add({});
	Key both = child(OnFailure::kCancel, {parent, second});
	end(parent, NodeEnd::kAck);
	see(GraphRow::kLive, second);
	see(GraphRow::kLive, both);
	audit();
	expect("is not blocked, but must wait");
}

TEST_F(GraphedTest, AnEndThatIsPreparedIsNoEnd)
{
	Key run = child(OnFailure::kRun, {parent});
	TxRef tx = begin();
	graphed.ended(tx, parent, NodeEnd::kAck);
	ledger.ending(tx);
	ledger.prepared(tx);
	hand_out(run);
	expect("must wait for");
}

TEST_F(GraphedTest, AChildOfAFailedParentRuns)
{
	Key cancel = child(OnFailure::kCancel, {parent});
	end(parent, NodeEnd::kDelete);
	hand_out(cancel);
	expect("must wait for");
}

TEST_F(GraphedTest, AChildDoesNotHoldForADeadLetter)
{
	Key hold = child(OnFailure::kHold, {parent});
	end(parent, NodeEnd::kDeath);
	hand_out(hold);
	expect("must wait for");
}

TEST_F(GraphedTest, AChildIsHandedOutThatWasUndone)
{
	TxRef tx = begin();
	Key key = add_in(tx, {.queue = kPlainGraphs});
	graphed.undone({key});
	commit(tx);
	hand_out(key);
	expect("not enqueued");
}

TEST_F(GraphedTest, AChildIsLost)
{
	(void) child(OnFailure::kCancel, {parent});
	end(parent, NodeEnd::kAck);
	audit();
	expect("is lost");
}

TEST_F(GraphedTest, AChildThatRunsIsNotCancelled)
{
	(void) child(OnFailure::kRun, {parent});
	end(parent, NodeEnd::kCancel);
	audit();
	expect("is lost");
}

TEST_F(GraphedTest, AHeldChildIsNotCancelledByADeath)
{
	(void) child(OnFailure::kHold, {parent});
	end(parent, NodeEnd::kDeath);
	see(GraphRow::kDead, parent);
	audit();
	expect("is lost");
}

/* The dead letter may have been cancelled, since its own parent died after it. But it is there. */
TEST_F(GraphedTest, AHeldChildIsNotCancelledByADeathInTheMiddle)
{
	Key middle = child(OnFailure::kCancel, {parent});
	(void) child(OnFailure::kHold, {middle});
	end(middle, NodeEnd::kDeath);
	end(parent, NodeEnd::kDeath);
	end(parent, NodeEnd::kAck);
	see(GraphRow::kDead, middle);
	audit();
	expect("is lost");
}

TEST_F(GraphedTest, AJobEndsTwice)
{
	end(parent, NodeEnd::kAck);
	end(parent, NodeEnd::kAck);
	audit();
	expect("has ended twice");
}

TEST_F(GraphedTest, AJobIsThereThatHasEnded)
{
	end(parent, NodeEnd::kAck);
	see(GraphRow::kLive, parent);
	audit();
	expect("has ended, and is there");
}

TEST_F(GraphedTest, AForgottenJobIsThere)
{
	end(parent, NodeEnd::kAck);
	(void) graphed.forget();
	see(GraphRow::kLive, parent);
	audit();
	expect("has ended long ago");
	hand_out(parent);
	expect("has ended long ago, and is handed out");
}

TEST_F(GraphedTest, AChildIsForgotten)
{
	Key cancel = child(OnFailure::kCancel, {parent});
	Key hold = child(OnFailure::kHold, {parent});
	see(GraphRow::kBlocked, hold);
	see(GraphRow::kDead, parent);
	EXPECT_EQ(graphed.overdue(rows), "");
	see(GraphRow::kBlocked, cancel);
	EXPECT_NE(graphed.overdue(rows).find("node " + std::to_string(cancel)), std::string::npos);
	rows = {{GraphRow::kBlocked, hold}};
	EXPECT_NE(graphed.overdue(rows).find("node " + std::to_string(hold)), std::string::npos);
	end(parent, NodeEnd::kAck);
	EXPECT_NE(graphed.overdue(rows), "");
	expect_nothing();
}

/* ---- enqueue, and pgq_parents ---- */

TEST_F(GraphedTest, AnEnqueueIsRefused)
{
	Key kept = add({.queue = kKeptGraphs});
	end(parent, NodeEnd::kAck);
	end(kept, NodeEnd::kAck);
	graphed.refused({child(OnFailure::kRun, {kept, parent})});
	expect_nothing();
	graphed.refused({child(OnFailure::kRun, {kept})});
	expect("was refused");
}

TEST_F(GraphedTest, ParentsAreToldWrongly)
{
	Key second = add({});
	Key cancel = child(OnFailure::kCancel, {parent, second});
	Key run = child(OnFailure::kRun, {parent});
	tell(cancel, {acked(parent)});
	expect("has 1 rows of pgq_parents");
	tell(run, {row(second, "acked")});
	expect("it has no such parent");
	tell(run, {acked(parent)});
	expect("nobody has acknowledged it so");
	tell(run, {row(parent, "dead")});
	expect("it died with another error");
	tell(run, {row(parent, "leased")});
	expect("it has never died");
	tell(run, {row(parent, "unknown")});
	expect("it has not ended so");
	end(parent, NodeEnd::kCancel);
	tell(run, {row(parent, "deleted")});
	expect("it has not ended so");
	ParentRow with_ref = row(parent, "cancelled");
	with_ref.ref = "ref 1";
	tell(run, {with_ref});
	expect("it has another ref");
	tell(cancel, {row(parent, "cancelled"), acked(second)});
	expect("its child should not run");
}

TEST_F(GraphedTest, AResultIsLost)
{
	Key run = child(OnFailure::kRun, {parent});
	end(parent, NodeEnd::kAck);
	tell(run, {row(parent, "acked")});
	expect("nobody has acknowledged it so");
}

/* The enqueue of a child by the transaction that has acknowledged the parent does not know the result. */
TEST_F(GraphedTest, AResultThatIsNotKept)
{
	TxRef tx = begin();
	graphed.ended(tx, parent, NodeEnd::kAck, graph_result(parent));
	(void) add_in(tx, {.queue = kPlainGraphs, .parents = {{parent, false}}});
	commit(tx);
	Key run = child(OnFailure::kRun, {parent});
	tell(run, {row(parent, "acked")});
	expect_nothing();
}

/* ---- batches ---- */

TEST_F(GraphedTest, ABatchIsRight)
{
	std::vector<Key> members;
	Key batch = batch_of(&members);
	end(parent, NodeEnd::kAck);
	for (Key key : members)
		end(key, NodeEnd::kAck);
	EXPECT_EQ(graphed.missing(rows), "finish of batch 1 of a graph");
	call(batch, GraphEvent::kFinish);
	EXPECT_EQ(graphed.missing(rows), "success of batch 1 of a graph");
	call(batch, GraphEvent::kSuccess);
	audit(true);
	EXPECT_EQ(graphed.forget(), batch);
	audit(true); /* the effects are still there */
	expect_nothing();
	graphed.calling(begin(), batch, GraphEvent::kFinish, now());
	expect("which has ended long ago");
}

TEST_F(GraphedTest, ACallbackIsEarlyOrComesTwice)
{
	std::vector<Key> members;
	Key batch = batch_of(&members);
	end(members[0], NodeEnd::kAck);
	see(GraphRow::kLive, parent);
	see(GraphRow::kLive, members[1]);
	call(batch, GraphEvent::kFinish);
	audit();
	expect("the callback finish has come, but was not due");
	call(batch, GraphEvent::kFinish);
	audit();
	expect("the callback finish has come 2 times");
}

TEST_F(GraphedTest, ASuccessThatIsNone)
{
	std::vector<Key> members;
	Key batch = batch_of(&members);
	end(parent, NodeEnd::kAck);
	end(members[0], NodeEnd::kAck);
	end(members[1], NodeEnd::kDeath);
	call(batch, GraphEvent::kFinish); /* a dead letter has ended, too */
	end(members[1], NodeEnd::kCancel);
	audit(true);
	expect_nothing();
	call(batch, GraphEvent::kSuccess);
	audit(true);
	expect("the callback success has come, but was not due");
}

TEST_F(GraphedTest, ACallbackDoesNotCome)
{
	std::vector<Key> members;
	Key batch = batch_of(&members);
	end(parent, NodeEnd::kAck);
	for (Key key : members)
		end(key, NodeEnd::kDelete);
	audit(true);
	expect("batch " + std::to_string(batch) + " of a graph: the callback finish has not come");
}

} // namespace
