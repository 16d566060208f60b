#include "session.h"

#include <set>

namespace torture {

static const char kClaimed[] = "SELECT payload, job_id, lease, attempt, max_attempts, priority, "
							   "queue FROM ";

static std::string
milliseconds(Time time)
{
	return std::to_string(time / kMillisecond) + " ms";
}

static std::string
number(int64_t n)
{
	return std::to_string(n);
}

static Parameter
max_attempts(const JobSpec &job)
{
	return job.max_attempts == 0 ? Parameter{} : number(job.max_attempts);
}

std::string
gid(const TxRef &tx)
{
	return "torture_" + number(tx->id);
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

void
Session::judge(const SqlError &error, bool temporary_queue)
{
	static const std::set<std::string> legitimate = {
		"PQ001", /* a stale ack */
		"57014", /* cancelled by the killer, or by statement_timeout */
		"53400", /* pgq_ext.max_leases is small */
		"55P03", /* lock_timeout; a prepared transaction has locked too many jobs */
		"40P01", /* the administrator locks rows that workers want in another order; late acks, too */
	};
	world.counters.error(error.state);
	bool dropped = temporary_queue && error.state == "42704";
	if (!legitimate.contains(error.state) && !dropped)
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
	} catch (const Broken &)
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
			} catch (const SqlError &error)
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
		} catch (const Broken &)
		{}
	throw Hung{"resolve"};
}

/* The end was confirmed, but perhaps not by the standby: then it is not known. */
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
	Key key = world.ledger.enqueuing(tx, queue, job.priority, job.delay);
	world.ledger.ending(tx);
	try
	{
		Rows rows =
			connection.run("WITH mark AS (INSERT INTO torture.tx VALUES ($1)) "
						   "SELECT pgq_enqueue($2, $3, $4, delay => $5, max_attempts => $6)",
						   {number(tx->id), queue, number(key), number(job.priority),
							milliseconds(job.delay), max_attempts(job)});
		world.ledger.enqueued(key, rows.number(0, 0));
		world.counters.enqueued++;
		ended(tx);
	} catch (const Broken &)
	{
		resolve(tx);
		throw;
	} catch (const SqlError &)
	{
		world.ledger.aborted(tx);
		throw;
	}
}

std::vector<Held>
Session::claim(const ClaimSpec &spec)
{
	return claim(spec, nullptr);
}

std::vector<Held>
Session::claim(const ClaimSpec &spec, const TxRef &tx)
{
	ClaimCall call = world.ledger.claiming(connection.epoch(), spec.queues, spec.lease_time);
	std::vector<Parameter> parameters = {number(spec.max_jobs), milliseconds(spec.wait),
										 milliseconds(spec.lease_time)};
	std::string function = "pgq_claim($4, $1, $2, $3)";
	if (spec.queues.size() == 1)
		parameters.push_back(spec.queues[0]);
	else
	{
		std::string array;
		for (const std::string &queue : spec.queues)
			array += (array.empty() ? "{" : ",") + queue;
		parameters.push_back(array + "}");
		function = "pgq_claim_any($4, $1, $2, $3)";
	}
	std::vector<ClaimedRow> claimed;
	try
	{
		Rows rows = connection.run(kClaimed + function, parameters);
		for (int i = 0; i < rows.size(); i++)
			claimed.push_back({.held = {.key = rows.number(i, 0),
										.job_id = rows.number(i, 1),
										.token = rows.number(i, 2),
										.attempt = static_cast<int>(rows.number(i, 3)),
										.max_attempts = static_cast<int>(rows.number(i, 4))},
							   .priority = static_cast<int>(rows.number(i, 5)),
							   .queue = rows.text(i, 6)});
	} catch (...)
	{
		world.ledger.claim_failed(call);
		throw;
	}
	world.ledger.claimed(call, tx, claimed);
	world.counters.claims += static_cast<long>(claimed.size());
	std::vector<Held> held;
	for (const ClaimedRow &row : claimed)
		held.push_back(row.held);
	return held;
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
	} catch (const Broken &)
	{
		resolve(tx);
		throw;
	} catch (const SqlError &error)
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
	world.ledger.extending(held, sent, lease_time);
	Rows rows = connection.run("SELECT pgq_extend($1, $2, $3)",
							   {number(held.job_id), number(held.token), milliseconds(lease_time)});
	if (rows.is_null(0, 0))
	{
		world.ledger.refused(tx, held, connection.epoch());
		world.counters.stale++;
		return false;
	}
	world.ledger.extended(held, connection.epoch(), sent, lease_time);
	world.counters.extends++;
	return true;
}

/* ---- transactions ---- */

Transaction::Transaction(Session &session, const char *isolation) : session(session)
{
	(void) session.connection.run(std::string("BEGIN ISOLATION LEVEL ") + isolation);
	ref = session.world.ledger.begin(session.connection.epoch());
}

Transaction::~Transaction()
{
	if (!open)
		return;
	try
	{
		roll_back();
	} catch (const Broken &)
	{
	} catch (const SqlError &)
	{
		session.connection.close(); /* cancelled: that rolls back, too */
	}
}

Rows
Transaction::run(const std::string &sql, const std::vector<Parameter> &parameters)
{
	return session.connection.run(sql, parameters);
}

void
Transaction::mark()
{
	if (marked)
		return;
	(void) run("INSERT INTO torture.tx VALUES ($1)", {number(ref->id)});
	marked = true;
}

void
Transaction::enqueue(const std::string &queue, const JobSpec &job)
{
	mark();
	Key key = session.world.ledger.enqueuing(ref, queue, job.priority, job.delay);
	Rows rows =
		run("SELECT pgq_enqueue($1, $2, $3, delay => $4, max_attempts => $5)",
			{queue, number(key), number(job.priority), milliseconds(job.delay), max_attempts(job)});
	session.world.ledger.enqueued(key, rows.number(0, 0));
	session.world.counters.enqueued++;
}

void
Transaction::enqueue_many(const std::string &queue, const std::vector<JobSpec> &jobs)
{
	mark();
	std::string array;
	std::vector<Key> keys;
	for (const JobSpec &job : jobs)
	{
		keys.push_back(session.world.ledger.enqueuing(ref, queue, job.priority, job.delay));
		array += (array.empty() ? "[" : ",") + std::string("{\"payload\":") + number(keys.back()) +
				 ",\"priority\":" + number(job.priority) + ",\"delay\":\"" +
				 milliseconds(job.delay) + "\"";
		if (job.max_attempts > 0)
			array += ",\"max_attempts\":" + number(job.max_attempts);
		array += "}";
	}
	Rows rows = run("SELECT pgq_enqueue_many($1, $2)", {queue, array + "]"});
	for (int i = 0; i < rows.size(); i++)
		session.world.ledger.enqueued(keys[static_cast<size_t>(i)], rows.number(i, 0));
	session.world.counters.enqueued += rows.size();
}

std::vector<Held>
Transaction::claim(const ClaimSpec &spec)
{
	return session.claim(spec, ref);
}

void
Transaction::ack(const Held &held)
{
	mark();
	Time sent = now();
	try
	{
		(void) run("SELECT pgq_ack($1, $2)", {number(held.job_id), number(held.token)});
	} catch (const SqlError &error)
	{
		if (error.state == "PQ001")
			session.world.ledger.refused(ref, held, ref->epoch);
		throw;
	}
	session.world.ledger.accepted(ref, held, Deed::kAck, sent);
	session.world.counters.acks++;
}

size_t
Transaction::ack_many(const std::vector<Held> &held)
{
	mark();
	std::string ids;
	std::string tokens;
	for (const Held &h : held)
	{
		ids += (ids.empty() ? "{" : ",") + number(h.job_id);
		tokens += (tokens.empty() ? "{" : ",") + number(h.token);
	}
	Time sent = now();
	Rows rows = run("SELECT pgq_ack_many($1, $2)", {ids + "}", tokens + "}"});
	std::set<int64_t> done;
	for (int i = 0; i < rows.size(); i++)
		done.insert(rows.number(i, 0));
	for (const Held &h : held)
		if (done.contains(h.job_id))
			session.world.ledger.accepted(ref, h, Deed::kAck, sent);
		else
			session.world.ledger.refused(ref, h, ref->epoch);
	session.world.counters.acks += static_cast<long>(done.size());
	session.world.counters.stale += static_cast<long>(held.size() - done.size());
	return done.size();
}

std::string
Transaction::fail(const Held &held, std::optional<Time> retry_in, bool retry)
{
	mark();
	Time sent = now();
	Rows rows = run("SELECT pgq_fail($1, $2, 'no luck', $3, $4)",
					{number(held.job_id), number(held.token),
					 retry_in ? Parameter{milliseconds(*retry_in)} : Parameter{},
					 retry ? "true" : "false"});
	std::string answer = rows.text(0, 0);
	if (answer == "stale")
	{
		session.world.ledger.refused(ref, held, ref->epoch);
		session.world.counters.stale++;
		return answer;
	}
	Deed deed = answer == "dead" ? Deed::kBury : Deed::kRetry;
	session.world.ledger.accepted(ref, held, deed, sent, sent + retry_in.value_or(0));
	if (deed == Deed::kBury && retry && held.attempt < held.max_attempts)
		session.world.ledger.violation("buried before its last attempt", held.key);
	session.world.counters.fails++;
	return answer;
}

/* ---- savepoints ---- */

void
Transaction::savepoint()
{
	(void) run("SAVEPOINT s" + number(ref->level + 1));
	session.world.ledger.savepoint(ref);
}

void
Transaction::release_savepoint()
{
	(void) run("RELEASE SAVEPOINT s" + number(ref->level));
	session.world.ledger.release_savepoint(ref);
}

void
Transaction::roll_back_to_savepoint()
{
	std::string name = "s" + number(ref->level);
	(void) run("ROLLBACK TO SAVEPOINT " + name);
	session.world.ledger.rolled_back_to_savepoint(ref);
	(void) run("RELEASE SAVEPOINT " + name);
}

/* ---- the end ---- */

void
Transaction::commit()
{
	/* What only claims leaves no trace: if its end is not known, so be it. */
	open = false;
	session.world.ledger.ending(ref);
	try
	{
		Rows rows = run("COMMIT");
		if (rows.tag() != "COMMIT")
			session.world.ledger.aborted(ref);
		else if (marked)
			session.ended(ref);
		else
			session.world.ledger.committed(ref);
	} catch (const Broken &)
	{
		if (marked)
			session.resolve(ref);
		else
			session.world.ledger.aborted(ref);
		throw;
	} catch (const SqlError &)
	{
		session.world.ledger.aborted(ref);
		throw;
	}
}

void
Transaction::roll_back()
{
	open = false;
	session.world.ledger.aborted(ref);
	(void) run("ROLLBACK");
}

void
Transaction::prepare()
{
	mark();
	open = false;
	session.world.ledger.ending(ref);
	session.world.counters.prepared++;
	try
	{
		(void) run("PREPARE TRANSACTION '" + gid(ref) + "'");
		if (session.connection.take_doubt())
			session.resolve(ref);
		else
		{
			session.world.ledger.prepared(ref);
			session.world.prepared.put(ref);
		}
	} catch (const Broken &)
	{
		session.resolve(ref);
		throw;
	} catch (const SqlError &)
	{
		session.world.ledger.aborted(ref);
		throw;
	}
}

} // namespace torture
