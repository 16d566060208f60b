#include "actor.h"

namespace torture {

Actor::Actor(World &world, const std::string &name)
	: world(world), random(world.seed, name), session(world)
{}

void
Actor::join()
{
	thread.join();
}

void
Actor::start()
{
	world.gate.join();
	thread = std::thread([this] { work(); });
}

void
Actor::work()
{
	try
	{
		while (world.gate.pass())
			take_turn();
	}
	catch (const Hung &hung)
	{
		session.complain(hung);
	}
	session.connection.close();
	world.gate.leave();
}

void
Actor::take_turn()
{
	try
	{
		session.connect_if_broken();
		temporary = by_hand = false;
		turn();
	}
	catch (const Broken &)
	{
		world.counters.broken++;
	}
	catch (const SqlError &error)
	{
		session.judge(error, temporary, by_hand);
		/* do not repeat at once: a bound of shared memory that was reached needs time */
		nap(random.between(1, 50) * kMillisecond);
	}
}

void
Actor::finish(Transaction &tx)
{
	int n = random.between(1, 100);
	if (n <= 15)
		tx.roll_back();
	else if (n <= 25 && may_prepare())
		tx.prepare();
	else
		tx.commit();
}

std::string
Actor::some_queue()
{
	std::string dropped_soon = world.current_temporary_queue();
	if (!dropped_soon.empty() && random.chance(10))
	{
		temporary = true;
		return dropped_soon;
	}
	return random.pick(kQueues);
}

JobSpec
Actor::some_job()
{
	JobSpec job;
	job.priority = random.between(-2, 2);
	if (random.chance(30) && world.delays)
		job.delay = random.chance(5) ? random.between(5, 600) * kSecond
									 : random.between(1, 1500) * kMillisecond;
	if (random.chance(5))
		job.expires_in = random.between(100, 3000) * kMillisecond;
	return job;
}

} // namespace torture
