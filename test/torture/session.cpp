#include "session.h"

#include <set>

namespace torture {

static const char kClaimed[] = "SELECT payload, job_id, lease, attempt, max_attempts, priority, "
							   "queue, headers FROM ";

std::string
gid(const TxRef &tx)
{
	return "torture_" + number(tx->id);
}

Parameter
headers(Key key)
{
	if (key % 12 != 0)
		return {};
	/* Random digits, which cannot be compressed. */
	Random random(static_cast<uint64_t>(key), "headers");
	std::string ballast;
	for (int i = random.between(160, 500); i > 0; i--)
		ballast += number(static_cast<int64_t>(random.next() >> 1));
	return "{\"ballast\": \"" + ballast + "\"}";
}

/* ---- connecting ---- */

void
Session::connect()
{
	Time end = now() + kPatience;
	for (; now() < end; nap(20 * kMillisecond))
	{
		auto [conninfo, server] = world.cluster.primary();
		if (connection.try_open(conninfo, server))
			return;
	}
	throw Hung{"connect"};
}

void
Session::connect_if_broken()
{
	if (connection.is_open())
		return;
	connect();
}

/* ---- errors ---- */

bool
is_moved_row(const SqlError &error)
{
	return error.state == "40001" &&
		   error.message.find("already moved to another partition") != std::string::npos;
}

void
Session::judge(const SqlError &error, bool temporary_queue, bool by_hand)
{
	static const std::set<std::string> legitimate = {
		"PQ001", /* a stale ack */
		"57014", /* cancelled by the killer, or by statement_timeout */
		"53400", /* pgq_ext.max_leases is small */
		"55P03", /* lock_timeout; a prepared transaction has locked too many jobs */
		/*
		 * The administrator locks rows in another order than workers. It drops a queue that a
		 * transaction uses which has also enqueued elsewhere. Late acks wait for the worker that
		 * has the job now.
		 */
		"40P01",
	};
	world.counters.error(error.state);
	bool dropped = temporary_queue && error.state == "42704";
	bool moved = by_hand && is_moved_row(error);
	if (!legitimate.contains(error.state) && !dropped && !moved)
		world.ledger.violation("error " + error.state + ": " + error.message + "  in " +
							   error.statement);
}

void
Session::complain(const Hung &hung)
{
	std::string all;
	try
	{
		auto [conninfo, server] = world.cluster.primary();
		Connection other;
		if (other.try_open(conninfo, server))
		{
			Rows rows = other.run(
				"SELECT concat_ws(' | ', pid, backend_type, state, wait_event_type, wait_event, "
				"pg_blocking_pids(pid), query) FROM pg_stat_activity ORDER BY backend_type, pid");
			for (int i = 0; i < rows.size(); i++)
				all += "\n  " + rows.text(i, 0);
		}
	}
	catch (const Broken &)
	{}
	world.ledger.violation("no answer in time: " + hung.statement + all);
}

/* ---- transactions whose end is not known ---- */

bool
Session::is_prepared(const TxRef &tx)
{
	return connection.run("SELECT 1 FROM pg_prepared_xacts WHERE gid = $1", {gid(tx)}).size() > 0;
}

void
Session::resolve(const TxRef &tx)
{
	Time end = now() + kPatience;
	while (now() < end)
		try
		{
			connect_if_broken();
			int server = connection.epoch().server;
			(void) connection.run("SET lock_timeout = '1 s'");
			try
			{
				(void) connection.take_doubt();
				Rows rows = connection.run(
					"INSERT INTO torture.tx AS t (id, client) VALUES ($1, false) ON CONFLICT (id) "
					"DO UPDATE SET asked = t.asked + 1 RETURNING client",
					{number(tx->id)});
				(void) connection.run("RESET lock_timeout");
				if (connection.take_doubt())
					continue;
				if (rows.text(0, 0) == "t")
				{
					world.ledger.committed(tx, server);
					world.counters.resolved_committed++;
				}
				else
				{
					world.ledger.aborted(tx, server);
					world.counters.resolved_aborted++;
				}
				return;
			}
			catch (const SqlError &error)
			{
				world.counters.error(error.state);
				if (error.state != "55P03" && error.state != "57014")
					throw;
				if (is_prepared(tx))
				{
					world.ledger.prepared(tx);
					world.prepared.put(tx);
					return;
				}
			}
		}
		catch (const Broken &)
		{}
	throw Hung{"resolve"};
}

void
Session::ended(const TxRef &tx)
{
	if (connection.take_doubt())
		resolve(tx);
	else
		world.ledger.committed(tx);
}

/* ---- statements of their own ---- */

void
Session::enqueue(const std::string &queue, const JobSpec &job)
{
	TxRef tx = world.ledger.begin(connection.epoch());
	Key key = world.ledger.enqueuing(tx, queue, job.priority, job.delay, job.expires_in);
	world.ledger.ending(tx);
	try
	{
		Rows rows = connection.run(
			"WITH mark AS (INSERT INTO torture.tx VALUES ($1)) "
			"SELECT pgq_enqueue($2, $3, $4, delay => $5, max_attempts => $6, "
			"headers => $7, group_key => $8, expires_in => $9)",
			{number(tx->id), queue, number(key), number(job.priority), milliseconds(job.delay),
			 max_attempts(key), headers(key), group_key(queue, key), expires_in(job)});
		world.ledger.enqueued(key, rows.number(0, 0));
		world.counters.enqueued++;
		ended(tx);
	}
	catch (const Broken &)
	{
		resolve(tx);
		throw;
	}
	catch (const SqlError &)
	{
		world.ledger.aborted(tx);
		throw;
	}
}

static std::string
array_of(const std::vector<Held> &held, int64_t Held::*member)
{
	std::string array = "{";
	for (const Held &h : held)
		array += (array.size() > 1 ? "," : "") + number(h.*member);
	return array + "}";
}

std::string
array_of(const std::vector<std::string> &names)
{
	std::string array;
	for (const std::string &name : names)
		array += (array.empty() ? "{" : ",") + name;
	return array + "}";
}

std::string
job_ids(const std::vector<Held> &held)
{
	return array_of(held, &Held::job_id);
}

std::string
tokens(const std::vector<Held> &held)
{
	return array_of(held, &Held::token);
}

std::vector<Held>
Session::claim(const ClaimSpec &spec)
{
	return claim(spec, nullptr);
}

std::vector<Held>
Session::claim(const ClaimSpec &spec, const TxRef &tx)
{
	/* For a session-bound lease, only the server knows how long it lasts. */
	ClaimCall call = world.ledger.claiming(connection.epoch(), spec.queues,
										   spec.session_bound ? 0 : spec.lease_time);
	std::vector<Parameter> parameters = {number(spec.max_jobs), milliseconds(spec.wait),
										 milliseconds(spec.lease_time)};
	std::string bound = spec.session_bound ? ", session_bound => true)" : ")";
	std::string function = "pgq_claim($4, $1, $2, $3" + bound;
	if (spec.queues.size() == 1)
		parameters.push_back(spec.queues[0]);
	else
	{
		parameters.push_back(array_of(spec.queues));
		function = "pgq_claim_any($4, $1, $2, $3" + bound;
	}
	if (spec.acked != nullptr)
	{
		parameters = {job_ids(*spec.acked), tokens(*spec.acked), spec.queues[0],
					  number(spec.max_jobs), milliseconds(spec.lease_time)};
		function = "pgq_ack_claim($1, $2, $3, $4, $5)";
	}
	std::vector<ClaimedRow> claimed;
	try
	{
		Rows rows = connection.run(kClaimed + function, parameters);
		for (int i = 0; i < rows.size(); i++)
		{
			claimed.push_back({.held = {.key = rows.number(i, 0),
										.job_id = rows.number(i, 1),
										.token = rows.number(i, 2),
										.attempt = static_cast<int>(rows.number(i, 3)),
										.max_attempts = static_cast<int>(rows.number(i, 4)),
										.bound = spec.session_bound},
							   .priority = static_cast<int>(rows.number(i, 5)),
							   .queue = rows.text(i, 6)});
			Key key = rows.number(i, 0);
			if ((rows.is_null(i, 7) ? Parameter{} : rows.text(i, 7)) != headers(key))
				world.ledger.violation("handed out with other headers", key);
			if (rows.text(i, 4) != max_attempts(key).value_or(max_attempts_in(rows.text(i, 6))))
				world.ledger.violation("handed out with max_attempts " + rows.text(i, 4), key);
		}
	}
	catch (const SqlError &error)
	{
		bool refused = error.state == "53400";
		refused ? world.ledger.claim_refused(call) : world.ledger.claim_failed(call, false);
		world.counters.refused += refused;
		throw;
	}
	catch (...)
	{
		world.ledger.claim_failed(call);
		throw;
	}
	/* Note the acks first, since the claimed jobs may use their slots. */
	if (spec.acked != nullptr)
		for (const Held &h : *spec.acked)
			world.ledger.accepted(tx, h, Deed::kAck, call.sent);
	/*
	 * pgq_ack_claim does not say why it returns no job: no lease may be left, or too many jobs may
	 * be locked.
	 */
	if (spec.acked != nullptr && claimed.empty())
	{
		world.ledger.claim_failed(call, false);
		return {};
	}
	world.ledger.claimed(call, tx, claimed);
	world.counters.claims += static_cast<long>(claimed.size());
	std::vector<Held> held;
	for (const ClaimedRow &row : claimed)
	{
		held.push_back(row.held);
		world.counters.grouped += group_of(row.queue, row.held.key) != 0;
	}
	return held;
}

int64_t
Session::moved_rows()
{
	Rows rows =
		connection.run("SELECT coalesce(sum(truncations), 0), coalesce(sum(moved_out), 0) FROM "
					   "pgq_ext.segment_entries()");
	int64_t moved = rows.number(0, 1);
	world.counters.rotated(connection.epoch(), rows.number(0, 0), moved);
	return moved;
}

bool
Session::is_moving()
{
	return connection.run("SELECT 1 FROM pgq_ext.lease_entries() WHERE state = 'moving'").size() >
		   0;
}

void
Session::ack(const Held &held)
{
	TxRef tx = world.ledger.begin(connection.epoch());
	world.ledger.intend(tx, held, Deed::kAck);
	world.ledger.ending(tx);
	Time sent = now();
	try
	{
		(void) connection.run("WITH mark AS (INSERT INTO torture.tx VALUES ($1)) "
							  "SELECT pgq_ack($2, $3)",
							  {number(tx->id), number(held.job_id), number(held.token)});
		world.ledger.accepted(tx, held, Deed::kAck, sent);
		world.counters.acks++;
		ended(tx);
	}
	catch (const Broken &)
	{
		resolve(tx);
		throw;
	}
	catch (const SqlError &error)
	{
		if (error.state == "PQ001")
			world.ledger.refused(tx, held, tx->epoch);
		world.ledger.aborted(tx);
		throw;
	}
}

bool
Session::extend(const Held &held, Time lease_time, const TxRef &tx)
{
	Time sent = now();
	Rows rows = connection.run("SELECT pgq_extend($1, $2, $3)",
							   {number(held.job_id), number(held.token), milliseconds(lease_time)});
	if (rows.is_null(0, 0))
	{
		world.ledger.refused(tx, held, connection.epoch());
		world.counters.stale++;
		return false;
	}
	world.ledger.extended(held, connection.epoch(), sent, held.bound ? 0 : lease_time);
	world.counters.extends++;
	return true;
}

} // namespace torture
