/* Handlers at quiet points. */
#include "dispatcher.h"

namespace torture {

static const std::string kHandlerState =
	"SELECT concat_ws(' | ', h.*) FROM pgq_ext.handler h UNION ALL "
	"SELECT concat_ws(' | ', j.*) FROM (SELECT s.*, payload FROM pgq_ext.job_status s "
	"LEFT JOIN pgq_ext.job USING (job_id) WHERE s.queue = ANY($1) ORDER BY job_id LIMIT 20) j "
	"UNION ALL "
	"SELECT concat_ws(' | ', l.*) FROM pgq_ext.lease_entries() l UNION ALL "
	"SELECT concat_ws(' | ', pid, state, wait_event_type, wait_event, query) FROM pg_stat_activity "
	"WHERE backend_type LIKE 'pgq_ext%'";

/* Wait until the query returns a row. */
static void
wait_until(Session &session, const std::string &query, const std::vector<Parameter> &parameters)
{
	for (Time end = now() + kPatience; session.connection.run(query, parameters).size() == 0;
		 nap(20 * kMillisecond))
		if (now() > end)
			throw Hung{"until there is a row in " + query};
}

/*
 * Wait until the scheduler has looked at the handlers since all of them were paused. After a crash
 * of the server it counts at its first look the attempts that were interrupted.
 */
static void
wait_for_scheduler(Session &session)
{
	static const std::string paused =
		"SELECT clock_timestamp() FROM pgq_ext.handler_entries() WHERE state = 'paused' "
		"HAVING count(*) = $1";
	wait_until(session, paused, {number(static_cast<int64_t>(kHandledQueues.size()))});
	std::string seen = session.connection.run("SELECT clock_timestamp()").text(0, 0);
	wait_until(session, "SELECT FROM pgq_ext.duty WHERE duty = 'handlers' AND last_run_at > $1",
			   {seen});
}

/*
 * Run a statement that locks the row of a handler. The backend of a connection that was cut may
 * have the lock for a moment.
 */
static void
run_patiently(Session &session, const std::string &sql)
{
	for (Time end = now() + kPatience; now() < end;)
		try
		{
			(void) session.connection.run(sql);
			return;
		}
		catch (const SqlError &error)
		{
			session.judge(error);
			if (error.state != "55P03")
				throw;
		}
	throw Hung{sql};
}

void
stop_handlers(Session &session, Random &random)
{
	if (!session.world.handlers)
		return;
	for (const std::string &queue : kHandledQueues)
	{
		Rows rows = session.connection.run("SELECT FROM pgq_ext.handler WHERE queue = $1", {queue});
		if (rows.size() == 0)
			run_patiently(session, setting_of(queue, some_handler(random, queue)));
		run_patiently(session, "SELECT pgq_pause_handler('" + queue + "')");
	}
	if (session.world.cluster.has_scheduler())
		wait_for_scheduler(session);
	wait_until(session,
			   "SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = "
			   "'pgq_ext handler')",
			   {});
}

void
start_handlers(Session &session)
{
	if (session.world.handlers)
		for (const std::string &queue : kHandledQueues)
			run_patiently(session, "SELECT pgq_resume_handler('" + queue + "')");
}

void
drain_handlers(Session &session, Random &random)
{
	World &world = session.world;
	if (!world.handlers || !world.cluster.has_scheduler())
		return;
	start_handlers(session);
	std::string last;
	for (Time end = now() + kPatience;; nap(50 * kMillisecond))
	{
		/* The second number grows with each job that is done. */
		Rows rows = session.connection.run(
			"SELECT (SELECT count(*) FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE "
			"queue = ANY($1)), (SELECT count(*) FROM torture.effect)",
			{array_of(kHandledQueues)});
		if (rows.text(0, 0) == "0")
			break;
		if (rows.text(0, 1) != last)
			end = now() + kPatience;
		last = rows.text(0, 1);
		if (now() < end)
			continue;
		std::string all;
		Rows state = session.connection.run(kHandlerState, {array_of(kHandledQueues)});
		for (int i = 0; i < state.size(); i++)
			all += "\n    " + state.text(i, 0);
		world.ledger.violation("handlers do not run " + rows.text(0, 0) + " jobs" + all);
		return;
	}
	stop_handlers(session, random);
}

static std::vector<HandledRow>
read_rows(Session &session)
{
	Rows rows = session.connection.run(
		"SELECT 0, payload::text, queue, 0, '' FROM pgq_ext.job JOIN pgq_ext.queue USING "
		"(queue_id) WHERE queue = ANY($1) UNION ALL "
		"SELECT 1, payload::text, queue, attempts, reason FROM pgq_ext.dead_job JOIN pgq_ext.queue "
		"USING (queue_id) WHERE queue = ANY($1) UNION ALL "
		"SELECT 2, key::text, queue, attempt, handler FROM torture.effect",
		{array_of(kHandledQueues)});
	std::vector<HandledRow> found;
	for (int i = 0; i < rows.size(); i++)
		found.push_back({.kind = static_cast<HandledRow::Kind>(rows.number(i, 0)),
						 .key = rows.number(i, 1),
						 .queue = rows.text(i, 2),
						 .attempt = static_cast<int>(rows.number(i, 3)),
						 .text = rows.text(i, 4)});
	return found;
}

void
audit_handlers(Session &session, bool drained)
{
	World &world = session.world;
	if (!world.handlers || world.ledger.violations() > 0)
		return;
	world.handled.forget(); /* an earlier call may have been interrupted after its commit */
	world.handled.audit(read_rows(session), drained && world.cluster.has_scheduler(),
						world.counters.kills("handler killed"));
	if (!drained || world.ledger.violations() > 0)
		return;
	Transaction tx(session);
	tx.mark();
	std::string keys;
	for (Key key : world.handled.forgetting(tx.tx()))
		keys += (keys.empty() ? "{" : ",") + number(key);
	(void) tx.run("DELETE FROM torture.effect WHERE key = ANY($1)",
				  {keys.empty() ? "{}" : keys + "}"});
	tx.commit();
	world.handled.forget();
}

} // namespace torture
