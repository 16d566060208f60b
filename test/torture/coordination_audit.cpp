/* Checks of locks, runs, rates and schedules at quiet points. */
#include "coordinator.h"

namespace torture {

/*
 * The wait is longer than any lock lasts; the ttl is long enough that it does not run out during
 * the check.
 */
static constexpr Time kLongWait = 60 * kSecond;
static constexpr Time kLongTtl = 20 * kSecond;

static void
prepare_rates(Session &session)
{
	for (const RateName &rate : kRates)
		(void) session.connection.run(
			"SELECT pgq_create_rate($1, $2, $3, $4)",
			{rate.name, number(rate.permits), milliseconds(rate.period), number(rate.burst)});
}

void
prepare_coordination(Session &session)
{
	prepare_rates(session);
	prepare_ticks(session);
}

/* ---- locks ---- */

/*
 * Check that all slots of a lock can be taken, and no more; and that nothing is left when they are
 * given back.
 */
static void
check_lock(Session &session, Coordinating &verbs, LockName lock)
{
	Ledger &ledger = session.world.ledger;
	lock.bound = false;
	std::vector<GrantRef> held;
	for (int i = 0; i < lock.slots; i++)
		if (GrantRef grant = verbs.take(lock, kLongTtl, kLongWait))
			held.push_back(grant);
	if (static_cast<int>(held.size()) < lock.slots)
		ledger.violation("of " + lock.name + " only " + std::to_string(held.size()) +
						 " could be had, and nobody is there");
	if (GrantRef more = verbs.take(lock, kLongTtl, 0))
		held.push_back(more);
	for (const GrantRef &grant : held)
		(void) verbs.use(grant, Use::kUnlock);
	Rows left = session.connection.run("SELECT token FROM pgq_ext.lock WHERE name = $1 UNION ALL "
									   "SELECT token FROM pgq_ext.held_lock WHERE name = $1",
									   {lock.name});
	if (left.size() > 0)
		ledger.violation("of " + lock.name + " token " + left.text(0, 0) +
						 " is left, and nobody is there");
}

/* ---- runs ---- */

/* Check that a run which is done once is not begun again, and that one which was given up is. */
static void
check_once(Session &session, Coordinating &verbs)
{
	World &world = session.world;
	LockName run = once(world.once);
	if (!world.coordination.done_runs().contains({run.name, "ever"}))
	{
		GrantRef given_up = verbs.take(run, kLongTtl, kLongWait);
		if (!given_up)
		{
			world.ledger.violation(run.name + " is not done, and nobody may do it");
			return;
		}
		(void) verbs.use(given_up, Use::kUnlock);
		GrantRef next = verbs.take(run, kLongTtl, 0);
		if (!next)
		{
			world.ledger.violation(run.name + " was given up, and the next one does not get it");
			return;
		}
		(void) verbs.use(next, Use::kDone);
	}
	if (verbs.take(run, kLongTtl, 0))
		world.ledger.violation(run.name + " is done, and begun again");
	world.once++;
}

/* Compare the runs that the test knows as done with the table. */
static void
compare_runs(Session &session)
{
	World &world = session.world;
	world.coordination.audit();
	std::set<std::pair<std::string, std::string>> done = world.coordination.done_runs();
	Rows rows = session.connection.run("SELECT name, coalesce(period_start::text, 'ever') FROM "
									   "pgq_ext.run WHERE finished_at IS NOT NULL");
	for (int i = 0; i < rows.size(); i++)
		if (done.erase({rows.text(i, 0), rows.text(i, 1)}) == 0)
			world.ledger.violation("run " + rows.text(i, 0) + " " + rows.text(i, 1) +
								   " is done, says the table, but by nobody");
	for (const auto &[name, bucket] : done)
		world.ledger.violation("run " + name + " " + bucket + " is done, but not in the table");
}

/* ---- rates ---- */

/*
 * Check that all permits become available again, even if an actor was waiting for some when it was
 * killed. The permits taken here do not count as taken: main() checks that the actors have taken
 * some.
 */
static void
check_rate(Session &session, Coordinating &verbs, const RateName &rate)
{
	for (Time end = now() + kPatience; now() < end; nap(100 * kMillisecond))
		try
		{
			if (verbs.take_permits(rate, rate.burst, kLongWait))
				session.world.coordination.permits -= rate.burst;
			else
				session.world.ledger.violation("no permits of " + rate.name);
			return;
		}
		catch (const SqlError &error)
		{
			session.judge(error); /* all places for rates may be in use by other rates: try again */
		}
	throw Hung{"permits of " + rate.name};
}

/* ---- schedules ---- */

/* Wait until all ticks up to now have come, of schedules that are never changed. */
static void
wait_for_ticks(Session &session, Coordinating &verbs)
{
	World &world = session.world;
	Moment until = wall();
	Time end = now() + kPatience;
	while (world.ledger.violations() == 0)
	{
		std::string missing = world.timetable.missing(until);
		if (missing.empty())
			return;
		if (now() > end)
			world.ledger.violation("no job comes for tick " + missing);
		std::vector<Ticked> ticks = verbs.claim_ticks(kSecond);
		if (ticks.empty())
			continue;
		Transaction tx(session);
		verbs.ack_ticks(ticks, tx);
		tx.commit();
	}
}

void
audit_coordination(Session &session)
{
	World &world = session.world;
	Coordinating verbs(session);
	world.coordination.audit();
	if (world.cluster.has_scheduler())
		wait_for_ticks(session, verbs);
	for (const LockName &lock : kLocks)
		check_lock(session, verbs, lock);
	compare_runs(session);
	check_once(session, verbs);
	for (const RateName &rate : kRates)
		check_rate(session, verbs, rate);
}

} // namespace torture
