#include "actor.h"

namespace torture {

namespace {

/*
 * A worker that changes its style at every turn. It claims in a transaction or not, once, or again
 * after a rollback to a savepoint. It acks, fails or extends, in the same transaction or a later
 * one, in time, too late or never. The transaction is committed, rolled back or prepared. Leases
 * that it does not end are put into the pool of abandoned leases, from which another turn takes
 * them for a late use.
 */
class Consumer : public Actor
{
public:
	using Actor::Actor;

private:
	bool calm = false; /* this turn is for the queue of turns, whose claims should not fail */

	void turn() override;
	ClaimSpec some_claim();
	const char *some_isolation();
	void work_in_one_transaction();
	void work_under_a_lease();
	void work_on(const std::vector<Held> &held, Time lease_time);
	void use_abandoned();
	void abandon(const std::vector<Held> &held);
	void end_some(Transaction &tx, const std::vector<Held> &held);
	void end_jobs(Transaction &tx, const std::vector<Held> &held);
	void try_ack(Transaction &tx, const Held &held);
	void finish(Transaction &tx);
};

} // namespace

static constexpr size_t kAbandonedMax = 200;

ClaimSpec
Consumer::some_claim()
{
	ClaimSpec spec;
	bool crowded = world.crowd && random.chance(50);
	spec.queues = {crowded ? random.pick(kCrowdedQueues) : some_queue()};
	if (random.chance(20))
		spec.queues = kQueues;
	if (random.chance(world.moving ? 70 : 1))
		spec.queues = {kSlowQueue};
	if (calm)
		spec.queues = {kTurnsQueue};
	if (random.chance(crowded ? 80 : 40))
		spec.max_jobs = random.between(2, 8);
	if (!calm && random.chance(30))
		spec.wait = random.between(1, 1500) * kMillisecond;
	spec.session_bound = random.chance(10);
	spec.lease_time = random.between(1000, random.chance(3) ? 5000 : 2000) * kMillisecond;
	return spec;
}

const char *
Consumer::some_isolation()
{
	int n = random.between(1, 100);
	return n <= 10 ? "REPEATABLE READ" : n <= 15 ? "SERIALIZABLE" : "READ COMMITTED";
}

void
Consumer::abandon(const std::vector<Held> &held)
{
	for (const Held &h : held)
		if (world.abandoned.size() < kAbandonedMax)
			world.abandoned.put(h);
}

/* ---- ends ---- */

/* Acknowledge under a savepoint, so that a stale lease does not abort the transaction. */
void
Consumer::try_ack(Transaction &tx, const Held &held)
{
	tx.savepoint();
	try
	{
		tx.ack(held);
		tx.release_savepoint();
	}
	catch (const SqlError &error)
	{
		if (error.state != "PQ001")
			throw;
		world.counters.stale++;
		tx.roll_back_to_savepoint();
	}
}

void
Consumer::end_jobs(Transaction &tx, const std::vector<Held> &held)
{
	if (random.chance(40))
	{
		(void) tx.ack_many(held);
		return;
	}
	if (random.chance(20))
	{
		ClaimSpec spec = some_claim();
		spec.session_bound = false;
		abandon(tx.ack_claim(held, spec));
		return;
	}
	for (const Held &h : held)
	{
		int n = random.between(1, 100);
		if (random.chance(10))
			random.chance(50) ? tx.assert_lease(h) : tx.note_progress(h);
		if (n <= 50)
			tx.ack(h);
		else if (n <= 55)
			(void) tx.release(h, random.between(0, 1) * random.between(1, 500) * kMillisecond);
		else if (n <= 65)
			try_ack(tx, h);
		else if (n <= 80)
			(void) tx.fail(h, random.between(0, 1000) * kMillisecond);
		else if (n <= 90)
			(void) tx.fail(h, {});
		else if (n <= 92)
			(void) tx.fail(h, {}, false);
		else if (n <= 96)
			(void) session.extend(h, random.between(1000, 3000) * kMillisecond, tx.tx());
		/* otherwise the lease is just forgotten */
	}
}

void
Consumer::end_some(Transaction &tx, const std::vector<Held> &held)
{
	if (held.empty())
		return;
	if (random.chance(20))
	{
		tx.savepoint();
		end_jobs(tx, held);
		tx.roll_back_to_savepoint();
		if (random.chance(50))
			return;
	}
	end_jobs(tx, held);
}

void
Consumer::finish(Transaction &tx)
{
	int n = random.between(1, 100);
	if (n <= 10)
		tx.roll_back();
	else if (n <= 16 && may_prepare())
		tx.prepare();
	else
		tx.commit();
}

/* ---- styles ---- */

void
Consumer::work_in_one_transaction()
{
	std::vector<Held> held;
	Transaction tx(session, some_isolation());
	if (random.chance(15))
	{
		tx.savepoint();
		abandon(tx.claim(some_claim()));
		tx.roll_back_to_savepoint();
	}
	held = tx.claim(some_claim());
	if (random.chance(20))
		nap(random.between(1, 300) * kMillisecond);
	if (random.chance(90))
		end_some(tx, held);
	finish(tx);
	if (random.chance(20))
		abandon(held);
}

void
Consumer::work_under_a_lease()
{
	ClaimSpec spec = some_claim();
	std::vector<Held> held = session.claim(spec);
	if (held.empty())
		return;
	if (random.chance(10))
	{
		abandon(held);
		return;
	}
	try
	{
		work_on(held, spec.lease_time);
	}
	catch (const Broken &)
	{
		if (random.chance(30))
		{
			abandon(held);
			throw;
		}
		/* The work is done, and the server may have been restarted in between: a late ack. */
		session.connect_if_broken();
		session.ack(held[0]);
	}
	if (random.chance(20))
		abandon(held);
}

void
Consumer::work_on(const std::vector<Held> &held, Time lease_time)
{
	if (random.chance(20))
		nap(random.between(1, static_cast<int>(lease_time / kMillisecond * 5 / 4)) * kMillisecond);
	if (random.chance(20))
	{
		(void) session.extend(held[0], random.between(1000, 2000) * kMillisecond);
		nap(random.between(1, 500) * kMillisecond);
	}
	if (random.chance(30))
	{
		for (const Held &h : held)
			session.ack(h);
		return;
	}
	Transaction tx(session, some_isolation());
	end_some(tx, held);
	finish(tx);
}

/*
 * Use an abandoned lease, like a worker that comes back from a long break and has not noticed that
 * its lease may be over.
 */
void
Consumer::use_abandoned()
{
	Held held;
	if (!world.abandoned.take(&held))
		return;
	int n = random.between(1, 4);
	if (n == 1)
		session.ack(held);
	else if (n == 2)
		(void) session.extend(held, kSecond);
	else
	{
		Transaction tx(session);
		if (n == 3)
			(void) tx.fail(held, {});
		else
			(void) tx.ack_many({held});
		finish(tx);
	}
}

void
Consumer::turn()
{
	calm = !world.moving && random.chance(15);
	/*
	 * Set no short limits while a move is held up. A claim that waits for the mover and then fails
	 * would excuse all other claims that find nothing at that time. A claim of the queue of turns
	 * that fails would excuse groups that get no turn.
	 */
	bool patient = world.moving || calm;
	(void) session.connection.run(
		"SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false)",
		{!patient && random.chance(10) ? "300 ms" : "0",
		 !patient && random.chance(40) ? "50 ms" : "2 s"});
	int n = random.between(1, world.moving ? 150 : 100);
	if (n <= 45)
		work_in_one_transaction();
	else if (n <= 90)
		work_under_a_lease();
	else
		use_abandoned();
}

std::unique_ptr<Actor>
make_consumer(World &world, int number)
{
	return std::make_unique<Consumer>(world, "consumer " + std::to_string(number));
}

} // namespace torture
