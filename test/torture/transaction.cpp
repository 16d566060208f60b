#include "transaction.h"

#include <algorithm>
#include <set>

namespace torture {

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
	}
	catch (const Broken &)
	{}
	catch (const SqlError &)
	{
		/* closing also rolls back a transaction whose ROLLBACK was cancelled */
		session.connection.close();
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
	marked_level = ref->level;
}

void
Transaction::enqueue(const std::string &queue, const JobSpec &job)
{
	mark();
	Key key = session.world.ledger.enqueuing(ref, queue, job.priority, job.delay, job.expires_in);
	Rows rows =
		run("SELECT pgq_enqueue($1, $2, $3, delay => $4, max_attempts => $5, headers => $6, "
			"group_key => $7, expires_in => $8)",
			{queue, number(key), number(job.priority), milliseconds(job.delay), max_attempts(key),
			 headers(key), group_key(queue, key), expires_in(job)});
	session.world.ledger.enqueued(key, rows.number(0, 0));
	session.world.counters.enqueued++;
}

bool
Transaction::enqueue_keyed(const JobSpec &job, bool or_error)
{
	mark();
	Ledger &ledger = session.world.ledger;
	if (or_error)
		savepoint();
	Key key = ledger.enqueuing(ref, kKeyedQueue, job.priority, job.delay);
	bool ours = false;
	try
	{
		Rows rows = run("SELECT pgq_enqueue($1, $2, $3, delay => $4, unique_key => $5, "
						"on_conflict => $6, headers => $7, max_attempts => $8)",
						{kKeyedQueue, number(key), number(job.priority), milliseconds(job.delay),
						 "owner " + number(owner_of(kKeyedQueue, key)), or_error ? "error" : "keep",
						 headers(key), max_attempts(key)});
		Rows found = run("SELECT payload FROM pgq_ext.job WHERE job_id = $1", {rows.text(0, 0)});
		ours = found.size() > 0 && found.number(0, 0) == key;
		if (ours)
			ledger.enqueued(key, rows.number(0, 0));
		if (or_error && !ours)
			ledger.violation("not enqueued, and no error", key);
		if (or_error)
			release_savepoint();
	}
	catch (const SqlError &error)
	{
		if (!or_error || error.state != "23505")
			throw;
		roll_back_to_savepoint();
	}
	if (ours)
		session.world.counters.enqueued++;
	else
	{
		ledger.met(ref, key);
		session.world.counters.met++;
	}
	return ours;
}

void
Transaction::enqueue_many(const std::string &queue, const std::vector<JobSpec> &jobs)
{
	mark();
	std::string array;
	std::vector<Key> keys;
	for (const JobSpec &job : jobs)
	{
		keys.push_back(
			session.world.ledger.enqueuing(ref, queue, job.priority, job.delay, job.expires_in));
		array += (array.empty() ? "[" : ",") + std::string("{\"payload\":") + number(keys.back()) +
				 ",\"priority\":" + number(job.priority) + ",\"delay\":\"" +
				 milliseconds(job.delay) + "\"";
		if (Parameter expires = expires_in(job))
			array += ",\"expires_in\":\"" + *expires + "\"";
		if (Parameter attempts = max_attempts(keys.back()))
			array += ",\"max_attempts\":" + *attempts;
		if (Parameter headers_of_job = headers(keys.back()))
			array += ",\"headers\":" + *headers_of_job;
		if (Parameter group = group_key(queue, keys.back()))
			array += ",\"group_key\":\"" + *group + "\"";
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
Transaction::use(const Held &held, const std::string &call, const std::vector<Parameter> &more)
{
	mark();
	std::vector<Parameter> parameters = {number(held.job_id), number(held.token)};
	parameters.insert(parameters.end(), more.begin(), more.end());
	try
	{
		(void) run("SELECT " + call, parameters);
	}
	catch (const SqlError &error)
	{
		if (error.state == "PQ001")
			session.world.ledger.refused(ref, held, ref->epoch);
		throw;
	}
}

void
Transaction::ack(const Held &held)
{
	Time sent = now();
	use(held, "pgq_ack($1, $2)");
	session.world.ledger.accepted(ref, held, Deed::kAck, sent);
	session.world.counters.acks++;
}

void
Transaction::assert_lease(const Held &held)
{
	use(held, "pgq_assert_lease($1, $2)");
}

void
Transaction::note_progress(const Held &held)
{
	use(held, "pgq_progress($1, $2, $3)", {number(held.key)});
}

bool
Transaction::release(const Held &held, Time delay)
{
	mark();
	Time sent = now();
	Time wall_sent = wall();
	Rows rows = run("SELECT pgq_release($1, $2, $3)",
					{number(held.job_id), number(held.token), milliseconds(delay)});
	if (rows.text(0, 0) != "t")
	{
		session.world.ledger.refused(ref, held, ref->epoch);
		session.world.counters.stale++;
		return false;
	}
	/* With no delay the job keeps its run_at, which may be in the past. */
	session.world.ledger.accepted(ref, held, Deed::kRelease, sent,
								  delay > 0 ? wall_sent + delay : 0);
	return true;
}

size_t
Transaction::ack_many(const std::vector<Held> &held)
{
	mark();
	Time sent = now();
	Rows rows = run("SELECT pgq_ack_many($1, $2)", {job_ids(held), tokens(held)});
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

std::vector<Held>
Transaction::ack_claim(const std::vector<Held> &held, ClaimSpec spec)
{
	mark();
	spec.acked = &held;
	std::vector<Held> next = claim(spec);
	session.world.counters.acks += static_cast<long>(held.size());
	return next;
}

std::string
Transaction::fail(const Held &held, std::optional<Time> retry_in, bool retry)
{
	mark();
	Time sent = now();
	Time wall_sent = wall();
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
	session.world.ledger.accepted(ref, held, deed, sent, wall_sent + retry_in.value_or(0));
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
	marked_level = std::min(marked_level, ref->level);
}

void
Transaction::roll_back_to_savepoint()
{
	std::string name = "s" + number(ref->level);
	(void) run("ROLLBACK TO SAVEPOINT " + name);
	session.world.ledger.rolled_back_to_savepoint(ref);
	marked = marked && marked_level <= ref->level;
	(void) run("RELEASE SAVEPOINT " + name);
}

/* ---- the end ---- */

void
Transaction::commit()
{
	/*
	 * A transaction that only claims has no row in torture.tx, so its end cannot be found out if it
	 * is not confirmed.
	 */
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
	}
	catch (const Broken &)
	{
		if (marked)
			session.resolve(ref);
		else
			session.world.ledger.aborted(ref);
		throw;
	}
	catch (const SqlError &)
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
	}
	catch (const Broken &)
	{
		session.resolve(ref);
		throw;
	}
	catch (const SqlError &)
	{
		session.world.ledger.aborted(ref);
		throw;
	}
}

} // namespace torture
