/*
 * Tests the worlds of handler_world.h: small worlds in every order of actions, larger worlds in random
 * order, and worlds with a fault, which must be found.
 *
 * In the environment, HANDLER_WALKS=10 multiplies the number of random walks by 10, HANDLER_STATES=10
 * multiplies the number of states that an exploration may visit, and HANDLER_SEED=n sets the first seed.
 */
#include "handler_world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <unordered_set>

using namespace handler_world;

namespace {

State state;

/* Return the actions of a path, to be printed with a violation. */
std::string
text(const std::vector<std::pair<Action, int>> &path)
{
	std::string out;
	for (auto [action, subject] : path)
		out += std::string(out.empty() ? "" : ", ") + kNames[action] +
			   (action == kPass ? "" : " " + std::to_string(subject));
	return out;
}

long
env(const char *name, long otherwise)
{
	const char *value = getenv(name);
	return value != nullptr ? atol(value) : otherwise;
}

/* ---- every order ---- */

/*
 * Visits the states of a world, up to a number of states, beginning with those that the fewest actions
 * lead to.
 */
class Explorer
{
public:
	Explorer(const Plan &plan, long most) : plan_(plan), world_(plan_, state), most_(most) {}

	void run()
	{
		visit(-1, kPass, 0);
		while (!waiting_.empty() && wrong_.empty())
		{
			Waiting next = std::move(waiting_.front());
			waiting_.pop_front();
			for (int a = 0; a < kActions; a++)
				for (int i = 0; i < world_.subjects(static_cast<Action>(a)) && good(); i++)
				{
					state = *next.state;
					if (world_.act(static_cast<Action>(a), i))
						visit(next.step, static_cast<Action>(a), i);
				}
		}
	}
	long states() const { return static_cast<long>(seen_.size()); }
	const std::string &wrong() const { return wrong_; }

private:
	struct Step
	{
		long before;
		Action action;
		int subject;
	};
	struct Waiting
	{
		std::unique_ptr<State> state;
		long step;
	};

	bool good() const { return wrong_.empty() && states() < most_; }
	void visit(long before, Action action, int subject)
	{
		world_.check();
		steps_.push_back({before, action, subject});
		if (world_.wrong.empty() && !seen_.insert(std::hash<std::string>{}(world_.code())).second)
		{
			steps_.pop_back();
			return;
		}
		waiting_.push_back({std::make_unique<State>(state), static_cast<long>(steps_.size()) - 1});
		if (world_.wrong.empty())
			world_.drain(static_cast<unsigned>(seen_.size()));
		if (!world_.wrong.empty())
			report();
	}
	void report()
	{
		std::vector<std::pair<Action, int>> path;
		for (long i = static_cast<long>(steps_.size()) - 1; i > 0; i = steps_[i].before)
			path.insert(path.begin(), {steps_[i].action, steps_[i].subject});
		wrong_ = world_.wrong + " after: " + text(path);
		if (getenv("HANDLER_TELL") == nullptr)
			return;
		World again(plan_, state);
		again.tell = true;
		for (auto [action, subject] : path)
		{
			if (action != kStep)
				printf("%s %d\n", kNames[action], subject);
			again.act(action, subject);
		}
		printf("---- drain\n");
		again.drain(static_cast<unsigned>(seen_.size()));
	}

	Plan plan_;
	World world_;
	long most_;
	std::unordered_set<size_t> seen_;
	std::vector<Step> steps_;
	std::deque<Waiting> waiting_;
	std::string wrong_;
};

std::string
explore(const Plan &plan, long most)
{
	Explorer explorer(plan, most * env("HANDLER_STATES", 1));
	explorer.run();
	testing::Test::RecordProperty("states", static_cast<int>(explorer.states()));
	return explorer.wrong();
}

/* ---- at random ---- */

/*
 * Walks at random through a world: single steps and events, and now and then all processes go on until
 * they sleep. At the end they go on without further events.
 */
std::string
walk(Plan plan, unsigned seed)
{
	plan.passes = 12;
	std::mt19937 random(seed);
	World world(plan, state);
	std::vector<std::pair<Action, int>> path;
	auto act = [&](Action action, int subject) {
		if (!world.act(action, subject))
			return false;
		path.push_back({action, subject});
		return world.check();
	};
	auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
	auto step = [&] {
		int first = pick(kProcesses);
		for (int i = 0; i < kProcesses; i++)
			if (act(kStep, (first + i) % kProcesses))
				return true;
		return false;
	};
	auto settle = [&] {
		for (int i = 0; i < 1000 && world.wrong.empty() && step();)
			i++;
	};
	for (int n = 20 + pick(200); n > 0 && world.wrong.empty(); n--)
	{
		auto event = static_cast<Action>(pick(kActions));
		int subjects = world.subjects(event);
		switch (pick(16))
		{
			case 0:
				settle();
				break;
			case 1:
				(void) act(kPass, 0);
				break;
			case 2:
			case 3:
				if (event != kPass && event != kStep && subjects > 0)
					(void) act(event, pick(subjects));
				break;
			default:
				(void) step();
		}
	}
	if (world.wrong.empty())
		world.drain(static_cast<unsigned>(random()));
	return world.wrong.empty() ? "" : world.wrong + " after: " + text(path);
}

struct Test
{
	const char *name;
	Plan plan;
};

const Test kPlans[] = {
	{"OneQueue", {.deaths = 1, .scheduler_deaths = 1}},
	{"TwoWorkers", {.queues = {{.workers = 2}}, .slots = 2, .jobs = 3, .deaths = 1}},
	{"ThreeWorkers", {.queues = {{.workers = 3}}, .slots = 3, .jobs = 4}},
	{"TwoQueues", {.queues = {{}, {}}, .slots = 2, .jobs = 3}},
	{"TwoRoles", {.queues = {{.role = 1}, {.role = 2}}, .jobs = 3}},
	{"Turns",
	 {.queues = {{.role = 1}, {.role = 2}, {.database = 1, .role = 1}},
	  .jobs = 7,
	  .call = 1500 * 1000,
	  .turn = 7 * kSecond,
	  .patience = 30 * kSecond}},
	{"TwoDatabases",
	 {.queues = {{.database = 0}, {.database = 1}},
	  .scheduler_deaths = 1,
	  .patience = 15 * kSecond}},
	{"Clients", {.clients = {0, 0}, .taken = 1, .deaths = 1}},
	{"ClientsAndTwoQueues",
	 {.queues = {{}, {}}, .slots = 2, .clients = {0}, .jobs = 5, .deaths = 1}},
	{"DelayedJobs", {.queues = {{}, {}}, .jobs = 1, .timed = 2}},
	{"FailedCalls", {.queues = {{.workers = 2}}, .slots = 2, .fails = 2}},
	{"SlowHandler",
	 {.queues = {{.workers = 2}}, .slots = 2, .clients = {0}, .failures = 18, .fails = 2}},
	{"PauseAndSuspension", {.changes = 2, .batch = 2}},
	{"LockedTables", {.jobs = 1, .changes = 2, .locks = 1}},
	{"WorkersThatDoNotBegin",
	 {.scheduler_deaths = 1, .refusals = 2, .slow_starts = true, .patience = 20 * kSecond}},
	{"DroppedDatabase",
	 {.queues = {{.database = 0}, {.database = 1}},
	  .jobs = 3,
	  .refusals = 1,
	  .drops = 1,
	  .patience = 20 * kSecond}},
	/* Without polls, a wake-up that is lost is lost for ever. */
	{"WakeUps",
	 {.queues = {{}, {}}, .slots = 2, .clients = {0}, .jobs = 3, .deaths = 1, .polls = false}},
	{"WakeUpsOfRoles",
	 {.queues = {{.role = 1}, {.role = 2}}, .jobs = 2, .deaths = 1, .polls = false}},
	{"WakeUpsOfClients", {.clients = {0}, .jobs = 3, .deaths = 1, .polls = false}},
	{"WakeUpsForDelayedJobs",
	 {.queues = {{.notify = false}, {.notify = false}},
	  .jobs = 1,
	  .timed = 2,
	  .deaths = 1,
	  .polls = false}},
	{"WakeUpsOfDatabases",
	 {.queues = {{.database = 0}, {.database = 1}},
	  .deaths = 1,
	  .idle = 10 * kSecond,
	  .polls = false,
	  .turn = 4 * kSecond,
	  .patience = 20 * kSecond}},
	{"WakeUpsAfterAChange", {.jobs = 1, .changes = 2, .polls = false}},
	{"WakeUpsAfterARest",
	 {.queues = {{}, {}},
	  .clients = {0},
	  .failures = 19,
	  .fails = 1,
	  .idle = 10 * kSecond,
	  .polls = false,
	  .patience = 20 * kSecond}},
};

void
PrintTo(const Test &test, std::ostream *out)
{
	*out << test.name;
}

/* Explores the world, then walks through it at random. Returns the first violation. */
std::string
violation_of(const Plan &plan, long states, unsigned walks)
{
	std::string found = explore(plan, states);
	unsigned first = static_cast<unsigned>(env("HANDLER_SEED", 1));
	for (unsigned seed = first; seed < first + walks && found.empty(); seed++)
		found = walk(plan, seed);
	return found;
}

std::string
name_of(const testing::TestParamInfo<Test> &info)
{
	return info.param.name;
}

class Handlers : public testing::TestWithParam<Test>
{
protected:
	static unsigned walks() { return static_cast<unsigned>(2000 * env("HANDLER_WALKS", 1)); }
};

TEST_P(Handlers, LoseNothing)
{
	EXPECT_EQ(violation_of(GetParam().plan, 20'000, walks()), "");
}
INSTANTIATE_TEST_SUITE_P(Plans, Handlers, testing::ValuesIn(kPlans), name_of);

/* ---- faults ---- */

struct FaultTest
{
	const char *name;
	Fault fault;
	Plan plan;
};

const FaultTest kFaults[] = {
	{"CountedWhenItRuns", Fault::kCountedWhenItRuns, {.slots = 2}},
	{"PlaceNotGivenBack",
	 Fault::kPlaceNotGivenBack,
	 {.jobs = 1, .refusals = 1, .patience = 15 * kSecond}},
	{"PlaceLeftByScheduler",
	 Fault::kPlaceLeftByScheduler,
	 {.jobs = 1, .scheduler_deaths = 1, .refusals = 1, .patience = 20 * kSecond}},
	{"StaleOrderRuns",
	 Fault::kStaleOrderRuns,
	 {.slots = 2, .scheduler_deaths = 1, .slow_starts = true}},
	{"DeathTellsNobody",
	 Fault::kDeathTellsNobody,
	 {.queues = {{.role = 1}, {.role = 2}}, .polls = false}},
	{"ForeignSlotKept",
	 Fault::kForeignSlotKept,
	 {.queues = {{.database = 0}, {.database = 1}},
	  .jobs = 1,
	  .refusals = 1,
	  .drops = 1,
	  .patience = 15 * kSecond}},
	{"TakesAndTellsNobody",
	 Fault::kTakesAndTellsNobody,
	 {.queues = {{}, {}}, .slots = 2, .jobs = 3, .polls = false}},
	{"PlaceBackTellsNobody",
	 Fault::kPlaceBackTellsNobody,
	 {.queues = {{}, {}}, .slots = 2, .jobs = 3, .polls = false}},
	{"PassesBeforeItLooks",
	 Fault::kPassesBeforeItLooks,
	 {.queues = {{.workers = 3}}, .slots = 3, .jobs = 4}},
	{"WorkersAreClaims", Fault::kWorkersAreClaims, {.clients = {0}}},
	{"PassesNothing",
	 Fault::kPassesNothing,
	 {.queues = {{}, {}}, .slots = 2, .jobs = 3, .deaths = 1, .polls = false}},
	{"WaitsWithoutRoom",
	 Fault::kWaitsWithoutRoom,
	 {.jobs = 1,
	  .failures = 19,
	  .fails = 1,
	  .idle = 10 * kSecond,
	  .polls = false,
	  .patience = 20 * kSecond}},
	{"NoLastLook", Fault::kNoLastLook, {.polls = false}},
	{"IdleIsEnough",
	 Fault::kIdleIsEnough,
	 {.queues = {{}, {}}, .slots = 2, .jobs = 3, .polls = false}},
	{"PassedOnToNobody", Fault::kPassedOnToNobody, {.clients = {0}, .deaths = 1, .polls = false}},
	{"DefinitionTellsNobody",
	 Fault::kDefinitionTellsNobody,
	 {.jobs = 1, .changes = 2, .polls = false}},
	{"UnreadIsRead", Fault::kUnreadIsRead, {.jobs = 1, .changes = 2, .locks = 1}},
	{"LockedIsUrgent", Fault::kLockedIsUrgent, {.jobs = 1, .changes = 1, .locks = 1}},
	{"CallsOnAfterPause", Fault::kCallsOnAfterPause, {.changes = 1, .batch = 2}},
	{"NeverAsks", Fault::kNeverAsks, {.changes = 1}},
	{"TicketForEver",
	 Fault::kTicketForEver,
	 {.queues = {{.database = 0}, {.database = 1}},
	  .jobs = 3,
	  .drops = 1,
	  .patience = 15 * kSecond}},
	{"TicketOutlivesNeed",
	 Fault::kTicketOutlivesNeed,
	 {.queues = {{.role = 1}, {.role = 2}}, .jobs = 3}},
	{"NoTickets",
	 Fault::kNoTickets,
	 {.queues = {{.role = 1}, {.role = 2}},
	  .jobs = 5,
	  .call = 1500 * 1000,
	  .turn = 4 * kSecond,
	  .patience = 30 * kSecond}},
	{"NoQuantum",
	 Fault::kNoQuantum,
	 {.queues = {{.role = 1}, {.role = 2}},
	  .jobs = 5,
	  .call = 1500 * 1000,
	  .turn = 4 * kSecond,
	  .patience = 30 * kSecond}},
	{"IdleKeepsSlot",
	 Fault::kIdleKeepsSlot,
	 {.queues = {{.database = 0}, {.database = 1}},
	  .idle = 10 * kSecond,
	  .polls = false,
	  .turn = 4 * kSecond,
	  .patience = 20 * kSecond}},
};

void
PrintTo(const FaultTest &test, std::ostream *out)
{
	*out << test.name;
}

class Faults : public testing::TestWithParam<FaultTest>
{};

TEST_P(Faults, AreFound)
{
	Plan plan = GetParam().plan;
	plan.faults = only(GetParam().fault);
	std::string found = violation_of(plan, 20'000, 100'000);
	EXPECT_NE(found, "");
	printf("%s: %s\n", GetParam().name, found.substr(0, 100).c_str());
}
INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kFaults),
						 [](const auto &info) { return info.param.name; });

} // namespace
