#include "killer.h"

#include <signal.h>

#include <utility>

namespace torture {

/* The kinds of kills. The weight says how often a kind is in one deck. */
const Killer::Kind Killer::kinds[] = {
	{"client cut", 4, &Killer::cut_client},
	{"backend terminated", 4, &Killer::terminate_backend},
	{"backends cancelled", 3, &Killer::cancel_backends},
	{"backend killed", 2, &Killer::kill_backend},
	{"scheduler terminated", 2, &Killer::terminate_scheduler},
	{"scheduler killed", 1, &Killer::kill_scheduler},
	{"launcher terminated", 1, &Killer::terminate_launcher},
	{"launcher killed", 1, &Killer::kill_launcher},
	{"handlers cancelled", 1, &Killer::cancel_handlers},
	{"handler terminated", 2, &Killer::terminate_handler},
	{"handler killed", 2, &Killer::kill_handler},
	{"handler paused", 1, &Killer::pause_handler},
	{"backend paused", 2, &Killer::pause_backend},
	{"scheduler paused", 1, &Killer::pause_scheduler},
	{"immediate stop", 1, &Killer::restart_immediately},
	{"fast restart", 1, &Killer::restart_fast},
	{"failover after immediate stop", 1, &Killer::fail_over_stopped},
	{"failover after kill -9", 1, &Killer::fail_over_killed},
};

Killer::Killer(World &world, const std::vector<std::unique_ptr<Actor>> &actors)
	: world(world), actors(actors), random(world.seed, "killer")
{}

void
Killer::strike()
{
	if (deck.empty())
	{
		for (const Kind &kind : kinds)
			deck.insert(deck.end(), static_cast<size_t>(kind.weight), &kind);
		for (size_t i = deck.size() - 1; i > 0; i--)
			std::swap(deck[i], deck[static_cast<size_t>(random.between(0, static_cast<int>(i)))]);
	}
	const Kind *kind = deck.back();
	if (!world.cluster.has_scheduler() && std::string(kind->name).starts_with("scheduler"))
	{
		deck.pop_back();
		return;
	}
	/* A kind may have no victim at the moment, for example while the server recovers: try again. */
	/* Handlers need not have a worker: they may be paused, or rest after a crash. */
	bool needed = !std::string(kind->name).starts_with("handler");
	Time patience = needed ? kPatience : world.handlers ? 10 * kSecond : 0;
	for (Time end = now() + patience; now() < end; nap(50 * kMillisecond))
		if ((this->*kind->strike)())
		{
			deck.pop_back();
			world.counters.kill(kind->name);
			return;
		}
	if (needed)
		throw Hung{std::string("no victim for: ") + kind->name};
	deck.pop_back();
}

/* ---- clients and their backends ---- */

bool
Killer::cut_client()
{
	Connection &victim = random.pick(actors)->connection();
	if (victim.backend() == 0)
		return false;
	victim.cut();
	return true;
}

bool
Killer::signal_backend(int signal)
{
	int pid = random.pick(actors)->connection().backend();
	return pid != 0 && world.cluster.signal(pid, signal);
}

bool
Killer::terminate_backend()
{
	return signal_backend(SIGTERM);
}

/* Cancel statements. Choose among all backends: one that waits for its client ignores it. */
bool
Killer::cancel_backends()
{
	bool any = false;
	for (const auto &actor : actors)
	{
		int pid = actor->connection().backend();
		any |= pid != 0 && world.cluster.signal(pid, SIGINT);
	}
	return any;
}

/* Kill a backend: the postmaster ends all others, and starts again with empty memory. */
bool
Killer::kill_backend()
{
	world.ledger.scheduler_disturbed();
	return signal_backend(SIGKILL);
}

/* ---- workers ---- */

bool
Killer::signal_worker(const char *type, int signal)
{
	pid_t pid = world.cluster.process(type);
	world.ledger.scheduler_disturbed();
	return pid != 0 && world.cluster.signal(pid, signal);
}

bool
Killer::terminate_scheduler()
{
	return signal_worker("pgq_ext scheduler", SIGTERM);
}

bool
Killer::kill_scheduler()
{
	return signal_worker("pgq_ext scheduler", SIGKILL);
}

bool
Killer::terminate_launcher()
{
	return signal_worker("pgq_ext launcher", SIGTERM);
}

bool
Killer::kill_launcher()
{
	return signal_worker("pgq_ext launcher", SIGKILL);
}

/* ---- workers of handlers ---- */

/* Return the pid of a handler's worker; 0 if there is none. */
pid_t
Killer::handler()
{
	std::vector<pid_t> found;
	for (const auto &[pid, title] : world.cluster.processes())
		if (title.find("pgq_ext handler") != std::string::npos)
			found.push_back(pid);
	return found.empty() ? 0 : random.pick(found);
}

/*
 * Return the pid of a worker in a long call; 0 if there is none. Few jobs have such calls, so it
 * happens that the server crashes twice in calls of one job.
 */
pid_t
Killer::sleeping_handler()
{
	try
	{
		auto [conninfo, server] = world.cluster.primary();
		if ((!connection.is_open() || connection.epoch().server != server) &&
			!connection.try_open(conninfo, server))
			return 0;
		Rows rows = connection.run("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
								   "AND backend_type = 'pgq_ext handler'");
		return rows.size() > 0 ? static_cast<pid_t>(rows.number(0, 0)) : 0;
	}
	catch (const Broken &)
	{}
	return 0;
}

bool
Killer::signal_handler(int signal)
{
	pid_t pid = random.chance(70) ? sleeping_handler() : handler();
	return pid != 0 && world.cluster.signal(pid, signal);
}

bool
Killer::cancel_handlers()
{
	bool any = false;
	for (const auto &[pid, title] : world.cluster.processes())
		if (title.find("pgq_ext handler") != std::string::npos)
			any |= world.cluster.signal(pid, SIGINT);
	return any;
}

bool
Killer::terminate_handler()
{
	return signal_handler(SIGTERM);
}

/* The postmaster notes which job was in the call that has crashed the server. */
bool
Killer::kill_handler()
{
	world.ledger.scheduler_disturbed();
	return signal_handler(SIGKILL);
}

bool
Killer::pause_handler()
{
	return pause(handler(), 100, 2000);
}

/* ---- pauses ---- */

/*
 * Stop a process for a while, wherever it is and whatever locks it has, as on an overloaded
 * machine.
 */
bool
Killer::pause(pid_t pid, int least, int most)
{
	Time length = random.between(least, most) * kMillisecond;
	if (pid == 0 || !world.cluster.signal(pid, SIGSTOP))
		return false;
	nap(length);
	(void) world.cluster.signal(pid, SIGCONT);
	return true;
}

bool
Killer::pause_backend()
{
	return pause(random.pick(actors)->connection().backend(), 100, 2000);
}

/* Stop the scheduler, sometimes for so long that claims have to do its work. */
bool
Killer::pause_scheduler()
{
	world.ledger.scheduler_disturbed();
	Time from = now();
	bool paused = pause(world.cluster.process("pgq_ext scheduler"), 500, 7000);
	world.ledger.move_kept(from, now());
	return paused;
}

/* ---- the server ---- */

bool
Killer::restart(const char *mode)
{
	world.ledger.scheduler_disturbed();
	world.cluster.stop(mode);
	world.cluster.start();
	world.ledger.without_scheduler(!world.cluster.has_scheduler());
	world.counters.restarts++;
	return true;
}

bool
Killer::restart_immediately()
{
	return restart("immediate");
}

bool
Killer::restart_fast()
{
	world.ledger.stopping_fast(wall());
	bool done = restart("fast");
	world.ledger.started_again(wall());
	return done;
}

void
Killer::give_scheduler()
{
	while (!world.cluster.has_scheduler())
		(void) restart_fast();
}

bool
Killer::failover(bool kill)
{
	world.ledger.scheduler_disturbed();
	world.cluster.failover(kill);
	world.ledger.without_scheduler(false);
	world.counters.failovers++;
	return true;
}

bool
Killer::fail_over_stopped()
{
	return failover(false);
}

bool
Killer::fail_over_killed()
{
	return failover(true);
}

} // namespace torture
