/* Batches at quiet points. */
#include "batcher.h"

namespace torture {

static constexpr int kBatch = 10;

static std::vector<BatchedRow>
read_rows(Session &session)
{
	Rows rows = session.connection.run(
		"SELECT CASE queue WHEN $1 THEN 0 ELSE 2 END, payload::text::bigint, 0 FROM pgq_ext.job "
		"JOIN pgq_ext.queue USING (queue_id) WHERE queue IN ($1, $2) UNION ALL "
		"SELECT 1, payload::text::bigint, 0 FROM pgq_ext.dead_job JOIN pgq_ext.queue USING "
		"(queue_id) "
		"WHERE queue = $1 UNION ALL "
		"SELECT 3, batch, event FROM torture.called",
		{kMembersQueue, kCalledQueue});
	std::vector<BatchedRow> found;
	for (int i = 0; i < rows.size(); i++)
	{
		BatchedRow row{.kind = static_cast<BatchedRow::Kind>(rows.number(i, 0)),
					   .key = rows.number(i, 1)};
		row.event = static_cast<BatchEvent>(rows.number(i, 2));
		if (row.kind == BatchedRow::kCallback)
		{
			row.event = static_cast<BatchEvent>(-row.key % kBatchEvents);
			row.key = -row.key / kBatchEvents;
		}
		found.push_back(row);
	}
	return found;
}

static void
close_all(Session &session)
{
	Transaction tx(session);
	for (const Batched::Known &batch : session.world.batched.open_batches())
		close_batch(session, tx, batch);
	tx.commit();
}

/* Bring dead letters back, or delete them. */
static void
settle_dead(Session &session, Random &random)
{
	Transaction tx(session);
	tx.mark();
	if (random.chance(50))
		(void) tx.run("SELECT pgq_redrive($1)", {kMembersQueue});
	else
	{
		Rows rows = tx.run("DELETE FROM pgq_ext.dead_job USING pgq_ext.queue WHERE "
						   "dead_job.queue_id = queue.queue_id AND queue = $1 RETURNING payload",
						   {kMembersQueue});
		for (int i = 0; i < rows.size(); i++)
			session.world.batched.ended(tx.tx(), rows.number(i, 0), MemberEnd::kGone);
	}
	tx.commit();
}

/* Acknowledge some members. Returns their number. */
static int
end_members(Session &session)
{
	Transaction tx(session);
	tx.mark();
	Rows rows = tx.run("SELECT payload, job_id, lease FROM pgq_claim($1, $2, wait => '200 ms')",
					   {kMembersQueue, number(kBatch)});
	for (int i = 0; i < rows.size(); i++)
	{
		(void) tx.run("SELECT pgq_ack($1, $2)", {rows.text(i, 1), rows.text(i, 2)});
		session.world.batched.ended(tx.tx(), rows.number(i, 0), MemberEnd::kAck);
	}
	tx.commit();
	return rows.size();
}

static int
end_callbacks(Session &session)
{
	Transaction tx(session);
	int n = do_callbacks(session, tx, kBatch, 200 * kMillisecond);
	tx.commit();
	return n;
}

/* Repeat the step, which returns what it has done, until `left` returns nothing. */
template <typename Left, typename Step>
static void
repeat(Session &session, const char *what, Left left, Step step)
{
	std::string rest;
	for (Time end = now() + kPatience; (rest = left()) != "";)
	{
		if (now() > end)
		{
			Rows rows = session.connection.run(
				"SELECT concat_ws(' | ', b.*) FROM pgq_ext.job_batch b WHERE pending UNION ALL "
				"SELECT concat_ws(' | ', d.*) FROM pgq_ext.duty d UNION ALL "
				"SELECT concat_ws(' | ', job_id, state, waits_for) FROM pgq_ext.job_status WHERE "
				"queue = '" +
				kMembersQueue + "'");
			for (int i = 0; i < rows.size(); i++)
				rest += "\n    " + rows.text(i, 0);
			session.world.ledger.violation(std::string(what) + ": " + rest);
			return;
		}
		try
		{
			if (step() > 0)
				end = now() + kPatience;
		}
		catch (const SqlError &error)
		{
			session.judge(error);
			nap(50 * kMillisecond);
		}
	}
}

void
drain_batches(Session &session, Random &random)
{
	World &world = session.world;
	if (!world.batches || !world.cluster.has_scheduler())
		return;
	close_all(session);
	settle_dead(session, random);
	repeat(
		session, "members do not end",
		[&] {
			Rows rows =
				session.connection.run("SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING "
									   "(queue_id) WHERE queue = $1 HAVING count(*) > 0",
									   {kMembersQueue});
			return rows.size() > 0 ? rows.text(0, 0) : "";
		},
		[&] { return end_members(session); });
	if (world.ledger.violations() > 0)
		return;
	repeat(
		session, "a callback does not come",
		[&] { return world.batched.missing(read_rows(session)); },
		[&] { return end_callbacks(session); });
	if (world.ledger.violations() == 0)
		while (end_callbacks(session) > 0)
			;
}

void
audit_batches(Session &session, bool drained)
{
	World &world = session.world;
	if (!world.batches || world.ledger.violations() > 0)
		return;
	world.batched.forget(); /* an earlier call may have been interrupted after its commit */
	std::vector<BatchedRow> rows = read_rows(session);
	drained = drained && world.cluster.has_scheduler();
	world.batched.audit(rows, drained);
	if (!drained || world.ledger.violations() > 0)
		return;
	Transaction tx(session);
	tx.mark();
	std::string keys;
	for (Key key : world.batched.forgetting(tx.tx(), rows))
		keys += (keys.empty() ? "{" : ",") + number(key);
	keys = keys.empty() ? "{}" : keys + "}";
	(void) tx.run("DELETE FROM torture.called WHERE batch = ANY($1)", {keys});
	tx.commit();
	world.batched.forget();
}

} // namespace torture
