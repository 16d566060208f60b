/* Graphs at quiet points. */
#include "grapher.h"

namespace torture {

static constexpr int kBatch = 10;

static std::vector<GraphRow>
read_rows(Session &session)
{
	static_assert(GraphRow::kBlocked == GraphRow::kLive + 1 && GraphRow::kDead == 2 &&
				  GraphRow::kCallback == 3 && GraphRow::kEffect == 4);
	Rows rows = session.connection.run(
		"SELECT CASE WHEN queue = $3 THEN 3 WHEN blocked IS NULL THEN 0 ELSE 1 END, "
		"payload::text::bigint, 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) "
		"WHERE queue IN ($1, $2, $3) UNION ALL "
		"SELECT 2, payload::text::bigint, 0 FROM pgq_ext.dead_job JOIN pgq_ext.queue USING "
		"(queue_id) WHERE queue IN ($1, $2) UNION ALL "
		"SELECT 4, batch, event FROM torture.graph_called",
		{kPlainGraphs, kKeptGraphs, kGraphCalls});
	std::vector<GraphRow> found;
	for (int i = 0; i < rows.size(); i++)
	{
		GraphRow row{.kind = static_cast<GraphRow::Kind>(rows.number(i, 0)),
					 .key = rows.number(i, 1)};
		row.event = static_cast<GraphEvent>(rows.number(i, 2));
		if (row.kind == GraphRow::kCallback)
		{
			row.event = static_cast<GraphEvent>(-row.key % kGraphEvents);
			row.key = -row.key / kGraphEvents;
		}
		found.push_back(row);
	}
	return found;
}

/* Bring dead letters back, or delete them. */
static void
settle_dead(Session &session, Random &random)
{
	Transaction tx(session);
	tx.mark();
	for (const std::string &queue : {kPlainGraphs, kKeptGraphs})
		if (random.chance(50))
			(void) tx.run("SELECT pgq_redrive($1)", {queue});
		else
		{
			Rows rows =
				tx.run("DELETE FROM pgq_ext.dead_job USING pgq_ext.queue WHERE "
					   "dead_job.queue_id = queue.queue_id AND queue = $1 RETURNING payload",
					   {queue});
			for (int i = 0; i < rows.size(); i++)
				session.world.graphed.ended(tx.tx(), rows.number(i, 0), NodeEnd::kDelete);
		}
	tx.commit();
}

/* Acknowledge some jobs of both queues. Returns their number. */
static int
end_jobs(Session &session, Random &random)
{
	Transaction tx(session);
	int n = 0;
	for (const std::string &queue : {kPlainGraphs, kKeptGraphs})
		for (const GraphWork &work : claim_graph_jobs(session, tx, queue, kBatch, 60 * kSecond,
													  n == 0 ? 100 * kMillisecond : 0))
		{
			ask_for_parents(session, tx, work);
			ack_graph_job(session, tx, work, random.chance(70));
			n++;
		}
	tx.commit();
	return n;
}

static int
end_callbacks(Session &session)
{
	Transaction tx(session);
	int n = do_graph_callbacks(session, tx, kBatch, 200 * kMillisecond);
	tx.commit();
	return n;
}

/* Repeat the step, which returns what it has done, until `left` returns nothing. */
template <typename Left, typename Step>
static void
repeat(Session &session, const char *what, Left left, Step step)
{
	std::string rest;
	for (Time end = now() + kPatience;
		 session.world.ledger.violations() == 0 && (rest = left()) != "";)
	{
		if (now() > end)
		{
			Rows rows = session.connection.run(
				"SELECT concat_ws(' | ', d.*) FROM pgq_ext.duty d UNION ALL SELECT "
				"concat_ws(' | ', job_id, state, waits_for) FROM pgq_ext.job_status WHERE queue IN "
				"($1, $2)",
				{kPlainGraphs, kKeptGraphs});
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

/* Wait until all blocked jobs have something to wait for, and no other one must be cancelled. */
static void
await_judgement(Session &session)
{
	repeat(
		session, "a child is forgotten",
		[&] { return session.world.graphed.overdue(read_rows(session)); },
		[&] {
			nap(20 * kMillisecond);
			return 0;
		});
}

/* Try to make blocked jobs due by SQL. The server refuses it. */
static void
make_due(Session &session)
{
	static constexpr char kRefused[] = "55000";
	try
	{
		Rows rows =
			session.connection.run("UPDATE pgq_ext.job SET run_at = clock_timestamp() WHERE "
								   "blocked IS NOT NULL RETURNING job_id");
		if (rows.size() > 0)
			session.world.ledger.violation("SQL has made blocked jobs due");
	}
	catch (const SqlError &error)
	{
		if (error.state == kRefused)
			session.world.counters.error(error.state);
		else
			session.judge(error, false, true);
	}
}

static void
await_jobs(Session &session, Random &random)
{
	repeat(
		session, "jobs of graphs do not end",
		[&] {
			Rows rows = session.connection.run("SELECT count(*) FROM pgq_ext.job JOIN "
											   "pgq_ext.queue USING (queue_id) WHERE queue IN "
											   "($1, $2) HAVING count(*) > 0",
											   {kPlainGraphs, kKeptGraphs});
			return rows.size() > 0 ? rows.text(0, 0) : "";
		},
		[&] { return end_jobs(session, random); });
}

/* Wait until no dependency and no outcome is left, since no child is. */
static void
await_garbage(Session &session)
{
	repeat(
		session, "dependencies or outcomes are left",
		[&] {
			Rows rows = session.connection.run(
				"SELECT concat_ws(' | ', d.*) FROM pgq_ext.job_dependency d UNION ALL SELECT "
				"concat_ws(' | ', o.*) FROM pgq_ext.job_outcome o LIMIT 1");
			return rows.size() > 0 ? rows.text(0, 0) : "";
		},
		[&] {
			nap(200 * kMillisecond);
			return 0;
		});
	session.world.graphed.collections++;
}

void
drain_graphs(Session &session, Random &random)
{
	World &world = session.world;
	if (!world.graphs || !world.cluster.has_scheduler())
		return;
	if (random.chance(50))
		make_due(session);
	await_judgement(session);
	/* A held child must be there as long as the dead letter is. */
	world.graphed.audit(read_rows(session), false);
	settle_dead(session, random);
	await_judgement(session);
	await_jobs(session, random);
	repeat(
		session, "a callback of a graph does not come",
		[&] { return world.graphed.missing(read_rows(session)); },
		[&] { return end_callbacks(session); });
	while (world.ledger.violations() == 0 && end_callbacks(session) > 0)
		;
	if (world.graphed.collections == 0 || random.chance(20))
		await_garbage(session);
}

void
audit_graphs(Session &session, bool drained)
{
	World &world = session.world;
	if (!world.graphs || world.ledger.violations() > 0)
		return;
	drained = drained && world.cluster.has_scheduler();
	world.graphed.audit(read_rows(session), drained);
	if (!drained || world.ledger.violations() > 0)
		return;
	Key last = world.graphed.forget();
	(void) session.connection.run("DELETE FROM torture.graph_called WHERE batch <= $1",
								  {number(last)});
}

} // namespace torture
