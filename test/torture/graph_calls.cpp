/* Graphs: calls that both the actors and the auditor make. */
#include "grapher.h"

namespace torture {

void
prepare_graphs(Session &session)
{
	Connection &connection = session.connection;
	World &world = session.world;
	/* prepare_batches() has added the columns that are missing after an update. */
	if (world.graphs || !world.batches ||
		connection.run("SELECT FROM pg_proc WHERE proname = 'pgq_parents'").size() == 0)
		return;
	(void) connection.run("CREATE TABLE IF NOT EXISTS torture.graph_called (batch bigint NOT NULL, "
						  "event integer NOT NULL)");
	for (const std::string &queue : {kPlainGraphs, kKeptGraphs, kGraphCalls})
		(void) connection.run(
			"SELECT pgq_create_queue($1, backoff_base => '50 ms', backoff_max => '1 s', "
			"max_attempts => 10000, keep_finished => $2, if_not_exists => true)",
			{queue, queue == kKeptGraphs ? Parameter{"1 day"} : Parameter{"0"}});
	world.graphs = true;
}

std::vector<std::vector<int>>
some_shape(Random &random, int n)
{
	std::vector<std::vector<int>> shape(static_cast<size_t>(n));
	int kind = random.between(1, 4);
	for (int i = 1; i < n; i++)
	{
		std::vector<int> &parents = shape[static_cast<size_t>(i)];
		if (kind == 1) /* a chain */
			parents = {i - 1};
		else if (kind == 2 && i < n - 1) /* a diamond */
			parents = {0};
		else if (kind == 2)
			for (int p = n > 2 ? 1 : 0; p < n - 1; p++)
				parents.push_back(p);
		else if (kind == 3) /* many children of one job */
			parents = {0};
		else
			for (int p = 0; p < i; p++)
				if (random.chance(150 / n))
					parents.push_back(p);
	}
	return shape;
}

std::vector<GraphWork>
claim_graph_jobs(Session &session, Transaction &tx, const std::string &queue, int most,
				 Time lease_time, Time wait)
{
	tx.mark();
	Rows rows = tx.run("SELECT payload, job_id, lease FROM pgq_claim($1, $2, wait => $3, "
					   "lease_time => $4)",
					   {queue, number(most), milliseconds(wait), milliseconds(lease_time)});
	Time received = now();
	std::vector<GraphWork> all;
	for (int i = 0; i < rows.size(); i++)
	{
		all.push_back({rows.number(i, 0), rows.number(i, 1), rows.number(i, 2)});
		session.world.graphed.handed_out(all.back().key, received);
	}
	return all;
}

void
ask_for_parents(Session &session, Transaction &tx, const GraphWork &work)
{
	if (!session.world.graphed.is_child(work.key))
		return;
	Rows rows = tx.run("SELECT job_id, ref, state, result, error FROM pgq_parents($1, $2)",
					   {number(work.job_id), number(work.lease)});
	Time received = now();
	std::vector<ParentRow> parents;
	auto optional = [&](int row, int column) {
		return rows.is_null(row, column) ? std::optional<std::string>{} : rows.text(row, column);
	};
	for (int i = 0; i < rows.size(); i++)
		parents.push_back(
			{rows.number(i, 0), optional(i, 1), rows.text(i, 2), optional(i, 3), optional(i, 4)});
	session.world.graphed.told(tx.tx(), work.key, parents, received);
}

void
ack_graph_job(Session &session, Transaction &tx, const GraphWork &work, bool with_result)
{
	Parameter result = with_result ? graph_result(work.key) : Parameter{};
	(void) tx.run("SELECT pgq_ack($1, $2, $3)", {number(work.job_id), number(work.lease), result});
	session.world.graphed.ended(tx.tx(), work.key, NodeEnd::kAck, result);
}

int
do_graph_callbacks(Session &session, Transaction &tx, int most, Time wait)
{
	tx.mark();
	Rows rows = tx.run("SELECT payload, job_id, lease FROM pgq_claim($1, $2, wait => $3, "
					   "lease_time => '3 s')",
					   {kGraphCalls, number(most), milliseconds(wait)});
	Time received = now();
	for (int i = 0; i < rows.size(); i++)
	{
		Key n = -rows.number(i, 0);
		session.world.graphed.calling(tx.tx(), n / kGraphEvents,
									  static_cast<GraphEvent>(n % kGraphEvents), received);
		(void) tx.run("INSERT INTO torture.graph_called VALUES ($1, $2)",
					  {number(n / kGraphEvents), number(n % kGraphEvents)});
		(void) tx.run("SELECT pgq_ack($1, $2)", {rows.text(i, 1), rows.text(i, 2)});
	}
	return rows.size();
}

} // namespace torture
