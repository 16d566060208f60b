#include "coordinator.h"

namespace torture {

/* ---- the verbs ---- */

LockName
once(int64_t which)
{
	return {.name = "once-for-ever-" + number(which), .is_run = true};
}

TxRef
Coordinating::start(Transaction *tx)
{
	if (tx != nullptr)
	{
		tx->mark();
		return tx->tx();
	}
	TxRef ref = session.world.ledger.begin(session.connection.epoch());
	session.world.ledger.ending(ref);
	return ref;
}

/*
 * Run a call. Outside of a transaction, the statement also inserts the number of its own
 * transaction into torture.tx.
 */
Rows
Coordinating::ask(const TxRef &ref, Transaction *tx, const std::string &call,
				  const std::vector<Parameter> &parameters)
{
	std::string mark =
		tx == nullptr ? "WITH mark AS (INSERT INTO torture.tx VALUES (" + number(ref->id) + ")) "
					  : "";
	try
	{
		Rows rows = session.connection.run(mark + "SELECT " + call, parameters);
		ledger.seen_open(ref, life);
		return rows;
	}
	catch (const Broken &)
	{
		if (tx == nullptr)
			session.resolve(ref);
		throw;
	}
	catch (const SqlError &)
	{
		ledger.seen_open(ref, life);
		if (tx == nullptr)
			session.world.ledger.aborted(ref);
		throw;
	}
}

void
Coordinating::end(const TxRef &ref, Transaction *tx)
{
	if (tx == nullptr)
		session.ended(ref);
}

GrantRef
Coordinating::take(const LockName &of, Time ttl, Time wait, Transaction *tx)
{
	TxRef ref = start(tx);
	Time sent = now();
	std::vector<Parameter> parameters = {of.name, milliseconds(ttl), milliseconds(wait)};
	std::string call = "pgq_lock($1, ttl => $2, wait => $3, slots => $4, session_bound => $5)";
	if (of.is_run)
	{
		parameters.push_back(of.period.empty() ? Parameter{} : of.period);
		call = "pgq_run_once($1, ttl => $2, wait => $3, period => $4)";
	}
	else
	{
		parameters.push_back(number(of.slots));
		parameters.push_back(of.bound ? "true" : "false");
	}
	Rows rows = ask(ref, tx, call, parameters);
	GrantRef grant;
	if (!rows.is_null(0, 0))
		grant = ledger.granted(of, rows.number(0, 0), ref, sent, ttl, of.bound ? life : Life{});
	end(ref, tx);
	if (grant && of.is_run)
		find_bucket(grant);
	return grant;
}

/* Find the period of the run in its row. */
void
Coordinating::find_bucket(const GrantRef &grant)
{
	Rows rows = session.connection.run(
		"SELECT coalesce(period_start::text, 'ever') FROM pgq_ext.run WHERE name = $1 AND token = "
		"$2",
		{grant->of.name, number(grant->token)});
	if (rows.size() == 1)
		ledger.belongs_to(grant, rows.text(0, 0));
	/* If this look came too late, the row belongs to a later run. */
}

bool
Coordinating::use(const GrantRef &grant, Use use, Transaction *tx, Time ttl)
{
	static const char *const calls[] = {"pgq_assert_lock($1, $2)", "pgq_extend_lock($1, $2, $3)",
										"pgq_unlock($1, $2)", "pgq_run_done($1, $2, '{}')"};
	TxRef ref = start(tx);
	std::vector<Parameter> parameters = {grant->of.name, number(grant->token)};
	if (use == Use::kExtend)
		parameters.push_back(milliseconds(ttl));
	UsageRef usage = ledger.using_it(grant, use, ref, ref->epoch, ttl);
	bool accepted = true;
	try
	{
		Rows rows = ask(ref, tx, calls[static_cast<int>(use)], parameters);
		if (use == Use::kExtend)
			accepted = !rows.is_null(0, 0);
		if (use == Use::kUnlock)
			accepted = rows.text(0, 0) == "t";
	}
	catch (const SqlError &error)
	{
		if (error.state == "PQ001")
			ledger.refused(usage);
		throw;
	}
	if (accepted)
		ledger.accepted(usage);
	else
		ledger.refused(usage);
	end(ref, tx);
	return accepted;
}

bool
Coordinating::take_permits(const RateName &rate, int n, Time wait, Transaction *tx)
{
	Time sent = now();
	Rows rows = session.connection.run("SELECT pgq_take($1, $2, $3)",
									   {rate.name, number(n), milliseconds(wait)});
	if (tx != nullptr)
		ledger.seen_open(tx->tx(), life);
	bool got = rows.text(0, 0) == "t";
	if (got)
		ledger.took(rate, n, sent);
	return got;
}

std::vector<Ticked>
Coordinating::claim_ticks(Time wait)
{
	Time sent = now();
	Rows rows = session.connection.run(
		"SELECT job_id, lease, headers ->> 'schedule', "
		"(extract(epoch FROM (headers ->> 'scheduled_at')::timestamptz) * 1e6)::bigint, "
		"(extract(epoch FROM enqueued_at) * 1e6)::bigint "
		"FROM pgq_claim($1, 10, $2, '2 s')",
		{kTickQueue, milliseconds(wait)});
	std::vector<Ticked> ticks;
	for (int i = 0; i < rows.size(); i++)
	{
		ticks.push_back({.job_id = rows.number(i, 0),
						 .token = rows.number(i, 1),
						 .schedule = rows.text(i, 2),
						 .tick = rows.number(i, 3),
						 .enqueued_at = rows.number(i, 4) - (wall() - now()),
						 .claim_sent = sent});
		session.world.timetable.handed_out(ticks.back(), session.connection.epoch());
	}
	return ticks;
}

void
Coordinating::ack_ticks(const std::vector<Ticked> &ticks, Transaction &tx)
{
	tx.mark();
	std::string ids = "{";
	std::string leases = "{";
	for (const Ticked &tick : ticks)
	{
		ids += (ids.size() > 1 ? "," : "") + number(tick.job_id);
		leases += (leases.size() > 1 ? "," : "") + number(tick.token);
	}
	Rows rows = tx.run("SELECT pgq_ack_many($1, $2)", {ids + "}", leases + "}"});
	std::set<int64_t> done;
	for (int i = 0; i < rows.size(); i++)
		done.insert(rows.number(i, 0));
	for (const Ticked &tick : ticks)
		if (done.contains(tick.job_id))
			session.world.timetable.acked(tick, tx.tx());
}

/* ---- the actor ---- */

namespace {

/*
 * An actor that takes locks, runs and permits, in a transaction or not. It uses, extends, gives
 * back or forgets them, in time or too late. Another actor may later try to use those that it has
 * forgotten.
 */
class Coordinator : public Actor
{
public:
	Coordinator(World &world, const std::string &name) : Actor(world, name), verbs(session) {}

private:
	Coordinating verbs;
	bool bound = false; /* a lock may be bound to the session */

	void turn() override;
	void take_one_step();
	LockName some_lock();
	LockName some_run();
	Time some_ttl();
	Time ttl_of(const LockName &lock);
	Time some_wait();
	void forget(const GrantRef &grant);
	void use_some(const GrantRef &grant, Transaction *tx);
	bool finish(Transaction &tx, bool may_be_prepared = true);
	void undo_some(Transaction &tx, const GrantRef &grant);
	void lock_alone();
	void lock_in_transaction();
	void end_lock(const GrantRef &grant);
	void run();
	void use_forgotten();
	void take_permits();
	void replace_rate();
};

} // namespace

static constexpr size_t kForgottenMax = 40;

LockName
Coordinator::some_lock()
{
	LockName lock = random.pick(kLocks);
	bound |= lock.bound;
	return lock;
}

LockName
Coordinator::some_run()
{
	return random.chance(20) ? once(world.once) : random.pick(kPeriodicRuns);
}

Time
Coordinator::some_ttl()
{
	return random.between(1000, random.chance(10) ? 5000 : 2000) * kMillisecond;
}

Time
Coordinator::some_wait()
{
	return random.chance(50) ? 0 : random.between(1, 1500) * kMillisecond;
}

void
Coordinator::forget(const GrantRef &grant)
{
	if (world.forgotten.size() < kForgottenMax)
		world.forgotten.put(grant);
}

void
Coordinator::use_some(const GrantRef &grant, Transaction *tx)
{
	for (int i = random.between(0, 2); i > 0; i--)
	{
		if (random.chance(40))
			nap(random.between(1, random.chance(20) ? 2200 : 200) * kMillisecond);
		if (random.chance(50))
			(void) verbs.use(grant, Use::kAssert, tx);
		else
			(void) verbs.use(grant, Use::kExtend, tx, some_ttl());
	}
}

/* End the transaction at random. Returns whether it is committed. */
bool
Coordinator::finish(Transaction &tx, bool may_be_prepared)
{
	int n = random.between(1, 100);
	if (n <= 15)
		tx.roll_back();
	else if (n <= 25 && may_be_prepared && may_prepare())
		tx.prepare();
	else
	{
		tx.commit();
		return true;
	}
	return false;
}

/* Return a random ttl; a very long one for a lock that should end with its session. */
Time
Coordinator::ttl_of(const LockName &lock)
{
	return lock.bound ? 600 * kSecond : some_ttl();
}

/* Do something under a savepoint, and roll back to the savepoint. */
void
Coordinator::undo_some(Transaction &tx, const GrantRef &grant)
{
	Time before = now();
	tx.savepoint();
	if (!grant)
	{
		LockName lock = some_lock();
		(void) verbs.take(lock, ttl_of(lock), 0, &tx);
	}
	else if (random.chance(50))
		(void) verbs.use(grant, Use::kUnlock, &tx);
	else
		use_some(grant, &tx);
	world.coordination.undoing(tx.tx(), before);
	tx.roll_back_to_savepoint();
}

/* Give the lock back, or forget it, so that another actor may use it later. */
void
Coordinator::end_lock(const GrantRef &grant)
{
	int n = random.between(1, 100);
	if (n <= 50)
		(void) verbs.use(grant, Use::kUnlock);
	else if (n <= 75)
	{
		Transaction tx(session);
		use_some(grant, &tx);
		if (random.chance(20))
			undo_some(tx, grant);
		(void) verbs.use(grant, Use::kUnlock, &tx);
		/* The transaction that gives the lock back may take it again at once. */
		GrantRef again;
		if (random.chance(30))
			again = verbs.take(grant->of, ttl_of(grant->of), 0, &tx);
		(void) finish(tx, !grant->of.bound);
		if (again)
			forget(again);
	}
	if (random.chance(40))
		forget(grant);
}

void
Coordinator::lock_alone()
{
	LockName lock = some_lock();
	GrantRef grant = verbs.take(lock, ttl_of(lock), some_wait());
	if (!grant)
		return;
	use_some(grant, nullptr);
	end_lock(grant);
}

void
Coordinator::lock_in_transaction()
{
	GrantRef grant;
	bool committed;
	{
		LockName lock = some_lock();
		Transaction tx(session);
		if (random.chance(20))
			undo_some(tx, nullptr);
		grant = verbs.take(lock, ttl_of(lock), some_wait(), &tx);
		if (grant)
			use_some(grant, &tx);
		if (grant && random.chance(20))
			undo_some(tx, grant);
		committed = finish(tx, !bound);
	}
	if (grant && committed)
		end_lock(grant);
	else if (grant)
		forget(grant);
}

void
Coordinator::run()
{
	GrantRef grant;
	if (random.chance(60))
		grant = verbs.take(some_run(), some_ttl(), some_wait());
	else
	{
		Transaction tx(session);
		grant = verbs.take(some_run(), some_ttl(), some_wait(), &tx);
		bool done = grant && random.chance(30) && verbs.use(grant, Use::kDone, &tx);
		if (!finish(tx) || done)
		{
			if (grant)
				forget(grant);
			return;
		}
	}
	if (!grant)
		return;
	int n = random.between(1, 100);
	if (n <= 15)
		(void) verbs.use(grant, Use::kUnlock);
	else if (n <= 80)
	{
		Transaction tx(session);
		use_some(grant, &tx);
		(void) verbs.use(grant, Use::kDone, &tx);
		if (finish(tx))
			world.coordination.runs++;
	}
	if (random.chance(30))
		forget(grant);
}

/*
 * Use a forgotten token, like a client that comes back from a long break and has not noticed that
 * the lock is over.
 */
void
Coordinator::use_forgotten()
{
	GrantRef grant;
	if (!world.forgotten.take(&grant))
		return;
	static const std::vector<Use> uses = {Use::kAssert, Use::kExtend, Use::kUnlock};
	Use use = grant->of.is_run && random.chance(50) ? Use::kDone : random.pick(uses);
	if (random.chance(50))
	{
		(void) verbs.use(grant, use, nullptr, some_ttl());
		return;
	}
	Transaction tx(session);
	(void) verbs.use(grant, use, &tx, some_ttl());
	if (random.chance(30))
		nap(random.between(1, 2000) * kMillisecond);
	if (use == Use::kAssert && random.chance(50))
		(void) verbs.use(grant, Use::kUnlock, &tx);
	(void) finish(tx, !grant->of.bound);
}

void
Coordinator::take_permits()
{
	RateName rate = random.pick(kRates);
	if (random.chance(4))
	{
		Transaction tx(session);
		try
		{
			(void) tx.run(
				"SELECT pgq_drop_rate($1), pgq_create_rate($1, $2, $3, $4)",
				{rate.name, number(rate.permits), milliseconds(rate.period), number(rate.burst)});
		}
		catch (const SqlError &error)
		{
			if (error.state != "42704")
				throw;
			return; /* another coordinator has dropped it, and created another one, meanwhile */
		}
		if (random.chance(50))
			(void) verbs.take_permits(rate, 1, 0, &tx);
		(void) finish(tx, false);
	}
	/* Take permits for a while, sometimes more than are available. */
	Time wait = some_wait();
	for (int i = random.between(1, random.chance(30) ? 40 : 4); i > 0; i--)
	{
		int n = random.between(1, random.chance(50) ? 1 : rate.burst);
		if (random.chance(80))
			(void) verbs.take_permits(rate, n, wait);
		else
		{
			Transaction tx(session);
			(void) verbs.take_permits(rate, n, some_wait(), &tx);
			(void) finish(tx, false);
		}
	}
}

void
Coordinator::take_one_step()
{
	int n = random.between(1, 100);
	if (n <= 25)
		lock_alone();
	else if (n <= 50)
		lock_in_transaction();
	else if (n <= 72)
		run();
	else if (n <= 85)
		use_forgotten();
	else
		take_permits();
}

/* Take one turn. Locks bound to the session end with the turn, even if it ends with an error. */
void
Coordinator::turn()
{
	verbs.new_session();
	bound = false;
	try
	{
		take_one_step();
	}
	catch (...)
	{
		if (bound)
			session.connection.close();
		throw;
	}
	if (!bound)
		return;
	if (random.chance(50))
		session.connection.close();
	else
		(void) session.connection.run("DISCARD ALL");
}

std::unique_ptr<Actor>
make_coordinator(World &world, int number)
{
	return std::make_unique<Coordinator>(world, "coordinator " + std::to_string(number));
}

} // namespace torture
