/*
 * Tests the worlds of group_world.h: small worlds in every order of actions, larger worlds in random
 * order. A violation is reported whether or not its state was visited before.
 *
 * In the environment, GROUP_WALKS=10 multiplies the number of random walks by 10, GROUP_STATES=10
 * multiplies the number of states that an exploration may visit, and GROUP_SEED=n sets the first seed.
 */
#include "group_world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <unordered_set>

using namespace group_world;

namespace {

State state;

/* Return the actions of a path, to be printed with a violation. */
std::string
text(const std::vector<std::pair<Action, int>> &path)
{
	std::string out;
	for (auto [action, job] : path)
		out += std::string(out.empty() ? "" : ", ") + kNames[action] +
			   (action >= kFirstOfJob ? " " + std::to_string(job + 1) : "");
	return out;
}

/* ---- every order ---- */

/* Visits all states of a world, depth first, up to a number of states. */
class Explorer
{
public:
	Explorer(const Plan &plan, long most) : plan_(plan), world_(plan, state), most_(most) {}

	void run()
	{
		seen_.insert(std::hash<std::string>{}(world_.code()));
		go_on();
	}
	long states() const { return static_cast<long>(seen_.size()); }
	const std::string &wrong() const { return wrong_; }

private:
	bool good() const { return wrong_.empty() && states() < most_; }
	void report()
	{
		if (wrong_.empty() && !world_.wrong.empty())
			wrong_ = world_.wrong + " after: " + text(path_);
	}
	void go_on()
	{
		auto before = std::make_unique<State>(state);
		for (int a = 0; a < kActions && good(); a++)
			for (int job = 0; job < (a < kFirstOfJob ? 1 : world_.jobs()) && good(); job++)
			{
				path_.push_back({static_cast<Action>(a), job});
				bool done = world_.act(static_cast<Action>(a), job) && world_.check();
				report();
				if (done && good() && seen_.insert(std::hash<std::string>{}(world_.code())).second)
				{
					auto here = std::make_unique<State>(state);
					world_.drain(static_cast<unsigned>(seen_.size()));
					report();
					state = *here;
					here.reset();
					if (good())
						go_on();
				}
				path_.pop_back();
				state = *before;
			}
	}

	Plan plan_;
	World world_;
	long most_;
	std::unordered_set<size_t> seen_;
	std::vector<std::pair<Action, int>> path_;
	std::string wrong_;
};

constexpr GroupRules kNoRules{};
constexpr GroupRules kOne{.limit = 1};
constexpr GroupRules kTwo{.limit = 2};
constexpr GroupRules kFifo{.limit = 0, .fifo = true};
constexpr GroupRules kFair{.limit = 0, .fifo = false, .fair = true};
constexpr GroupRules kFairOne{.limit = 1, .fifo = false, .fair = true};
constexpr GroupRules kFairFifo{.limit = 0, .fifo = true, .fair = true};
constexpr GroupRules kRate{.limit = 0, .fifo = false, .fair = false, .rate = 1, .period = kPeriod};
/* The library ignores fair in a queue with group_rate_limit, because of the cost (docs/decisions.md). */
constexpr GroupRules kFairRate{
	.limit = 0, .fifo = false, .fair = true, .rate = 1, .period = kPeriod};
constexpr GroupRules kFairFifoRate{
	.limit = 0, .fifo = true, .fair = true, .rate = 1, .period = kPeriod};
constexpr GroupRules kFairRateTwo{
	.limit = 0, .fifo = false, .fair = true, .rate = 2, .period = 2 * kPeriod};
constexpr GroupRules kRateTwo{
	.limit = 0, .fifo = false, .fair = false, .rate = 2, .period = 2 * kPeriod};

long
env(const char *name, long otherwise)
{
	const char *value = getenv(name);
	return value != nullptr ? atol(value) : otherwise;
}

void
explore(const Plan &plan)
{
	static constexpr long kStates = 6'000;
	Explorer explorer(plan, kStates * env("GROUP_STATES", 1));
	explorer.run();
	EXPECT_EQ(explorer.wrong(), "");
	testing::Test::RecordProperty("states", static_cast<int>(explorer.states()));
}

const GroupRules kAllRules[] = {kOne,	   kTwo,  kFifo,	 kFair,		   kFairOne,
								kFairFifo, kRate, kFairRate, kFairFifoRate};

class EveryOrder : public testing::TestWithParam<int>
{
protected:
	GroupRules rules() const { return kAllRules[GetParam()]; }
};

TEST_P(EveryOrder, ThreeJobsOfOneGroup)
{
	explore({.jobs = {{1}, {1}, {1}},
			 .rules = {rules()},
			 .passes = rules().rate > 0 ? 3 : 0,
			 .undoes = true});
}
TEST_P(EveryOrder, TwoGroupsInASmallWindow)
{
	explore({.jobs = {{1}, {1, 1}, {2}},
			 .rules = {rules()},
			 .passes = rules().rate > 0 ? 2 : 0,
			 .abandons = true});
}
TEST_P(EveryOrder, FourGroups)
{
	explore({.jobs = {{1}, {2, 1}, {3}, {4, 1}},
			 .rules = {rules()},
			 .leases = 1,
			 .passes = rules().rate > 0 ? 1 : 0,
			 .crosses = false});
}
TEST_P(EveryOrder, JobsWithoutAGroup)
{
	explore(
		{.jobs = {{0}, {1, 1}, {0, 1}}, .rules = {rules()}, .passes = rules().rate > 0 ? 1 : 0});
}
TEST_P(EveryOrder, JobsWithoutAGroupBehindOthers)
{
	explore({.jobs = {{1}, {2}, {0}, {1, 1}, {0, 1}},
			 .rules = {rules()},
			 .leases = 1,
			 .skips = 1,
			 .crosses = false});
}
TEST_P(EveryOrder, Retries)
{
	explore({.jobs = {{1}, {1}},
			 .rules = {rules()},
			 .ticks = 1,
			 .passes = rules().rate > 0 ? 2 : 0,
			 .retries = true});
}
TEST_P(EveryOrder, DelayedJobs)
{
	explore({.jobs = {{1, 0, 1}, {1}, {2, 1, 1}},
			 .rules = {rules()},
			 .timer = 1,
			 .batch = 1,
			 .ticks = 2});
}
TEST_P(EveryOrder, AClockThatIsSetBack)
{
	explore({.jobs = {{1, 0, 1}, {1}, {2, 1}},
			 .rules = {rules()},
			 .timer = 1,
			 .batch = 1,
			 .ticks = 2,
			 .back = true});
}
TEST_P(EveryOrder, Deletes)
{
	explore({.jobs = {{1}, {1}, {2}}, .rules = {rules()}, .deletes = true});
}
TEST_P(EveryOrder, OtherGroupsByHand)
{
	explore({.jobs = {{1}, {1}, {2}}, .rules = {rules()}, .leases = 1, .regroups = true});
}
TEST_P(EveryOrder, MovesToAnotherSegment)
{
	explore({.jobs = {{1}, {1, 1}, {2}},
			 .rules = {rules()},
			 .leases = 1,
			 .moves = true,
			 .abandons = true});
}
TEST_P(EveryOrder, MovesOfJobsInASmallMemory)
{
	explore({.jobs = {{1}, {2}, {3}, {0}},
			 .rules = {rules()},
			 .leases = 1,
			 .crosses = false,
			 .moves = true});
}
TEST_P(EveryOrder, PreparedTransactions)
{
	explore({.jobs = {{1}, {2}, {1, 1}}, .rules = {rules()}, .leases = 1, .prepares = true});
}
TEST_P(EveryOrder, PreparedChangesOfGroups)
{
	explore({.jobs = {{1}, {1, 1}, {2}},
			 .rules = {rules()},
			 .leases = 1,
			 .prepares = true,
			 .regroups = true});
}
TEST_P(EveryOrder, PreparedDelayedJobs)
{
	explore({.jobs = {{1, 0, 1}, {1}, {0, 1, 1}},
			 .rules = {rules()},
			 .timer = 1,
			 .batch = 1,
			 .ticks = 1,
			 .prepares = true});
}
TEST_P(EveryOrder, PreparedTransactionsAndAClockThatIsSetBack)
{
	explore({.jobs = {{1}, {1}},
			 .rules = {rules()},
			 .timer = 1,
			 .batch = 1,
			 .ticks = 1,
			 .back = true,
			 .prepares = true});
}
TEST_P(EveryOrder, RulesThatComeAndGo)
{
	explore({.jobs = {{1}, {1}, {2}}, .rules = {kNoRules, rules()}, .leases = 2});
}
TEST_P(EveryOrder, Restarts)
{
	explore({.jobs = {{1}, {1}, {2}},
			 .rules = {rules()},
			 .passes = rules().rate > 0 ? 2 : 0,
			 .restarts = true});
}
INSTANTIATE_TEST_SUITE_P(Rules, EveryOrder,
						 testing::Range(0, static_cast<int>(std::size(kAllRules))));

/* ---- at random ---- */

Plan
random_plan(std::mt19937 &random, bool live)
{
	auto pick = [&](int n) { return static_cast<int>(random() % n); };
	static const GroupRules all[] = {kNoRules, kOne,	  kTwo,			kFifo,
									 kFair,	   kFairOne,  kFairFifo,	kRate,
									 kRateTwo, kFairRate, kFairRateTwo, kFairFifoRate};
	Plan plan;
	bool crowded = pick(3) == 0; /* many groups, few places */
	int groups = crowded ? 6 + pick(5) : 1 + pick(6);
	int priorities = 1 + pick(6);
	plan.ticks = pick(3);
	for (int n = crowded ? 8 + pick(5) : 3 + pick(6); n > 0; n--)
		plan.jobs.push_back({pick(groups + 1), pick(priorities), plan.ticks > 0 && pick(4) == 0});
	plan.slow = crowded && pick(2) == 0;
	plan.rules = {all[crowded ? 4 + pick(3) : pick(std::size(all))]};
	for (int n = live ? 1 + pick(3) : 0; n > 0; n--)
		plan.rules.push_back(all[pick(std::size(all))]);
	plan.window = crowded ? 1 : 1 + pick(5);
	plan.timer = 1 + pick(3);
	plan.back = plan.ticks > 0 && pick(3) == 0;
	plan.leases = 1 + pick(6);
	plan.remembered = pick(4) > 0 ? pick(4) : kMaxJobs;
	plan.batch = 1 + pick(4);
	plan.skips = pick(3);
	plan.passes = 12;
	plan.retries = pick(2);
	plan.undoes = pick(2);
	plan.prepares = pick(3) == 0;
	plan.deletes = pick(3) == 0;
	plan.regroups = pick(3) == 0;
	plan.moves = pick(3) == 0;
	plan.restarts = pick(4) == 0;
	plan.abandons = pick(2);
	return plan;
}

void
walk(bool live)
{
	static constexpr int kWalks = 20;
	long seeds = 1500 * env("GROUP_WALKS", 1);
	long first = env("GROUP_SEED", live ? 500'000 : 1);
	int most_rounds = 0;
	for (long seed = first; seed < first + seeds && !testing::Test::HasFailure(); seed++)
	{
		std::mt19937 random(static_cast<unsigned>(seed));
		Plan plan = random_plan(random, live);
		for (int w = 0; w < kWalks; w++)
		{
			World world(plan, state);
			std::vector<std::pair<Action, int>> path;
			int length = 10 + static_cast<int>(random() % 120);
			for (int tries = 0; length > 0 && tries < 2000 && world.wrong.empty(); tries++)
			{
				auto action = static_cast<Action>(random() % kActions);
				if ((action == kRestart || action == kRules || action == kDelete) &&
					random() % 8 != 0)
					continue;
				if (plan.slow && action == kRead && random() % 8 != 0)
					continue;
				int job = action < kFirstOfJob ? 0 : static_cast<int>(random() % plan.jobs.size());
				path.push_back({action, job});
				world.act(action, job) ? static_cast<void>(length--) : path.pop_back();
				world.check();
			}
			if (world.wrong.empty())
				world.drain(static_cast<unsigned>(random()));
			most_rounds = std::max(most_rounds, world.most_rounds);
			if (world.wrong.empty())
				continue;
			ADD_FAILURE() << "seed " << seed << " walk " << w << " window " << plan.window
						  << " leases " << plan.leases << " rules " << plan.rules[0].limit
						  << plan.rules[0].fifo << plan.rules[0].fair << plan.rules[0].rate
						  << " remembered " << plan.remembered << ": " << world.wrong
						  << " after: " << text(path);
			return;
		}
	}
	testing::Test::RecordProperty("most_rounds", most_rounds);
	printf("%ld walks, a claim needs at most %d rounds for a job\n", seeds * kWalks, most_rounds);
}

TEST(AtRandom, OneRule)
{
	walk(false);
}
TEST(AtRandom, RulesThatChange)
{
	walk(true);
}

} // namespace
