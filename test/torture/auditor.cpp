#include "auditor.h"

#include "batcher.h"
#include "coordinator.h"
#include "dispatcher.h"
#include "grapher.h"

#include <algorithm>

namespace torture {

/* The smallest pgq_ext.max_leases in this test, and the most jobs in one claim. */
static constexpr int kLeastLeases = 16;
static constexpr int kBatch = 10;

Auditor::Auditor(World &world) : world(world), random(world.seed, "auditor"), session(world)
{}

void
Auditor::prepare()
{
	session.connect();
	(void) session.connection.run("CREATE SCHEMA torture");
	(void) session.connection.run(
		"CREATE TABLE torture.tx (id bigint PRIMARY KEY, client boolean NOT NULL DEFAULT true, "
		"asked integer NOT NULL DEFAULT 0)");
	(void) session.connection.run("INSERT INTO torture.tx VALUES (0)");
	std::vector<std::string> queues = kQueues;
	queues.push_back(kSlowQueue);
	queues.push_back(kTurnsQueue);
	for (const std::string &queue : queues)
	{
		const GroupQueue *grouped = group_queue(queue);
		GroupRules rules = grouped != nullptr ? grouped->rules : GroupRules{};
		(void) session.connection.run(
			"SELECT pgq_create_queue($1, backoff_base => '100 ms', backoff_max => '1 s', "
			"max_attempts => $2, notify => $3, group_concurrency => $4, fifo => $5, fair => $6)",
			{queue, max_attempts_in(queue), queue == "quiet" ? "false" : "true",
			 number(rules.concurrency), rules.fifo ? "true" : "false",
			 rules.fair ? "true" : "false"});
		if (rules.rate > 0)
			(void) session.connection.run(
				"SELECT pgq_alter_queue($1, group_rate_limit => $2, rate_period => $3)",
				{queue, number(rules.rate), milliseconds(kRatePeriod)});
	}
	TxRef limited = world.ledger.begin(session.connection.epoch());
	world.ledger.limiting(limited, kFirstLimit);
	(void) session.connection.run("SELECT pgq_alter_queue($1, concurrency => $2)",
								  {kLimitedQueue, number(kFirstLimit)});
	world.ledger.committed(limited);
	(void) session.connection.run("SELECT pgq_alter_queue($1, rate_limit => $2, rate_period => $3)",
								  {kRatedQueue, number(kRate), milliseconds(kRatePeriod)});
	for (const std::string &queue : {kPurgedQueue, kOrderedQueue})
		(void) session.connection.run(
			"SELECT pgq_create_queue($1, backoff_max => '1 s', max_attempts => $2)",
			{queue, max_attempts_in(queue)});
	prepare_coordination(session);
	prepare_handlers(session);
	prepare_batches(session);
	prepare_graphs(session);
}

/*
 * Repeat the step until it succeeds. There are no kills at this time, but the server may still be
 * recovering.
 */
template <typename Step>
void
Auditor::insist(const char *what, Step step)
{
	for (Time end = now() + kPatience; now() < end;)
		try
		{
			session.connect_if_broken();
			step();
			return;
		}
		catch (const Broken &)
		{}
	throw Hung{what};
}

void
Auditor::prepare_after_update()
{
	insist("handlers", [&] { prepare_handlers(session); });
	/* Prepares batches and graphs, with all tables locked. */
	quiet_point(true);
}

void
Auditor::end_all_prepared()
{
	TxRef tx;
	while (world.prepared.take(&tx))
		end_prepared(session, tx, random.chance(70));
}

/* ---- doing all that is left ---- */

/* Claim and acknowledge jobs. Returns false if the claim has returned none. */
bool
Auditor::do_some(const std::vector<std::string> &queues, std::vector<Key> *done, int most)
{
	Transaction tx(session);
	std::vector<Held> held = tx.claim({.queues = queues,
									   .max_jobs = most,
									   .wait = done == nullptr ? kSecond : 0,
									   .lease_time = 60 * kSecond});
	if (held.empty())
	{
		tx.roll_back();
		return false;
	}
	(void) tx.ack_many(held);
	tx.commit();
	if (done != nullptr)
		for (const Held &h : held)
			done->push_back(h.key);
	return true;
}

/*
 * Claim all jobs until none is left. Each must come by itself: leases expire, backoffs end, windows
 * are refilled.
 */
void
Auditor::do_all_jobs()
{
	std::vector<std::string> queues = kQueues;
	queues.push_back(kPurgedQueue);
	queues.push_back(kOrderedQueue);
	queues.push_back(kSlowQueue);
	queues.push_back(kTurnsQueue);
	Time end = now() + kPatience;
	while (now() < end && world.ledger.violations() == 0)
	{
		std::set<Key> left;
		for (const std::string &queue : queues)
			left.merge(world.ledger.awaited_in(queue));
		if (left.empty())
			return;
		try
		{
			if (do_some(queues, nullptr, kBatch))
				end = now() + kPatience;
			else
				/* the lost attempt of a job may have been its last one, so that the job has died */
				compare();
		}
		catch (const SqlError &error)
		{
			session.judge(error, false);
			nap(50 * kMillisecond);
		}
	}
	if (world.ledger.violations() > 0)
		return;
	for (const std::string &queue : queues)
		for (Key key : world.ledger.awaited_in(queue))
			world.ledger.violation("waits for ever", key);
}

/*
 * Make jobs due by SQL that are delayed for minutes, since the test does not wait that long. In
 * times without delays there are none.
 */
void
Auditor::hasten()
{
	/* A prepared transaction may have the row of a blocked job, whose run_at is in the year 9999. */
	static const std::string far =
		"run_at BETWEEN clock_timestamp() + '2 s' AND clock_timestamp() + '1 year'";
	for (bool done = false; !done;)
	{
		std::vector<Key> keys;
		Rows rows = session.connection.run("SELECT payload FROM pgq_ext.job WHERE " + far);
		for (int i = 0; i < rows.size(); i++)
			keys.push_back(rows.number(i, 0));
		world.ledger.touched(keys);
		try
		{
			(void) session.connection.run("UPDATE pgq_ext.job SET run_at = clock_timestamp() "
										  "WHERE " +
										  far);
			done = true;
		}
		catch (const SqlError &error)
		{
			if (!is_moved_row(error))
				throw;
			world.counters.error(error.state);
		}
	}
}

/* ---- order ---- */

void
Auditor::wait_while(const std::string &query)
{
	for (Time end = now() + kPatience; session.connection.run(query).size() > 0;)
	{
		if (now() > end)
			throw Hung{"while there is a row in " + query};
		nap(20 * kMillisecond);
	}
}

static const std::string kLeases = "SELECT state FROM pgq_ext.lease_entries()";

/* Make claims fail half way, by lock_timeout: afterwards all jobs must be available as before. */
void
Auditor::break_off_claims()
{
	Session other(world);
	other.connect();
	Transaction ddl(other);
	(void) ddl.run("LOCK TABLE pgq_ext.job IN ACCESS EXCLUSIVE MODE");
	(void) session.connection.run("SET lock_timeout = '20 ms'");
	for (int i = random.between(1, 3); i > 0; i--)
		try
		{
			/*
			 * A claim may return nothing if all ready jobs were set aside after the first failure.
			 */
			if (!session.claim({.queues = {kOrderedQueue}, .max_jobs = random.between(2, kBatch)})
					 .empty())
				world.ledger.violation("a claim was not stopped by a lock on the table of jobs");
		}
		catch (const SqlError &error)
		{
			session.judge(error, false);
		}
	(void) session.connection.run("RESET lock_timeout");
	ddl.roll_back();
	/* Wait until the job that the last claim was about to look at is not set aside any more. */
	wait_while(kLeases);
}

void
Auditor::check_order()
{
	/* Jobs whose rows are just being moved are handed out a moment later, so out of order. */
	int64_t moved_before = session.moved_rows();
	auto moves = [&] { return session.is_moving() || session.moved_rows() != moved_before; };
	/* Other leases could leave a claim too few of them. Lost leases stay until a scheduler ends them. */
	if (world.cluster.has_scheduler())
		wait_while(kLeases);
	else if (session.connection.run(kLeases).size() > kLeastLeases - kBatch)
		return;
	for (int part = random.between(1, 4); part > 0; part--)
	{
		Transaction tx(session);
		std::vector<JobSpec> jobs;
		for (int i = random.between(1, 30); i > 0; i--)
			jobs.push_back(
				{.priority = random.between(-1, 1),
				 .delay = random.chance(30) ? random.between(1, 200) * kMillisecond : 0});
		tx.enqueue_many(kOrderedQueue, jobs);
		tx.commit();
	}
	const std::string rows =
		" FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = '" + kOrderedQueue +
		"'";
	wait_while("SELECT 1" + rows + " AND run_at > clock_timestamp()");
	std::vector<Key> expected;
	Rows sorted =
		session.connection.run("SELECT payload" + rows + " ORDER BY priority DESC, run_at, job_id");
	for (int i = 0; i < sorted.size(); i++)
		expected.push_back(sorted.number(i, 0));

	std::vector<Key> done;
	Time end = now() + kPatience;
	while (done.size() < expected.size())
	{
		/* Without a scheduler nothing but claims files the jobs again that were set aside. */
		if (random.chance(20) && world.cluster.has_scheduler())
			break_off_claims();
		size_t before = done.size();
		int most = random.between(1, kBatch);
		(void) do_some({kOrderedQueue}, &done, most);
		size_t wanted = std::min(before + static_cast<size_t>(most), expected.size());
		if (done.size() != wanted && moves() && now() < end)
			continue;
		if (done.size() != wanted)
		{
			world.ledger.violation("a claim of " + std::to_string(most) + " gave " +
								   std::to_string(done.size() - before) + " of " +
								   std::to_string(expected.size() - before) + " ready jobs; " +
								   number(session.connection.run(kLeases).size()) +
								   " leases are left");
			return;
		}
	}
	auto differs = std::mismatch(expected.begin(), expected.end(), done.begin());
	if (differs.first != expected.end() && !moves())
		world.ledger.violation("out of order: place " +
								   std::to_string(differs.first - expected.begin()) + " is key " +
								   std::to_string(*differs.first),
							   *differs.second);
}

/*
 * Check the turns of groups, while no other actor works. All jobs are ready before the first claim,
 * so the turns are known exactly. Where groups have limits, each claim takes one job, since a claim
 * passes over the groups of jobs that it has taken. With fifo, one job of each group is ready, so
 * all jobs have the same priority. The first claim lets the server forget jobs that have been
 * deleted. While jobs that have expired are left, each claim takes one job: in a claim of several
 * jobs they may use up turns.
 */
void
Auditor::check_turns(const std::string &queue)
{
	static constexpr size_t kMostExpired = 8; /* see "fair" in docs/reference.md */
	std::vector<Key> done;
	(void) do_some({queue}, &done, 1);
	int64_t moved_before = session.moved_rows();
	int priorities = queue == kHeadsQueue ? 1 : random.between(1, 3);
	std::set<Key> others = world.ledger.live_in(queue); /* jobs that have expired, if any */
	bool limited = queue != kTurnsQueue || !others.empty();
	for (int part = random.between(1, 3); part > 0; part--)
	{
		Transaction tx(session);
		std::vector<JobSpec> jobs;
		for (int i = random.between(1, limited ? 15 : 40); i > 0; i--)
			jobs.push_back({.priority = random.between(1, priorities)});
		tx.enqueue_many(queue, jobs);
		tx.commit();
	}
	std::map<Key, int> priority_of;
	Rows rows = session.connection.run("SELECT payload, priority FROM pgq_ext.job JOIN "
									   "pgq_ext.queue USING (queue_id) WHERE queue = $1",
									   {queue});
	for (int i = 0; i < rows.size(); i++)
		if (!others.contains(rows.number(i, 0)))
			priority_of[rows.number(i, 0)] = static_cast<int>(rows.number(i, 1));
	done.clear();
	for (Time end = now() + kPatience; done.size() < priority_of.size();)
		if (!do_some({queue}, &done, limited ? 1 : random.between(1, kBatch)) && now() > end)
		{
			world.ledger.violation("claims of " + queue + " gave " + std::to_string(done.size()) +
								   " of " + std::to_string(priority_of.size()) + " ready jobs");
			return;
		}
	bool other =
		std::any_of(done.begin(), done.end(), [&](Key key) { return others.contains(key); });
	/* While rows are being moved, groups are passed over. */
	if (other || others.size() > kMostExpired || session.is_moving() ||
		session.moved_rows() != moved_before)
		return;
	std::map<int, std::vector<int>> turns;
	for (Key key : done)
		turns[priority_of[key]].push_back(group_of(queue, key));
	for (const auto &[priority, groups] : turns)
		if (std::string fault = unfair_turn(groups); !fault.empty())
			world.ledger.violation("turns of " + queue + " at priority " + number(priority) + ": " +
								   fault);
	world.counters.turn_checks++;
}

/* ---- the tables ---- */

void
Auditor::compare()
{
	/*
	 * Read both tables by one statement: a job that dies during it is in one of the two tables, and
	 * a row that is moved is in one segment.
	 */
	Rows rows = session.connection.run(
		"SELECT 'job', payload, tableoid::regclass::text, 'pgq_ext.job_' || segment, NULL "
		"FROM pgq_ext.job UNION ALL "
		"SELECT 'dead', d.payload, d.attempts::text, "
		"coalesce(d.max_attempts, q.max_attempts)::text, reason "
		"FROM pgq_ext.dead_job d LEFT JOIN pgq_ext.queue q USING (queue_id) UNION ALL "
		"SELECT 'segment', NULL, live_rows::text, relation::text, state FROM pgq_ext.segment "
		"WHERE parent IN ('pgq_ext.job'::regclass, 'pgq_ext.dead_job'::regclass)");
	std::set<Key> jobs;
	std::map<Key, Ledger::DeadRow> dead;
	int64_t live_rows = 0;
	size_t others = 0;
	for (int i = 0; i < rows.size(); i++)
	{
		std::string kind = rows.text(i, 0);
		if (kind == "segment")
		{
			live_rows += rows.number(i, 2);
			if (rows.text(i, 4) == "empty" && rows.number(i, 2) > 0)
				world.ledger.violation(rows.text(i, 3) + " is empty, with " + rows.text(i, 2) +
									   " live rows");
			continue;
		}
		Key key = rows.number(i, 1);
		if (key <= kTickKey) /* a tick, or a job of a handler */
		{
			others++;
			continue;
		}
		bool first = kind == "job"
						 ? jobs.insert(key).second
						 : dead.emplace(key, Ledger::DeadRow{static_cast<int>(rows.number(i, 2)),
															 static_cast<int>(rows.number(i, 3)),
															 rows.text(i, 4)})
							   .second;
		if (!first)
			world.ledger.violation("there are two rows of it", key);
		if (kind == "job" && rows.text(i, 2) != rows.text(i, 3))
			world.ledger.violation(
				"its row in " + rows.text(i, 2) + " says that it is in " + rows.text(i, 3), key);
	}
	/*
	 * Commit a write. The scheduler's commits do not wait for the standby, but this one does, and
	 * it comes after them.
	 */
	(void) session.connection.run("UPDATE torture.tx SET asked = asked + 1 WHERE id = 0");
	world.ledger.audit(jobs, dead);
	size_t expected = world.ledger.live_count() + dead.size() + others;
	if (world.ledger.violations() == 0 && live_rows != static_cast<int64_t>(expected))
		world.ledger.violation("the view segment counts " + number(live_rows) +
							   " live rows, there are " + std::to_string(expected));
}

/* Check the engine's own diagnostics. */
void
Auditor::check_engine()
{
	Rows rows = session.connection.run("SELECT pgq_check()");
	for (int i = 0; i < rows.size(); i++)
		world.ledger.violation("pgq_check: " + rows.text(i, 0));
}

void
Auditor::forget()
{
	world.ledger.prune();
	if (world.prepared.size() == 0)
		(void) session.connection.run("DELETE FROM torture.tx WHERE id <> 0");
}

void
Auditor::quiet_point(bool drain)
{
	if (!world.gate.close())
		throw Hung{"actors do not come to rest"};
	insist("quiet point", [&] {
		/* A prepared transaction may have locked what the handlers need to come to rest. */
		if (world.handled.is_locked())
			end_all_prepared();
		stop_handlers(session, random);
		check_engine();
		if (drain)
		{
			end_all_prepared();
			prepare_batches(session);
			prepare_graphs(session);
		}
		hasten();
		if (drain)
		{
			drain_handlers(session, random);
			drain_batches(session, random);
			drain_graphs(session, random);
			do_all_jobs();
			check_order();
			for (const std::string &queue : {kTurnsQueue, kHeadsQueue, kFairQueue})
				check_turns(queue);
			audit_coordination(session);
		}
		world.coordination.audit();
		world.timetable.audit();
		compare();
		audit_handlers(session, drain);
		audit_batches(session, drain);
		audit_graphs(session, drain);
		check_engine();
		forget();
		start_handlers(session);
	});
	world.counters.audits++;
	world.gate.open();
}

} // namespace torture
