/*
 * torture: runs all features of pgq_ext at once while servers, processes and connections are
 * killed. See README.md for the construction of the test.
 */
#include "auditor.h"
#include "killer.h"

#include <cstring>
#include <iostream>
#include <random>

namespace torture {

namespace {

struct Options
{
	uint64_t seed = std::random_device{}();
	long kills = 100;
	long seconds = 24 * 3600;
	std::string dir;
	std::string settings;
	std::string from; /* version of the SQL objects to begin with */
};

} // namespace

static constexpr int kProducers = 3;
static constexpr int kConsumers = 6;
static constexpr int kHolders = 2;
static constexpr int kCoordinators = 5;
static constexpr int kDispatchers = 2;
static constexpr int kBatchers = 3;
static constexpr int kGraphers = 3;

static Options
read_options(int argc, char **argv)
{
	Options options;
	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string name = argv[i];
		std::string value = argv[i + 1];
		if (name == "--seed")
			options.seed = std::stoull(value);
		else if (name == "--kills")
			options.kills = std::stol(value);
		else if (name == "--seconds")
			options.seconds = std::stol(value);
		else if (name == "--dir")
			options.dir = value;
		else if (name == "--settings")
			options.settings = value;
		else if (name == "--from")
			options.from = value;
		else
			options.dir.clear(), i = argc;
	}
	if (options.dir.empty() || options.settings.empty() || argc % 2 == 0)
	{
		std::cerr
			<< "usage: torture --dir DIR --settings FILE [--seed N] [--kills N] [--seconds N] "
			   "[--from VERSION]\n"
			   "DIR is made, and removed unless something is wrong; FILE is for postgresql.conf;\n"
			   "VERSION of the SQL objects is what it begins with, until half of the kills are "
			   "done\n";
		exit(2);
	}
	return options;
}

static std::vector<std::unique_ptr<Actor>>
make_actors(World &world)
{
	std::vector<std::unique_ptr<Actor>> actors;
	for (int i = 1; i <= kProducers; i++)
		actors.push_back(make_producer(world, i));
	for (int i = 1; i <= kConsumers; i++)
		actors.push_back(make_consumer(world, i));
	for (int i = 1; i <= kHolders; i++)
		actors.push_back(make_holder(world, i));
	actors.push_back(make_administrator(world));
	actors.push_back(make_notary(world));
	for (int i = 1; i <= kCoordinators; i++)
		actors.push_back(make_coordinator(world, i));
	actors.push_back(make_timekeeper(world));
	for (int i = 1; i <= kDispatchers; i++)
		actors.push_back(make_dispatcher(world, i));
	for (int i = 1; i <= kBatchers; i++)
		actors.push_back(make_batcher(world, i));
	for (int i = 1; i <= kGraphers; i++)
		actors.push_back(make_grapher(world, i));
	return actors;
}

/*
 * Wait until a segment was truncated and a row was moved: without that the run would prove nothing.
 * Only a very short run has to wait.
 */
static void
see_rotation(World &world)
{
	for (Time end = now() + kPatience; !world.counters.rotation_was_seen(); nap(100 * kMillisecond))
		if (now() > end)
		{
			world.ledger.violation("no segment was truncated, or no row moved");
			return;
		}
}

/* Wait until the rules of the queue for it were changed, and jobs of groups were handed out. */
static void
see_groups(World &world)
{
	const Counters &seen = world.counters;
	for (Time end = now() + kPatience; seen.grouped == 0 || seen.rule_changes == 0;
		 nap(100 * kMillisecond))
		if (now() > end)
		{
			world.ledger.violation("no job of a group was handed out, or no rule changed");
			return;
		}
}

static void
see_coordination(World &world)
{
	const Coordination &seen = world.coordination;
	if (seen.taken_over == 0 || seen.runs == 0 || seen.permits == 0 || world.timetable.ticks() == 0)
		world.ledger.violation(
			"no lock was taken over, no run done, no permit taken, or no tick fired");
}

/* Check that handlers have done jobs. At the last quiet point all their jobs are done. */
static void
see_handlers(World &world)
{
	const Handled &seen = world.handled;
	if (world.handlers &&
		(seen.done == 0 || seen.follow_ups == 0 || seen.done == seen.done_by_array))
		world.ledger.violation("no job was done by a handler, or none of one of its kinds");
}

/* Check that batches have finished. At the last quiet point all of them do. */
static void
see_batches(World &world)
{
	const Batched &seen = world.batched;
	bool succeeded = seen.callbacks[static_cast<int>(BatchEvent::kSuccess)] > 0;
	bool finished = seen.callbacks[static_cast<int>(BatchEvent::kFinish)] > 0;
	if (world.batches && !(succeeded && finished))
		world.ledger.violation("no batch has finished, or none with success");
}

/* Wait until children of each kind were handed out, and a worker was told of a parent that has failed. */
static void
wait_for_graphs(World &world)
{
	const Graphed &seen = world.graphed;
	auto all = [&] {
		return seen.graphs > 0 && seen.late > 0 && seen.refusals > 0 && seen.failed_told > 0 &&
			   seen.children[0] > 0 && seen.children[1] > 0 && seen.children[2] > 0;
	};
	for (Time end = now() + kPatience; world.graphs && !all(); nap(100 * kMillisecond))
		if (now() > end)
		{
			world.ledger.violation("no child of some kind was handed out, enqueued or refused");
			return;
		}
}

/* Check what is seen only at quiet points, of which the last one does everything. */
static void
see_graphs(World &world)
{
	const Graphed &seen = world.graphed;
	if (world.graphs && (seen.cancelled == 0 || seen.collections == 0 || seen.callbacks[0] == 0 ||
						 seen.callbacks[1] == 0))
		world.ledger.violation("no child was cancelled, no dependency deleted, or no batch of a "
							   "graph has finished, or none with success");
}

/*
 * Kill and audit in turn, until the planned kills are done, the time is over, or there is a
 * violation.
 */
static void
kill_and_audit(World &world, const Options &options, Killer &killer, Auditor &auditor)
{
	Random random(world.seed, "main");
	Time end = now() + options.seconds * kSecond;
	Time report = now();
	bool to_update = !options.from.empty();
	while (world.counters.kills() < options.kills && now() < end && world.ledger.violations() == 0)
	{
		if (now() > report)
		{
			std::cout << "-- " << world.ledger.live_count() << " jobs wait" << std::endl;
			world.counters.print(world);
			report = now() + 10 * kSecond;
		}
		nap((random.chance(20) ? random.between(0, 50) : random.between(100, 5000)) * kMillisecond);
		world.coordination.audit();
		world.timetable.audit();
		if (random.chance(15))
		{
			auditor.quiet_point(random.chance(70));
			world.delays = random.chance(60);
			world.prepares = random.chance(60);
			world.crowd = random.chance(50);
			world.backlog = random.chance(10) ? 1500
							: world.crowd	  ? World::kCrowdBacklog
											  : World::kSmallBacklog;
		}
		if (to_update && world.counters.kills() >= options.kills / 2)
		{
			world.cluster.update();
			auditor.prepare_after_update();
			to_update = false;
		}
		killer.strike();
	}
	if (world.ledger.violations() == 0)
		killer.give_scheduler();
	if (world.ledger.violations() == 0)
		see_rotation(world);
	if (world.ledger.violations() == 0)
		see_groups(world);
	if (world.ledger.violations() == 0)
		wait_for_graphs(world);
	if (world.ledger.violations() == 0)
		auditor.quiet_point(true);
	if (world.ledger.violations() == 0)
	{
		see_coordination(world);
		see_handlers(world);
		see_batches(world);
		see_graphs(world);
	}
}

static void
run(World &world, const Options &options)
{
	world.cluster.create(options.from);
	Auditor auditor(world);
	auditor.prepare();
	std::vector<std::unique_ptr<Actor>> actors = make_actors(world);
	Killer killer(world, actors);
	for (auto &actor : actors)
		actor->start();
	try
	{
		kill_and_audit(world, options, killer, auditor);
	}
	catch (const Hung &hung)
	{
		Session(world).complain(hung);
	}
	catch (const SqlError &error)
	{
		world.ledger.violation("error " + error.state + ": " + error.message + "  in " +
							   error.statement);
	}
	catch (const std::exception &error)
	{
		world.ledger.violation(error.what());
	}
	world.gate.end();
	for (auto &actor : actors)
		actor->join();
}

} // namespace torture

using namespace torture;

int
main(int argc, char **argv)
{
	Options options = read_options(argc, argv);
	std::cout << "torture: seed " << options.seed << std::endl;
	World world(options.dir, options.settings, options.seed);
	try
	{
		run(world, options);
	}
	catch (const std::exception &error)
	{
		world.ledger.violation(error.what());
	}
	int violations = world.ledger.violations();
	world.counters.print(world);
	if (violations > 0)
	{
		world.cluster.keep();
		std::cout << "the data directories are kept in " << options.dir << "\n";
	}
	std::cout << "torture: " << world.counters.audits << " ok, " << violations << " not ok, seed "
			  << options.seed << std::endl;
	return violations == 0 ? 0 : 1;
}
