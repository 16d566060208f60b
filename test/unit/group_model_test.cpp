/*
 * A model test of the Schedule of a queue with rules for groups. The Schedule is the real one;
 * actors do what sessions and workers do, in every order (small worlds) or in random order (larger
 * worlds). Like schedule_model_test.cpp, with the parts that groups add: claims that count and
 * verify, probes step by step, leases without a slot, rows that SQL changes, rules that change, and
 * few entries of groups, so that idle entries are given up. If groups have a rate limit, a second
 * clock never goes back.
 *
 * A Fault breaks one rule in the actors, never in Schedule. The test must notice each Fault.
 */
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using pgq::GroupRules;
using pgq::Hint;
using pgq::Key;
using pgq::Probe;
using pgq::Schedule;
using pgq::TimerKey;
using Admission = Schedule::Admission;

constexpr int kMaxJobs = 6;
constexpr int kMaxSize = 5;	   /* of window, timer, batch */
constexpr int kMaxEntries = 4; /* of groups */
constexpr int kMaxProbes = 2;
constexpr int64_t kPeriod = 16; /* of rates: one unit is a part */
constexpr int64_t kStep = 9;	/* so that a start is forgotten after two */

enum class Fault
{
	kNone,
	kPopsAll,			 /* no group is asked whether it has room */
	kRunsOn,			 /* what is lost, or put aside, keeps its slot */
	kEndIsQuiet,		 /* the end of a lease does not have its group looked at */
	kFreedWhereTheRowIs, /* the slot is freed in the group that the row has now */
	kAnyGroupFits,		 /* a row that has another group now goes out */
	kNobodyIsBehind,	 /* fifo: no look at earlier ones before a job goes out */
	kLeasedPassUnseen,	 /* a probe passes leased rows over, and no lease remembers them */
	kProbeErrorLeavesCursor,
	kProbeSkipsUnpicked, /* rows that were read, but not filed since there is no room, are forgotten */
	kProbeEndsAtBatch, /* rows beyond those that were read are forgotten */
	kDeleteIsQuiet,	   /* fifo: a row that was deleted by hand is nobody's news */
	kRegroupIsQuiet,   /* fifo: that a row has left its group by hand is not its old group's news */
	kRunningUncounted, /* what runs when the rules come does not count */
	kHintWithoutEntryIsDropped,
	kMissedGoesByKey, /* a lease that has met a hint takes one with the same key, of another group, for the same */
	kHeldIsQuiet, /* a hint that was admitted, but its job is leased, leaves its group unasked */
	kTimeIsQuiet, /* nobody looks at groups whose time has come */
	kStartsWhenTaken, /* a start is counted when the job is taken, not when it goes out */
	kStartUncounted,  /* what goes out of a group that has no entry is not counted */
	kTakenForGood,	  /* what was taken and does not go out counts for ever */
	kCountedWithoutEntry, /* what runs when the rules come is taken for counted, although there is no entry */
	kWrongInPlace, /* an actor meets what may not be, in a step that leads to a known state */
};

struct JobPlan
{
	int64_t group;
	int32_t priority = 0;
	int64_t delay = 0;	/* 0: due when enqueued */
	bool there = false; /* from the beginning, and only the table knows it */
};

struct Plan
{
	std::vector<JobPlan> jobs;
	std::vector<GroupRules> rules; /* one after the other */
	int window = 1;
	int timer = 2;
	int batch = 2;	/* rows read in one refill */
	int beyond = 1; /* rows that a probe reads, beyond as many as there is room */
	int probes = 1; /* groups in one round */
	int entries = 3;
	int most_aside = INT_MAX; /* entries of groups that do not run, of those */
	bool crowded = false; /* fair: there may be no entry, so even in a group others may go first */
	int64_t ticks = 0;	  /* how far the clock goes */
	bool clock_goes_back = false;
	int64_t slack = 100;
	int64_t passes = 0;	  /* how often time goes by for rates */
	int rewrites = 0;	  /* of each job: by retries, by hand */
	bool crosses = false; /* a job may be enqueued before one that has a smaller id */
	bool retries = true;
	bool sheds = false;
	bool prepares = false; /* changes by hand: everything is read again when they are there */
	bool parks = false;
	bool loses = false;
	bool verbs = false;		  /* the job that waits is leased, to be cancelled perhaps */
	bool moves = false;		  /* UPDATE of the priority by hand */
	bool regroups = false;	  /* UPDATE of the group by hand */
	bool deletes = false;	  /* by hand */
	bool refill_steps = true; /* others work while a window refill does */
	Fault fault = Fault::kNone;
};

enum ActionKind : uint8_t
{
	/* of the world */
	kTick,
	kTickBack,
	kFire,
	kWindowBegin,
	kWindowRead,
	kWindowMerge,
	kWindowPublish,
	kWindowAbandon,
	kTimerRefill,
	kProbeBegin,
	kProbeRead,
	kProbePublish,
	kProbeAbandon,
	kChangeRules,
	kPass,
	kPop,
	/* of a job */
	kInsert,
	kInsertCallback,
	kShedCallback,
	kVerify,
	kSettle,
	kGiveBack,
	kPark,
	kLose,
	kTakeByVerb,
	kAck,
	kRetryNow,
	kRetryLater,
	kEndLease,
	kMove,
	kRegroup,
	kDelete,
	kRewriteCallback,
	kPreparedRewrite,
	kActionKinds
};

constexpr const char *kActionNames[] = {"clock forward",
										"clock back",
										"fire",
										"window: begin",
										"window: read",
										"window: merge",
										"window: publish",
										"window: abandon",
										"timer: refill",
										"probe: begin",
										"probe: read",
										"probe: publish",
										"probe: abandon",
										"change the rules",
										"time goes by",
										"pop",
										"insert",
										"file the insert",
										"shed the insert",
										"verify",
										"settle",
										"give back",
										"park",
										"lose",
										"take by a verb",
										"ack",
										"retry now",
										"retry later",
										"end the lease",
										"move by hand",
										"regroup by hand",
										"delete by hand",
										"file the change",
										"prepared: read all again"};
static_assert(std::size(kActionNames) == kActionKinds);

struct Action
{
	ActionKind kind;
	uint8_t job;
};

struct Job
{
	enum Row : uint8_t
	{
		kNotYet,
		kLive,
		kGone
	} row;
	enum LeaseState : uint8_t
	{
		kFree,
		kClaiming, /* popped, the row not yet looked at */
		kDead,	   /* looked at: it is gone */
		kUnfit,	   /* looked at: it has another key or group */
		kBehind,   /* looked at: fifo, and there is an earlier one */
		kHeld,
		kParked,
		kLost,
		kVerb,
		kAcked, /* the row is gone, the callback has not run */
		kRetried,
	} lease;
	bool insert_unfiled; /* the callback of its enqueue is still to come */
	bool rewrite_unfiled;
	bool ghost_unfiled; /* that of a change by hand: it tells of the old row, too */
	uint8_t rewrites;
	bool failed; /* an attempt has */
	bool regrouped;
	uint8_t filed_earlier; /* jobs of its group that had been filed when it was inserted */
	int64_t enqueued_at;
	Key key; /* of the live version */
	int64_t group;
	Hint inserted, rewritten, ghost; /* what the callbacks will file */

	/* Of the lease: */
	Hint leased;
	Hint found;			  /* if kUnfit */
	Hint missed;		  /* the first hint that met the lease and differs from it */
	uint8_t missed_count; /* 2: more than one */
	bool slot;
	bool counted;
	bool fifo;			/* that was the rule when it was popped */
	int8_t most;		/* so were the groups allowed to run */
	int8_t rate;		/* ... and to start */
	int64_t slot_group; /* where it counts */
	int64_t out_group;	/* handed out: what the row said */
	int64_t from;

	bool delayed() const { return key.run_at > enqueued_at || failed; }
	Hint hint() const
	{
		return {.key = key, .place = {rewrites, 0, 0}, .delayed = delayed(), .group = group};
	}

	/* Live, unleased, and whoever wrote the row has run its callback: the invariant speaks of it. */
	bool filed() const
	{
		return row == kLive && lease == kFree && !(rewrites > 0 ? rewrite_unfiled : insert_unfiled);
	}
	/* Others of that group may have to wait for something that this one will do. */
	bool owes(int64_t id) const
	{
		bool left = row != kLive || group != id;
		return (slot && slot_group == id) || (ghost_unfiled && ghost.group == id) ||
			   (rewrite_unfiled && left && rewritten.group == id) ||
			   (lease != kFree && left &&
				(leased.group == id || missed_count > 1 ||
				 (missed_count > 0 && missed.group == id)));
	}
};

/* A refill of the window, between the calls of Schedule. */
struct WindowScan
{
	enum Phase : uint8_t
	{
		kIdle,
		kReading,
		kMerging
	} phase;
	Key start;
	Key last; /* key of the last row read */
	Key end;
	int64_t due_line;
	int64_t horizon;
	int n, merged;
	std::array<Hint, kMaxSize> rows;
};

/* A job of a group has gone out. */
struct Start
{
	int64_t group;
	int64_t at;
	int8_t rate; /* how many might start when it was popped; 0: any number */
};

/* A round of probes. */
struct ProbeScan
{
	bool active;
	bool fifo;
	bool read; /* that of the group that is its turn */
	int n, at;
	Probe probes[kMaxProbes];
	int64_t due_line;
	int64_t horizon;
	int rows_n;
	std::array<Hint, kMaxJobs> rows;
	Key end; /* the first that was not read */
};

/*
 * Everything there is. Its trees point into themselves, so only `world` below may
 * be used; a copy of it can be put back into its place.
 */
struct World
{
	Schedule schedule;
	Schedule::Window::Node window[kMaxSize];
	Schedule::Timer::Node timer[kMaxSize];
	pgq::Group groups[kMaxEntries];
	int64_t clock;
	int64_t monotonic;
	uint8_t rules; /* of those of the plan */
	int starts_n;
	std::array<Start, 4 * kMaxJobs> starts; /* those that may count */
	Job jobs[kMaxJobs];
	WindowScan scan;
	ProbeScan probe;
	const char *wrong; /* what an actor has met */
};
static_assert(std::is_trivially_copyable_v<World>);

World world;

std::string
text(const Key &k)
{
	if (k == Key::lowest() || k == Key::highest())
		return k == Key::lowest() ? "-inf" : "+inf";
	std::ostringstream out;
	out << "(" << k.priority << " " << k.run_at << " #" << k.job_id << ")";
	return out.str();
}

std::string
text(const TimerKey &k)
{
	if (k == TimerKey::lowest() || k == TimerKey::highest())
		return k == TimerKey::lowest() ? "-inf" : "+inf";
	std::ostringstream out;
	out << "(" << k.run_at << " #" << k.job_id << ")";
	return out.str();
}

/* The same string means the same future. */
class Code
{
public:
	explicit Code(std::string &code) : code_(code) {}
	void put(int64_t n) { code_ += static_cast<char>(std::clamp<int64_t>(n, -128, 127)); }
	void put(const Key &k) { put(k.priority), put(k.run_at), put(k.job_id); }
	void put(const TimerKey &k) { put(k.run_at), put(k.job_id); }
	void put(const Hint &h) { put(h.key), put(h.place.block), put(h.delayed), put(h.group); }

private:
	std::string &code_;
};

class Model
{
public:
	explicit Model(const Plan &plan) : plan_(plan), schedule_(world.schedule)
	{
		world = World{};
		schedule_.init(world.window, plan.window, world.timer, plan.timer, plan.slack);
		schedule_.reset(plan.rules[0]);
		for (int i = 0; i < plan.entries; i++)
			schedule_.groups().give(&world.groups[i]);
		schedule_.groups().put_aside_at_most(plan.most_aside);
		bool unloaded = false;
		for (size_t i = 0; i < plan.jobs.size(); i++)
			if (plan.jobs[i].there)
				unloaded = insert(static_cast<int>(i), false);
		schedule_.fire(world.clock);
		if (!unloaded)
		{
			schedule_.begin_timer_refill(0);
			schedule_.finish_timer_refill(TimerKey::highest());
			schedule_.begin_window_refill(0);
			schedule_.finish_window_refill(Key::highest());
		}
		for (uint8_t kind = 0; kind < kActionKinds; kind++)
			for (uint8_t job = 0; job < (kind < kInsert ? 1 : plan.jobs.size()); job++)
				actions_.push_back({static_cast<ActionKind>(kind), job});
	}

	const std::vector<Action> &actions() const { return actions_; }

	/* False: it cannot happen now, and nothing has changed. */
	bool act(const Action &action)
	{
		switch (action.kind)
		{
			case kTick:
				return world.clock < plan_.ticks && (world.clock++, true);
			case kTickBack:
				return plan_.clock_goes_back && world.clock > 0 && (world.clock--, true);
			case kFire:
				if (faulty(Fault::kWrongInPlace))
					return wrong("met in a step that changes nothing");
				schedule_.fire(world.clock);
				return plan_.ticks > 0;
			case kWindowBegin:
				return plan_.refill_steps ? begin_window() : refill_window();
			case kWindowRead:
				return read_window();
			case kWindowMerge:
				return merge_window();
			case kWindowPublish:
				return publish_window();
			case kWindowAbandon:
				return abandon_window();
			case kTimerRefill:
				return refill_timer();
			case kProbeBegin:
				return begin_probes();
			case kProbeRead:
				return read_probe();
			case kProbePublish:
				return publish_probe();
			case kProbeAbandon:
				return abandon_probes();
			case kChangeRules:
				return change_rules();
			case kPass:
				return pass();
			case kPop:
				return pop();
			default:
				return act_on_job(action.kind, world.jobs[action.job], action.job);
		}
	}

	/* What is wrong with the world, if anything. */
	std::optional<std::string> violation() const
	{
		if (world.wrong != nullptr)
			return complain(world.wrong);
		if (rules().rate == 0 && schedule_.groups().rates().next_time() != INT64_MAX)
			return complain("without a rate a group waits for its time");
		for (const Job &job : jobs())
		{
			if (!job.filed() || (in_fifo(job) && !is_settled_head(job)))
				continue;
			Hint hint = job.hint();
			bool has_room = !is_grouped(job) ||
							(running(job.group) < rules().most() && room_to_start(job.group) > 0);
			if (schedule_.due(hint) && has_room)
			{
				if (schedule_.poppable() && comes_before_window(hint))
					return complain("poppable, but smaller is", job);
				if (schedule_.exhausted())
					return complain("exhausted, but ready is", job);
			}
			if (!schedule_.due(hint) && schedule_.next_timer() > hint.key.run_at &&
				!schedule_.leads_to(hint))
				return complain("next_timer() misses", job);
			if (!schedule_.covers(hint) && !schedule_.leads_to(hint))
				return complain("forgotten", job);
		}
		return {};
	}

	/*
	 * Everybody else comes to an end, and a lone consumer takes what there is, waiting as
	 * long as next_timer() tells it to. keep: it ends a job only if it gets no other.
	 */
	std::optional<std::string> drain(bool keep)
	{
		end_everything();
		for (int patience = 0; patience < 500; patience++)
		{
			if (auto bad = violation())
				return bad;
			schedule_.fire(world.clock);
			if (!count_some())
				return complain("what runs cannot be counted");
			if (schedule_.poppable())
			{
				if (auto bad = consume(keep))
					return bad;
				continue;
			}
			if (look_for_more())
				continue;
			if (!schedule_.exhausted())
				return complain("neither poppable nor exhausted, and nothing is wanted");
			if (end_one_held() || refill_timer() || wait_for_rates())
				continue;
			if (schedule_.next_timer() == INT64_MAX)
				return left_over();
			if (schedule_.next_timer() <= schedule_.due_line())
				return complain("next_timer() is in the past and nothing came of it");
			world.clock = schedule_.next_timer();
		}
		return complain("the consumer goes round in circles");
	}

	std::string encode() const
	{
		std::string text;
		text.reserve(256);
		Code code(text);
		code.put(world.clock), code.put(world.rules);
		encode_rates(code);
		encode_schedule(code);
		encode_groups(code);
		encode_scans(code);
		for (const Job &job : jobs())
			encode_job(code, job);
		return text;
	}

	std::string describe() const
	{
		std::ostringstream out;
		auto put_hint = [&](const Hint &h) {
			out << " " << text(h.key) << static_cast<char>('@' + h.group);
		};
		out << "clock " << world.clock << ", D " << schedule_.due_line() << ", W";
		schedule_.window().for_each(put_hint);
		out << ", C " << text(schedule_.cursor())
			<< (schedule_.window_refill_active() ? " (refill)" : "") << ", T";
		schedule_.timer().for_each(put_hint);
		out << ", TC " << text(schedule_.timer_cursor());
		schedule_.groups().for_each([&](const pgq::Group *g) {
			out << ", " << static_cast<char>('@' + g->id) << ": runs " << g->running;
			if (g->aside)
				out << " aside from " << text(g->known());
			out << (g->pending ? " pending" : "") << (g->probing ? " probing" : "");
			if (rules().fair && (g->pending || g->probing))
				out << " rank " << g->rank;
			if (g->rate.wait != pgq::GroupRate::kNone)
				out << (g->rate.wait == pgq::GroupRate::kFading ? " fading to " : " throttled to ")
					<< g->rate.at;
			if (g->floor != INT64_MIN)
				out << " floor #" << g->floor;
		});
		return out.str();
	}

	static std::string describe(const Action &action)
	{
		std::string name = kActionNames[action.kind];
		return action.kind < kInsert ? name : name + " #" + std::to_string(action.job + 1);
	}

private:
	bool faulty(Fault fault) const { return plan_.fault == fault; }

	struct Jobs
	{
		Job *first;
		size_t n;
		Job *begin() const { return first; }
		Job *end() const { return first + n; }
	};
	Jobs jobs() const { return {world.jobs, plan_.jobs.size()}; }

	std::string complain(const char *what) const { return std::string(what) + ": " + describe(); }
	std::string complain(const char *what, const Job &job) const
	{
		return std::string(what) + " " + text(job.key) + static_cast<char>('@' + job.group) +
			   (job.delayed() ? " delayed: " : ": ") + describe();
	}
	bool wrong(const char *what)
	{
		if (world.wrong == nullptr)
			world.wrong = what;
		return true;
	}

	/* ---- groups, as the rows say ---- */

	const GroupRules &rules() const { return schedule_.groups().rules(); }
	bool is_grouped(const Job &job) const { return job.group != 0 && rules().count(); }

	/* Of a queue with fair only the priority is to be seen before a pop. */
	bool comes_before_window(const Hint &hint) const
	{
		const Key &first = schedule_.window().first();
		return rules().fair ? hint.key.priority > first.priority : hint.key < first;
	}
	bool in_fifo(const Job &job) const { return job.group != 0 && rules().fifo; }

	int running(int64_t group) const
	{
		return static_cast<int>(std::count_if(jobs().begin(), jobs().end(), [&](const Job &job) {
			return job.slot && job.leased.group == group && job.lease != Job::kParked &&
				   job.lease != Job::kLost;
		}));
	}

	/* How many more of it may start now, as far as is known of it. */
	int room_to_start(int64_t group) const
	{
		pgq::GroupRates &rates = schedule_.groups().rates();
		if (!rates.on())
			return kMaxJobs;
		if (pgq::Group *known = schedule_.groups().find(group))
			return rates.room(known);
		return rates.others_have_room();
	}

	/* The live one with the smallest id, from that on. */
	const Job *head_of(int64_t group, int64_t from) const
	{
		for (const Job &job : jobs())
			if (job.row == Job::kLive && job.group == group && job.key.job_id >= from)
				return &job;
		return nullptr;
	}

	/* What was before it has gone, and everybody has been told. */
	bool is_settled_head(const Job &job) const
	{
		return head_of(job.group, INT64_MIN) == &job &&
			   std::none_of(jobs().begin(), jobs().end(),
							[&](const Job &other) { return other.owes(job.group); });
	}

	/* ---- jobs ---- */

	bool insert(int index, bool unfiled)
	{
		Job &job = world.jobs[index];
		const JobPlan &plan = plan_.jobs[index];
		if (job.row != Job::kNotYet)
			return false;
		for (int i = 0; i < index && !plan_.crosses; i++)
			if (world.jobs[i].row == Job::kNotYet)
				return false;
		job.enqueued_at = world.clock;
		job.key = {plan.priority, world.clock + plan.delay, index + 1};
		job.group = plan.group;
		job.row = Job::kLive;
		job.inserted = job.hint();
		job.insert_unfiled = unfiled;
		for (int i = 0; i < index; i++)
			if (world.jobs[i].group == job.group && world.jobs[i].row == Job::kLive &&
				!world.jobs[i].insert_unfiled)
				job.filed_earlier |= 1 << i;
		return true;
	}

	bool act_on_job(ActionKind kind, Job &job, int index)
	{
		switch (kind)
		{
			case kInsert:
				return insert(index, true);
			case kInsertCallback:
				return file_insert(job);
			case kShedCallback:
				return shed_insert(job);
			case kVerify:
				return job.lease == Job::kClaiming && verify(job);
			case kSettle:
				return settle(job);
			case kGiveBack:
				return may_give_back(job) && give_back(job);
			case kPark:
				return plan_.parks && job.lease == Job::kClaiming && set_aside(job, Job::kParked);
			case kLose:
				return plan_.loses && job.lease == Job::kHeld && set_aside(job, Job::kLost);
			case kTakeByVerb:
				return take_by_verb(job);
			case kAck:
				return ack(job);
			case kRetryNow:
				return retry(job, {job.key.priority, world.clock, job.key.job_id});
			case kRetryLater:
				return plan_.ticks > 0 &&
					   retry(job, {job.key.priority, world.clock + 1, job.key.job_id});
			case kEndLease:
				return (job.lease == Job::kAcked || job.lease == Job::kRetried) && end_lease(job);
			case kMove:
				return plan_.moves &&
					   rewrite_by_hand(job, {job.key.priority + 2, job.key.run_at, job.key.job_id},
									   job.group);
			case kRegroup:
				return plan_.regroups && rewrite_by_hand(job, job.key, job.group == 1 ? 2 : 1);
			case kDelete:
				return delete_by_hand(job);
			case kRewriteCallback:
				return file_rewrite(job);
			case kPreparedRewrite:
				return read_all_again(job);
			default:
				return false;
		}
	}

	/* ---- what is filed ---- */

	bool file_insert(Job &job)
	{
		if (!job.insert_unfiled)
			return false;
		job.insert_unfiled = false;
		schedule_.fire(world.clock);
		schedule_.file(job.inserted);
		return true;
	}

	bool shed_insert(Job &job)
	{
		if (!plan_.sheds || !job.insert_unfiled)
			return false;
		job.insert_unfiled = false;
		if (!job.inserted.delayed)
			schedule_.raise_horizon(job.inserted.key.run_at);
		schedule_.pull_back(job.inserted.key, job.inserted.timer_key());
		schedule_.fire(world.clock);
		return true;
	}

	/* The callback of a retry, which has ended the lease before; or of what was done by hand. */
	bool file_rewrite(Job &job)
	{
		if ((!job.rewrite_unfiled && !job.ghost_unfiled) || job.lease == Job::kRetried)
			return false;
		schedule_.fire(world.clock);
		if (job.ghost_unfiled)
			schedule_.look_at_group(job.ghost.group);
		if (job.rewrite_unfiled)
			schedule_.file(job.rewritten);
		job.rewrite_unfiled = job.ghost_unfiled = false;
		job.rewritten = job.ghost = {};
		return true;
	}

	/* As after COMMIT PREPARED of what was done by hand. */
	bool read_all_again(Job &job)
	{
		if (!plan_.prepares || job.lease == Job::kRetried ||
			(!job.rewrite_unfiled && !job.ghost_unfiled))
			return false;
		job.rewrite_unfiled = job.ghost_unfiled = false;
		job.rewritten = job.ghost = {};
		schedule_.doubt_horizon(plan_.ticks);
		schedule_.pull_back(Key::lowest(), TimerKey::lowest());
		schedule_.fire(world.clock);
		return true;
	}

	/* ---- rows that change ---- */

	bool may_rewrite(const Job &job) const
	{
		return job.row == Job::kLive && job.rewrites < plan_.rewrites && !job.rewrite_unfiled &&
			   !job.ghost_unfiled;
	}

	bool rewrite(Job &job, const Key &key, int64_t group)
	{
		job.key = key;
		job.group = group;
		job.rewrites++;
		job.rewritten = job.hint();
		job.rewrite_unfiled = true;
		return true;
	}

	bool retry(Job &job, const Key &key)
	{
		if (!plan_.retries || !may_rewrite(job) ||
			(job.lease != Job::kHeld && job.lease != Job::kLost))
			return false;
		job.failed = true;
		job.lease = Job::kRetried;
		return rewrite(job, key, job.group);
	}

	/* Who has written the row holds it until its callback has run. */
	bool rewrite_by_hand(Job &job, const Key &key, int64_t group)
	{
		if (!may_rewrite(job) || job.lease == Job::kRetried || job.group == 0)
			return false;
		if (group != job.group && rules().fifo && !faulty(Fault::kRegroupIsQuiet))
		{
			job.ghost = job.hint();
			job.ghost_unfiled = true;
		}
		job.regrouped |= group != job.group;
		return rewrite(job, key, group);
	}

	bool delete_by_hand(Job &job)
	{
		if (!plan_.deletes || job.row != Job::kLive || job.lease == Job::kRetried ||
			job.ghost_unfiled || job.rewrite_unfiled)
			return false;
		if (rules().fifo && job.group != 0 && !faulty(Fault::kDeleteIsQuiet))
		{
			job.ghost = job.hint();
			job.ghost_unfiled = true;
		}
		job.row = Job::kGone;
		return true;
	}

	bool ack(Job &job)
	{
		if (job.row != Job::kLive ||
			(job.lease != Job::kHeld && job.lease != Job::kLost && job.lease != Job::kVerb))
			return false;
		job.row = Job::kGone;
		job.lease = Job::kAcked;
		return true;
	}

	/* ---- leases ---- */

	bool take_by_verb(Job &job)
	{
		if (!plan_.verbs || job.row != Job::kLive || job.lease != Job::kFree)
			return false;
		job.lease = Job::kVerb;
		job.leased = job.hint();
		return true;
	}

	void free_slot(Job &job)
	{
		int64_t group = faulty(Fault::kFreedWhereTheRowIs) ? job.leased.group : job.slot_group;
		if (job.slot && job.slot_group != 0)
			schedule_.release_group(group, is_claiming(job) && !faulty(Fault::kTakenForGood));
		job.slot = job.counted = job.fifo = false;
		job.slot_group = job.out_group = job.from = job.most = job.rate = 0;
	}

	/* A claim has it, and has not handed it out. */
	bool is_claiming(const Job &job) const
	{
		bool out = job.lease != Job::kClaiming && job.lease != Job::kDead &&
				   job.lease != Job::kUnfit && job.lease != Job::kBehind;
		return !out && !faulty(Fault::kStartsWhenTaken);
	}

	bool set_aside(Job &job, Job::LeaseState state)
	{
		if (!faulty(Fault::kRunsOn))
			free_slot(job);
		job.lease = state;
		return true;
	}

	/* What met the lease meanwhile is filed, for the row may have been changed since. */
	bool end_lease(Job &job)
	{
		Hint leased = job.leased, missed = job.missed;
		int missed_count = job.missed_count;
		bool ran = !is_claiming(job) && job.lease != Job::kParked && job.lease != Job::kVerb;
		free_slot(job);
		job.lease = Job::kFree;
		job.leased = job.missed = job.found = {};
		job.missed_count = 0;
		if (leased.group != 0 && rules().count() && !faulty(Fault::kEndIsQuiet))
			schedule_.look_at_group(leased.group);
		if (ran && rules().count())
			schedule_.let_fewer_wait();
		if (missed_count > 1)
			schedule_.pull_back(Key::lowest(), TimerKey::lowest());
		if (missed_count > 0)
			schedule_.file(missed);
		return true;
	}

	static bool may_give_back(const Job &job)
	{
		return job.lease == Job::kClaiming || job.lease == Job::kHeld ||
			   job.lease == Job::kParked || job.lease == Job::kLost || job.lease == Job::kVerb;
	}

	/* The lease ends and the job is as it was: what was popped is filed. */
	bool give_back(Job &job)
	{
		Hint hint = job.leased;
		end_lease(job);
		schedule_.file(hint);
		return true;
	}

	void miss(Job &job, const Hint &hint)
	{
		if (hint.key == job.leased.key && hint.place == job.leased.place)
			return;
		if (job.missed_count > 0 && hint.key == job.missed.key &&
			(hint.group == job.missed.group || faulty(Fault::kMissedGoesByKey)))
			return;
		if (job.missed_count == 0)
			job.missed = hint;
		job.missed_count = job.missed_count == 0 ? 1 : 2;
	}

	/* ---- claims ---- */

	/* False: there is no entry for a group that runs. Claims wait then. */
	bool count_some()
	{
		for (Job &job : jobs())
		{
			if (!job.slot || job.counted)
				continue;
			bool counts = job.slot_group == 0 && job.leased.group != 0 && rules().count();
			job.counted = !counts || schedule_.count_running(job.leased, is_claiming(job)) ||
						  faulty(Fault::kCountedWithoutEntry);
			if (!job.counted)
				return false;
			if (counts && schedule_.groups().find(job.leased.group) != nullptr)
				job.slot_group = job.leased.group;
		}
		return true;
	}

	/* As much as one hold does: what was popped is leased, or it is not. */
	bool pop()
	{
		int64_t before = schedule_.due_line();
		schedule_.notice_step_back(world.clock);
		if (!schedule_.poppable())
			return schedule_.due_line() < before;
		if (!count_some() || !schedule_.poppable())
			return true;
		Hint hint = schedule_.pop();
		if (hint.delayed && hint.key.run_at > world.clock + plan_.slack)
			wrong("popped before its time");
		bool grouped = rules().concern(hint.group);
		Admission admission = Admission::kGo;
		if (grouped && !faulty(Fault::kPopsAll))
			admission = schedule_.admit(hint);
		if (admission == Admission::kNoEntry && !faulty(Fault::kHintWithoutEntryIsDropped))
			schedule_.file(hint);
		if (admission == Admission::kGo)
			take(world.jobs[hint.key.job_id - 1], hint, grouped);
		return true;
	}

	void take(Job &job, const Hint &hint, bool grouped)
	{
		if (job.lease != Job::kFree)
		{
			miss(job, hint);
			if (grouped && !faulty(Fault::kHeldIsQuiet))
				schedule_.left(hint);
			return;
		}
		if (grouped && hint.group != 0 && running(hint.group) >= rules().most())
			wrong("too many of a group are claimed");
		if (grouped && hint.group != 0 && rules().rate > 0 &&
			static_cast<int64_t>(recent(hint.group).size()) >= rules().rate)
			wrong("a group that has used up its rate is claimed from");
		job.lease = Job::kClaiming;
		job.leased = hint;
		job.slot = job.counted = true;
		job.fifo = rules().fifo;
		job.most = static_cast<int8_t>(std::min(rules().most(), 100));
		job.rate = static_cast<int8_t>(rules().rate);
		if (!grouped)
			return;
		job.slot_group = rules().count() ? hint.group : 0;
		if (faulty(Fault::kPopsAll))
			return;
		schedule_.took(hint, is_claiming(job));
		if (faulty(Fault::kStartsWhenTaken))
			schedule_.groups().note_start(hint.group, false);
		job.from = schedule_.groups().floor_of(hint.group);
	}

	bool fits(const Job &job) const
	{
		return job.key == job.leased.key && job.delayed() == job.leased.delayed &&
			   (job.group == job.leased.group || faulty(Fault::kAnyGroupFits));
	}

	bool verify(Job &job)
	{
		if (job.row != Job::kLive)
			job.lease = Job::kDead;
		else if (!fits(job))
		{
			job.found = job.hint();
			job.lease = Job::kUnfit;
		}
		else if (job.fifo && job.group != 0 && !faulty(Fault::kNobodyIsBehind) &&
				 head_of(job.group, job.from) != &job)
			job.lease = Job::kBehind;
		else
			go_out(job);
		return true;
	}

	/* Nothing may be there that says it may not. Those popped under an earlier limit may go out last. */
	void go_out(Job &job)
	{
		bool claiming = is_claiming(job);
		job.lease = Job::kHeld;
		job.out_group = job.group;
		if (job.group == 0)
			return;
		start(job, claiming);
		int out = 0;
		int most = 0;
		for (const Job &other : jobs())
			if (other.slot && other.out_group == job.group)
			{
				out++;
				most = std::max<int>(most, other.most);
			}
		if (out > most)
			wrong("too many of a group are out");
		if (!job.fifo || job.regrouped)
			return;
		for (size_t i = 0; i < plan_.jobs.size(); i++)
		{
			const Job &other = world.jobs[i];
			if ((job.filed_earlier >> i & 1) && other.row == Job::kLive &&
				other.group == job.group && !other.regrouped)
				wrong("it overtakes one of its group");
		}
	}

	void start(Job &job, bool claiming)
	{
		bool counted = job.slot_group != 0;
		if (!faulty(Fault::kStartsWhenTaken) && (counted || !faulty(Fault::kStartUncounted)))
			schedule_.groups().note_start(counted ? job.slot_group : job.group,
										  counted && claiming);
		if (rules().rate == 0)
			return;
		world.starts[world.starts_n++] = {job.group, world.monotonic, job.rate};
		std::vector<Start> starts = recent(job.group);
		int64_t most = rules().rate;
		for (const Start &other : starts)
			most = std::max<int64_t>(most, other.rate == 0 ? INT64_MAX : other.rate);
		if (static_cast<int64_t>(starts.size()) > most)
			wrong("too many of a group have started");
	}

	/* The starts of the group that count now. */
	std::vector<Start> recent(int64_t group) const
	{
		std::vector<Start> starts;
		for (int i = 0; i < world.starts_n; i++)
			if (world.starts[i].group == group &&
				world.starts[i].at > world.monotonic - rules().period)
				starts.push_back(world.starts[i]);
		return starts;
	}

	/* Of what was looked at and does not fit. */
	bool settle(Job &job)
	{
		switch (job.lease)
		{
			case Job::kDead:
				return end_lease(job);
			case Job::kUnfit:
				job.leased = job.found;
				return give_back(job);
			case Job::kBehind:
				schedule_.pass_over(job.leased);
				return end_lease(job);
			default:
				return false;
		}
	}

	bool change_rules()
	{
		if (world.rules + 1u >= plan_.rules.size())
			return false;
		GroupRules old = rules();
		schedule_.change_group_rules(plan_.rules[++world.rules], world.monotonic);
		/* A limit holds for what starts after it was set. */
		if (old.period != rules().period)
			forget_starts();
		for (Job &job : jobs())
			job.counted = !rules().count() || faulty(Fault::kRunningUncounted);
		return true;
	}

	/* ---- time, for rates ---- */

	void forget_starts()
	{
		world.starts = {};
		world.starts_n = 0;
	}

	void go_to(int64_t monotonic)
	{
		world.monotonic = monotonic;
		if (faulty(Fault::kTimeIsQuiet))
			schedule_.groups().rates().pass(monotonic);
		else
			schedule_.let_time_pass(monotonic);
		auto end = std::remove_if(world.starts.begin(), world.starts.begin() + world.starts_n,
								  [&](const Start &s) { return s.at <= monotonic - kPeriod; });
		world.starts_n = static_cast<int>(end - world.starts.begin());
		std::fill(end, world.starts.end(), Start{});
	}

	bool pass()
	{
		if (world.monotonic >= plan_.passes * kStep)
			return false;
		go_to(world.monotonic + kStep);
		return true;
	}

	bool wait_for_rates()
	{
		int64_t next = schedule_.groups().rates().next_time();
		if (next == INT64_MAX)
			return false;
		go_to(next);
		return true;
	}

	/* ---- refills ---- */

	bool begin_window()
	{
		auto &scan = world.scan;
		if (scan.phase != scan.kIdle || !schedule_.wants_window_refill())
			return false;
		scan = {};
		scan.phase = scan.kReading;
		scan.start = schedule_.begin_window_refill(world.clock);
		scan.last = Key::lowest();
		scan.due_line = schedule_.due_line();
		scan.horizon = schedule_.horizon();
		return true;
	}

	static bool due(const Job &job, int64_t due_line, int64_t horizon)
	{
		return job.key.run_at <= due_line || (!job.delayed() && job.key.run_at <= horizon);
	}

	/* As an index scan does: the next row by order, as it is at this moment. */
	template <typename Wanted> const Job *next_row(Wanted wanted) const
	{
		const Job *next = nullptr;
		for (const Job &job : jobs())
			if (job.row == Job::kLive && wanted(job) && (next == nullptr || job.key < next->key))
				next = &job;
		return next;
	}

	bool read_window()
	{
		auto &scan = world.scan;
		if (scan.phase != scan.kReading)
			return false;
		const Job *next = next_row([&](const Job &job) {
			return due(job, scan.due_line, scan.horizon) && !(job.key < scan.start) &&
				   (scan.n == 0 || scan.last < job.key);
		});
		if (next != nullptr && scan.n < plan_.batch)
		{
			scan.last = next->key;
			scan.rows[scan.n++] = next->hint();
			return true;
		}
		scan.end = next != nullptr ? next->key : Key::highest();
		scan.phase = scan.kMerging;
		return true;
	}

	bool merge_window()
	{
		auto &scan = world.scan;
		if (scan.phase != scan.kMerging || scan.merged == scan.n)
			return false;
		const Hint &row = scan.rows[scan.merged++];
		Job &job = world.jobs[row.key.job_id - 1];
		schedule_.note_met(row);
		if (job.lease == Job::kFree)
			schedule_.merge_window_row(row);
		else
			miss(job, row);
		return true;
	}

	bool publish_window()
	{
		auto &scan = world.scan;
		if (scan.phase != scan.kMerging || scan.merged < scan.n)
			return false;
		Key end = scan.end;
		scan = {};
		schedule_.finish_window_refill(end);
		return true;
	}

	bool abandon_window()
	{
		if (world.scan.phase == WindowScan::kIdle)
			return false;
		world.scan = {};
		schedule_.abandon_window_refill();
		return true;
	}

	bool refill_window()
	{
		if (!begin_window())
			return false;
		while (read_window())
			;
		while (merge_window())
			;
		return publish_window();
	}

	/* Its steps are schedule_model_test.cpp's business. */
	bool refill_timer()
	{
		if (!schedule_.wants_timer_refill())
			return false;
		TimerKey start = schedule_.begin_timer_refill(world.clock);
		TimerKey end = TimerKey::highest();
		std::vector<const Job *> rows;
		for (const Job &job : jobs())
			if (job.row == Job::kLive && job.delayed() && !(job.hint().timer_key() < start))
				rows.push_back(&job);
		std::sort(rows.begin(), rows.end(), [](const Job *a, const Job *b) {
			return a->hint().timer_key() < b->hint().timer_key();
		});
		if (rows.size() > static_cast<size_t>(plan_.timer))
		{
			end = rows[plan_.timer]->hint().timer_key();
			rows.resize(plan_.timer);
		}
		for (const Job *row : rows)
		{
			Job &job = world.jobs[row - world.jobs];
			schedule_.note_met(job.hint());
			if (job.lease == Job::kFree)
				schedule_.merge_timer_row(job.hint());
			else
				miss(job, job.hint());
		}
		schedule_.finish_timer_refill(end);
		return true;
	}

	/* ---- probes ---- */

	bool begin_probes()
	{
		auto &scan = world.probe;
		if (scan.active)
			return false;
		schedule_.fire(world.clock);
		if (!schedule_.wants_probes())
			return false;
		scan = {};
		scan.n = schedule_.begin_probes(scan.probes, plan_.probes);
		scan.active = scan.n > 0;
		scan.fifo = rules().fifo;
		scan.due_line = schedule_.due_line();
		scan.horizon = schedule_.horizon();
		return true;
	}

	static bool in_order(const Probe &probe) { return world.probe.fifo && probe.group != 0; }

	void read_head(const Probe &probe)
	{
		auto &scan = world.probe;
		scan.read = true;
		if (const Job *head = head_of(probe.group, probe.floor))
			scan.rows[scan.rows_n++] = head->hint();
	}

	bool read_probe()
	{
		auto &scan = world.probe;
		if (!scan.active || scan.read)
			return false;
		const Probe &probe = scan.probes[scan.at];
		if (in_order(probe))
			return read_head(probe), true;
		const Job *next = next_row([&](const Job &job) {
			return due(job, scan.due_line, scan.horizon) && job.group == probe.group &&
				   !(job.key < probe.start) &&
				   (scan.rows_n == 0 || scan.rows[scan.rows_n - 1].key < job.key);
		});
		if (next != nullptr && scan.rows_n < std::min(probe.room + plan_.beyond, kMaxJobs))
		{
			scan.rows[scan.rows_n++] = next->hint();
			return true;
		}
		scan.end = next != nullptr ? next->key : Key::highest();
		if (faulty(Fault::kProbeEndsAtBatch))
			scan.end = Key::highest();
		scan.read = true;
		return true;
	}

	/* Returns how many rows were looked at. */
	int pick_candidates(const Probe &probe, Hint *candidates, int *n)
	{
		auto &scan = world.probe;
		int i = 0;
		for (*n = 0; i < scan.rows_n && *n < probe.room; i++)
		{
			const Hint &row = scan.rows[i];
			Job &job = world.jobs[row.key.job_id - 1];
			if (job.lease == Job::kFree)
				candidates[(*n)++] = row;
			else
			{
				if (!faulty(Fault::kLeasedPassUnseen))
					miss(job, row);
				schedule_.note_met(row);
			}
		}
		return i;
	}

	bool publish_probe()
	{
		auto &scan = world.probe;
		if (!scan.active || !scan.read)
			return false;
		const Probe &probe = scan.probes[scan.at];
		Hint candidates[kMaxJobs];
		int n;
		int looked_at = pick_candidates(probe, candidates, &n);
		Key next = in_order(probe) ? Key::highest() : scan.end;
		int64_t head = INT64_MIN;
		if (in_order(probe) && scan.rows_n > 0)
		{
			head = scan.rows[0].key.job_id;
			next = {0, 0, head + 1};
		}
		else if (!in_order(probe) && looked_at < scan.rows_n && !faulty(Fault::kProbeSkipsUnpicked))
			next = scan.rows[looked_at].key;
		schedule_.finish_probe(probe.group, candidates, n, next, head);
		scan.read = false;
		scan.rows_n = 0;
		scan.rows = {};
		scan.end = {};
		if (++scan.at == scan.n)
			scan = {};
		return true;
	}

	bool abandon_probes()
	{
		auto &scan = world.probe;
		if (!scan.active)
			return false;
		if (faulty(Fault::kProbeErrorLeavesCursor))
			for (; scan.at < scan.n; scan.at++)
				schedule_.finish_probe(scan.probes[scan.at].group, nullptr, 0, Key::highest(),
									   INT64_MIN);
		else
			schedule_.abandon_probes();
		scan = {};
		return true;
	}

	bool probe()
	{
		if (!begin_probes())
			return false;
		while (world.probe.active)
		{
			while (read_probe())
				;
			publish_probe();
		}
		return true;
	}

	/* ---- the lone consumer ---- */

	void end_everything()
	{
		auto all = [&](ActionKind kind) {
			for (size_t i = 0; i < plan_.jobs.size(); i++)
				act({kind, static_cast<uint8_t>(i)});
		};
		all(kSettle);
		all(kGiveBack);
		all(kEndLease);
		all(kInsertCallback);
		all(kRewriteCallback);
		abandon_window();
		abandon_probes();
	}

	/* What a claim does that gets nothing, in this order. */
	bool look_for_more()
	{
		if (schedule_.wants_probes())
			return probe();
		if (!schedule_.wants_window_refill())
			return false;
		refill_timer();
		return refill_window();
	}

	std::optional<std::string> consume(bool keep)
	{
		Hint hint = schedule_.pop();
		Job &job = world.jobs[hint.key.job_id - 1];
		bool grouped = rules().concern(hint.group);
		Admission admission = grouped ? schedule_.admit(hint) : Admission::kGo;
		if (admission == Admission::kNoEntry)
		{
			schedule_.file(hint);
			probed_ = !probed_ && probe();
			if (!probed_ && !end_one_held())
				return complain("no entry is to be had, and nobody has one", job);
		}
		bool was_free = job.lease == Job::kFree;
		if (admission == Admission::kGo)
			take(job, hint, grouped);
		if (admission != Admission::kGo || !was_free)
			return {};
		verify(job);
		probed_ = false;
		if (settle(job))
			return {};
		for (const Job &other : jobs())
			if (&other != &job && may_go_instead(other, job))
				return complain("out of order", job);
		if (!keep && ack(job))
			end_lease(job);
		return {};
	}

	bool may_go_instead(const Job &other, const Job &job) const
	{
		if (other.row != Job::kLive || other.lease != Job::kFree || !schedule_.due(other.hint()) ||
			!(other.key < job.key))
			return false;
		if (rules().fair && other.key.priority == job.key.priority &&
			(other.group != job.group || plan_.crowded))
			return false;
		if (!is_grouped(other))
			return true;
		bool same = job.slot_group == other.group;
		return running(other.group) - same < rules().most() &&
			   room_to_start(other.group) + same > 0 &&
			   (!rules().fifo || head_of(other.group, INT64_MIN) == &other);
	}

	bool end_one_held()
	{
		for (Job &job : jobs())
			if (job.lease == Job::kHeld)
				return ack(job) && end_lease(job);
		return false;
	}

	std::optional<std::string> left_over() const
	{
		for (const Job &job : jobs())
			if (job.row == Job::kLive)
				return complain("never handed out", job);
		return {};
	}

	/* ---- encoding ---- */

	void encode_schedule(Code &code) const
	{
		auto put_hint = [&](const Hint &h) { code.put(h); };
		code.put(schedule_.due_line()), code.put(schedule_.horizon());
		code.put(schedule_.met()), code.put(schedule_.surveyed());
		code.put(schedule_.surveying());
		schedule_.window().for_each(put_hint), code.put(-1);
		schedule_.timer().for_each(put_hint), code.put(-1);
		code.put(schedule_.cursor()), code.put(schedule_.timer_cursor());
		if (!rules().fair)
			return;
		code.put(schedule_.left_behind());
		code.put(schedule_.crowded() | schedule_.sweep_is_next() << 1);
		if (plan_.window > 1)
			code.put(schedule_.window().hand());
		for (int32_t priority = 0; priority < 6; priority++)
			code.put(schedule_.window().last_turn(priority));
	}

	void encode_groups(Code &code) const
	{
		pgq::Groups &groups = schedule_.groups();
		code.put(groups.spares());
		groups.for_each([&](const pgq::Group *g) {
			code.put(g->id), code.put(g->running);
			code.put(g->aside | g->pending << 1 | g->probing << 2 | g->again << 3);
			if (!g->aside)
				return;
			if (rules().fair && (g->pending || g->probing))
				code.put(g->rank),
					code.put(std::min<int64_t>(groups.waits_since(g), plan_.window / 2 + 1));
			code.put(g->cursor), code.put(g->floor);
			if (g->probing)
				code.put(g->start), code.put(g->lowest);
		});
		code.put(-1);
		/* Where it looks for an idle one. */
		if (groups.spares() == 0)
		{
			pgq::Groups saved = groups;
			pgq::Group *idle = groups.next_idle();
			groups = saved;
			code.put(idle != nullptr ? idle->id : 0);
		}
	}

	/* Whatever has started, and when: until then there are less than so many. */
	void put_rate(Code &code, pgq::SmallRate rate) const
	{
		for (int n = rate.started(world.monotonic); n > 0; n--)
			code.put(rate.less_than(n, world.monotonic));
		code.put(-1);
	}

	void encode_rates(Code &code) const
	{
		pgq::GroupRates rates = schedule_.groups().rates();
		if (!rates.on())
			return;
		code.put(world.monotonic);
		for (int i = 0; i < world.starts_n; i++)
			code.put(world.starts[i].group), code.put(world.starts[i].at),
				code.put(world.starts[i].rate);
		code.put(-1);
		schedule_.groups().for_each([&](const pgq::Group *g) {
			code.put(g->rate.wait), code.put(g->rate.claiming);
			put_rate(code, g->rate.starts);
		});
		pgq::Group other{};
		rates.begin(&other);
		put_rate(code, other.rate.starts);
		code.put(rates.others_are_aside());
		if (rates.others_are_aside())
			code.put(rates.others_cursor());
	}

	void encode_scans(Code &code) const
	{
		const auto &scan = world.scan;
		code.put(scan.phase);
		if (scan.phase != scan.kIdle)
		{
			code.put(scan.due_line), code.put(scan.horizon);
			code.put(scan.n), code.put(scan.merged);
			code.put(scan.start), code.put(scan.last), code.put(scan.end);
			for (int i = scan.merged; i < scan.n; i++)
				code.put(scan.rows[i]);
			code.put(lowest_in_refill());
		}
		const auto &probe = world.probe;
		code.put(probe.active ? probe.n - probe.at : 0);
		if (!probe.active)
			return;
		code.put(probe.fifo), code.put(probe.read);
		code.put(probe.due_line), code.put(probe.horizon);
		for (int i = probe.at; i < probe.n; i++)
		{
			const Probe &p = probe.probes[i];
			code.put(p.group), code.put(p.start), code.put(p.floor), code.put(p.room);
		}
		code.put(probe.rows_n), code.put(probe.end);
		for (int i = 0; i < probe.rows_n; i++)
			code.put(probe.rows[i]);
	}

	static void encode_job(Code &code, const Job &job)
	{
		code.put(job.row), code.put(job.lease), code.put(job.rewrites);
		if (job.row == Job::kNotYet)
			return;
		code.put(job.insert_unfiled | job.rewrite_unfiled << 1 | job.ghost_unfiled << 2 |
				 job.failed << 3 | job.regrouped << 4);
		code.put(job.filed_earlier), code.put(job.enqueued_at);
		code.put(job.key), code.put(job.group);
		if (job.insert_unfiled)
			code.put(job.inserted);
		if (job.rewrite_unfiled)
			code.put(job.rewritten);
		if (job.ghost_unfiled)
			code.put(job.ghost);
		if (job.lease == Job::kFree)
			return;
		code.put(job.leased), code.put(job.missed_count);
		if (job.lease == Job::kUnfit)
			code.put(job.found);
		if (job.missed_count > 0)
			code.put(job.missed);
		code.put(job.slot | job.counted << 1 | job.fifo << 2);
		code.put(job.most), code.put(job.rate), code.put(job.slot_group), code.put(job.out_group),
			code.put(job.from);
	}

	/* Schedule does not show it, but to finish at +infinity does. */
	static Key lowest_in_refill()
	{
		World saved = world;
		world.schedule.finish_window_refill(Key::highest());
		Key lowest = world.schedule.cursor();
		world = saved;
		return lowest;
	}

	const Plan &plan_;
	Schedule &schedule_;
	bool probed_ = false; /* by the lone consumer, for want of an entry, since it had a job */
	std::vector<Action> actions_;
};

/* ---- every order of actions ---- */

struct Outcome
{
	size_t states = 0;
	bool complete = true;
	std::string violation; /* and how it came to it; empty: all is well */
};

constexpr int kDrainOneOf = 8; /* states */

Outcome
explore(const Plan &plan, size_t limit)
{
	struct Seen
	{
		size_t from;
		Action by;
	};
	std::vector<Seen> seen;
	std::unordered_map<std::string, size_t> known;
	std::deque<World> waiting; /* the last of seen, not yet continued */
	Model model(plan);

	auto trace = [&](size_t state, const std::string &what) {
		std::string way;
		for (; state != 0; state = seen[state].from)
			way = Model::describe(seen[state].by) + "; " + way;
		return what + "\n  after: " + way;
	};
	auto visit = [&](size_t from, Action by) {
		auto [place, is_new] = known.emplace(model.encode(), seen.size());
		if (is_new)
		{
			seen.push_back({from, by});
			waiting.push_back(world);
		}
		return is_new;
	};

	visit(0, {});
	for (size_t state = 0; !waiting.empty(); state++)
	{
		World before = waiting.front();
		waiting.pop_front();
		world = before;
		for (const Action &action : model.actions())
		{
			if (!model.act(action))
				continue;
			auto bad = model.violation();
			bool is_new = visit(state, action);
			if (is_new && !bad && seen.size() % kDrainOneOf == 0)
				bad = model.drain(seen.size() / kDrainOneOf % 2);
			if (bad)
				return {seen.size(), true, trace(state, *bad) + Model::describe(action)};
			world = before;
		}
		if (seen.size() >= limit)
			return {seen.size(), false, {}};
	}
	return {seen.size(), true, {}};
}

/* ---- a random order of actions ---- */

Outcome
walk(const Plan &plan, unsigned seed, int walks, int steps)
{
	std::mt19937 random(seed);
	Outcome outcome;
	for (int n = 0; n < walks; n++)
	{
		Model model(plan);
		std::vector<Action> way;
		std::optional<std::string> bad;
		for (int i = 0; i < steps && !bad; i++)
		{
			Action action = model.actions()[random() % model.actions().size()];
			if (!model.act(action))
				continue;
			outcome.states++;
			way.push_back(action);
			bad = model.violation();
		}
		if (!bad)
			bad = model.drain(n % 2);
		if (bad)
		{
			outcome.violation = *bad + "\n  seed " + std::to_string(seed) + ", after: ";
			for (const Action &action : way)
				outcome.violation += Model::describe(action) + "; ";
			break;
		}
	}
	return outcome;
}

/* ---- the tests ---- */

constexpr GroupRules kOne{.limit = 1, .fifo = false};
constexpr GroupRules kTwo{.limit = 2, .fifo = false};
constexpr GroupRules kFifo{.limit = 0, .fifo = true};
constexpr GroupRules kFair{.fair = true};
constexpr GroupRules kFairOne{.limit = 1, .fair = true};
constexpr GroupRules kFairTwo{.limit = 2, .fair = true};
constexpr GroupRules kFairFifo{.fifo = true, .fair = true};
constexpr GroupRules kNoRules{.limit = 0, .fifo = false};
constexpr GroupRules kRate{.limit = 0, .fifo = false, .rate = 1, .period = kPeriod};
constexpr GroupRules kRateTwo{.limit = 0, .fifo = false, .rate = 2, .period = kPeriod};
constexpr GroupRules kRateOneOfTwo{.limit = 2, .fifo = false, .rate = 1, .period = kPeriod};
constexpr GroupRules kFifoRate{.limit = 0, .fifo = true, .rate = 1, .period = kPeriod};

/* By their groups; and some come with a delay, or before others. */
constexpr JobPlan kA{.group = 1};
constexpr JobPlan kB{.group = 2};
constexpr JobPlan kC{.group = 3};
constexpr JobPlan kNoGroup{.group = 0};
constexpr JobPlan kUrgentA{.group = 1, .priority = 1};
constexpr JobPlan kUrgentB{.group = 2, .priority = 1};
constexpr JobPlan kSoonA{.group = 1, .delay = 1};
constexpr JobPlan kThereA{.group = 1, .there = true};
constexpr JobPlan kThereB{.group = 2, .there = true};
constexpr JobPlan kThereUrgentA{.group = 1, .priority = 1, .there = true};
constexpr JobPlan kThereC{.group = 3, .there = true};
constexpr JobPlan kThereD{.group = 4, .there = true};
constexpr JobPlan kThereE{.group = 5, .there = true};

/* Worlds small enough to see all of; between them they have every action. */
const struct Small
{
	const char *name;
	Plan plan;
} kSmall[] = {
	{"limit 1", {.jobs = {kA, kA, kB}, .rules = {kOne}}},
	{"limit 1, rows that are there", {.jobs = {kThereA, kThereA, kThereB}, .rules = {kOne}}},
	{"limit 2, rows that are there",
	 {.jobs = {kThereA, kThereA, kThereA}, .rules = {kTwo}, .batch = 3}},
	{"limit 1, two groups in a window of one",
	 {.jobs = {kThereA, kThereB, kThereA, kThereB},
	  .rules = {kOne},
	  .probes = 2,
	  .refill_steps = false}},
	{"limit 1, two in the window",
	 {.jobs = {kThereA, kThereA, kNoGroup}, .rules = {kOne}, .window = 2}},
	{"limit 1, few entries",
	 {.jobs = {kThereA, kThereB, kThereA, kThereC}, .rules = {kOne}, .window = 2, .entries = 2}},
	{"limit 1, an entry that is given up",
	 {.jobs = {kThereA, kThereA, kThereA, kUrgentB},
	  .rules = {kOne},
	  .window = 2,
	  .entries = 1,
	  .refill_steps = false}},
	{"limit 1, urgent ones come late",
	 {.jobs = {kThereA, kUrgentA, kUrgentB}, .rules = {kOne}, .refill_steps = false}},
	{"limit 1, retries",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kOne},
	  .ticks = 1,
	  .rewrites = 1,
	  .refill_steps = false}},
	{"limit 1, delays", {.jobs = {kSoonA, kA}, .rules = {kOne}, .ticks = 1, .rewrites = 1}},
	{"limit 1, by hand",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kOne},
	  .rewrites = 1,
	  .retries = false,
	  .regroups = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"limit 1, by hand, a row that moves",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kOne},
	  .rewrites = 1,
	  .retries = false,
	  .verbs = true,
	  .moves = true,
	  .refill_steps = false}},
	{"limit 2, by hand, to and fro",
	 {.jobs = {kThereA, kNoGroup},
	  .rules = {kTwo},
	  .rewrites = 2,
	  .retries = false,
	  .regroups = true,
	  .refill_steps = false}},
	{"limit 1, leases without a slot",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kOne},
	  .beyond = 0,
	  .parks = true,
	  .loses = true,
	  .verbs = true,
	  .refill_steps = false}},
	{"limit 1, the clock goes back",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kOne},
	  .ticks = 1,
	  .clock_goes_back = true,
	  .slack = 0,
	  .deletes = true,
	  .refill_steps = false}},
	{"limit 1 raised",
	 {.jobs = {kThereA, kThereA, kThereA}, .rules = {kOne, kTwo}, .refill_steps = false}},
	{"limit 2 lowered, and none",
	 {.jobs = {kThereA, kThereA, kThereA}, .rules = {kTwo, kOne, kNoRules}, .refill_steps = false}},
	{"fifo", {.jobs = {kA, kA}, .rules = {kFifo}}},
	{"fifo, rows that are there", {.jobs = {kThereA, kThereA, kThereB}, .rules = {kFifo}}},
	{"fifo, ids that cross",
	 {.jobs = {kA, kA, kA}, .rules = {kFifo}, .crosses = true, .refill_steps = false}},
	{"fifo, ids that cross, and a delay",
	 {.jobs = {kSoonA, kA, kA},
	  .rules = {kFifo},
	  .ticks = 1,
	  .crosses = true,
	  .refill_steps = false}},
	{"fifo, ids that cross, shed",
	 {.jobs = {kA, kUrgentA, kA},
	  .rules = {kFifo},
	  .batch = 1,
	  .crosses = true,
	  .sheds = true,
	  .refill_steps = false}},
	{"fifo, the last is urgent",
	 {.jobs = {kThereA, kUrgentA},
	  .rules = {kFifo},
	  .rewrites = 1,
	  .moves = true,
	  .refill_steps = false}},
	{"fifo, retries",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFifo},
	  .ticks = 1,
	  .rewrites = 1,
	  .refill_steps = false}},
	{"fifo, deletes by hand",
	 {.jobs = {kThereA, kThereA, kThereA},
	  .rules = {kFifo},
	  .entries = 1,
	  .deletes = true,
	  .refill_steps = false}},
	{"fifo, deletes of delayed ones",
	 {.jobs = {kSoonA, kA},
	  .rules = {kFifo},
	  .ticks = 1,
	  .crosses = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"fifo, by hand",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFifo},
	  .rewrites = 1,
	  .retries = false,
	  .regroups = true,
	  .refill_steps = false}},
	{"fifo, by hand, prepared",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFifo},
	  .prepares = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"fifo, by hand, few entries",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kFifo},
	  .entries = 1,
	  .rewrites = 1,
	  .retries = false,
	  .regroups = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"fifo, leases without a slot",
	 {.jobs = {kThereA, kA},
	  .rules = {kFifo},
	  .parks = true,
	  .loses = true,
	  .verbs = true,
	  .refill_steps = false}},
	{"fifo, few entries",
	 {.jobs = {kThereA, kThereB, kThereA, kThereC, kB},
	  .rules = {kFifo},
	  .window = 2,
	  .entries = 1,
	  .refill_steps = false}},
	{"fifo, the clock goes back",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFifo},
	  .ticks = 1,
	  .clock_goes_back = true,
	  .slack = 0,
	  .refill_steps = false}},
	{"fair", {.jobs = {kA, kA, kB}, .rules = {kFair}}},
	{"fair, rows that are there", {.jobs = {kThereA, kThereA}, .rules = {kFair}}},
	{"fair, one without a group",
	 {.jobs = {kThereA, kNoGroup, kNoGroup}, .rules = {kFair}, .refill_steps = false}},
	{"fair, two groups in a window of one",
	 {.jobs = {kThereA, kThereB, kThereA}, .rules = {kFair}, .probes = 2, .refill_steps = false}},
	{"fair, four jobs in a window of two",
	 {.jobs = {kThereA, kThereA, kThereA, kThereB},
	  .rules = {kFair},
	  .window = 2,
	  .batch = 3,
	  .refill_steps = false}},
	{"fair, few entries",
	 {.jobs = {kThereA, kThereB, kThereA},
	  .rules = {kFair},
	  .entries = 1,
	  .crowded = true,
	  .refill_steps = false}},
	{"fair, no entry",
	 {.jobs = {kThereA, kThereB, kUrgentA},
	  .rules = {kFair},
	  .entries = 0,
	  .crowded = true,
	  .refill_steps = false}},
	{"fair, urgent ones come late",
	 {.jobs = {kThereA, kUrgentA, kUrgentB}, .rules = {kFair}, .window = 2, .refill_steps = false}},
	{"fair, retries",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFair},
	  .ticks = 1,
	  .rewrites = 1,
	  .refill_steps = false}},
	{"fair, by hand",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kFair},
	  .rewrites = 1,
	  .retries = false,
	  .regroups = true,
	  .refill_steps = false}},
	{"fair, by hand, a row that moves",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kFair},
	  .rewrites = 1,
	  .retries = false,
	  .moves = true,
	  .refill_steps = false}},
	{"fair, the clock goes back",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kFair},
	  .ticks = 1,
	  .clock_goes_back = true,
	  .slack = 0,
	  .deletes = true,
	  .refill_steps = false}},
	{"fair, limit 1", {.jobs = {kThereA, kThereA, kThereB}, .rules = {kFairOne}, .window = 2}},
	{"fair, limit 1, few entries",
	 {.jobs = {kThereA, kThereB, kThereA},
	  .rules = {kFairOne},
	  .entries = 2,
	  .crowded = true,
	  .refill_steps = false}},
	{"fair, limit 2, leases without a slot",
	 {.jobs = {kThereA, kThereA, kThereA},
	  .rules = {kFairTwo},
	  .window = 2,
	  .parks = true,
	  .loses = true,
	  .refill_steps = false}},
	{"fair, fifo",
	 {.jobs = {kThereA, kThereA, kThereB},
	  .rules = {kFairFifo},
	  .window = 2,
	  .refill_steps = false}},
	{"fair, fifo, deletes by hand",
	 {.jobs = {kThereA, kThereA, kNoGroup},
	  .rules = {kFairFifo},
	  .entries = 1,
	  .crowded = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"fair, fifo, more groups than places and entries",
	 {.jobs = {kThereA, kThereB, kThereC, kThereD},
	  .rules = {kFairFifo},
	  .window = 2,
	  .batch = 3,
	  .entries = 1,
	  .crowded = true,
	  .retries = false,
	  .refill_steps = false}},
	{"fair, few may be aside",
	 {.jobs = {kThereA, kThereB, kThereA, kThereC},
	  .rules = {kFairOne},
	  .window = 2,
	  .most_aside = 1,
	  .crowded = true,
	  .retries = false,
	  .refill_steps = false}},
	{"fair, six priorities",
	 {.jobs = {kThereA, {.group = 2, .priority = 5, .there = true}, {.group = 1, .priority = 4}},
	  .rules = {kFair},
	  .window = 2,
	  .retries = false,
	  .refill_steps = false}},
	{"limit 1 comes where groups are in work, one entry",
	 {.jobs = {kThereA, kThereB, kThereA, kThereB},
	  .rules = {kNoRules, kOne},
	  .window = 2,
	  .entries = 1,
	  .refill_steps = false}},
	{"fair, on and off",
	 {.jobs = {kThereA, kThereA, kThereB},
	  .rules = {kTwo, kFair, kFairOne, kNoRules},
	  .window = 2,
	  .refill_steps = false}},
	{"rate 1", {.jobs = {kA, kA, kB}, .rules = {kRate}, .passes = 2, .refill_steps = false}},
	{"rate 1, rows that are there",
	 {.jobs = {kThereA, kThereA, kThereB}, .rules = {kRate}, .passes = 2, .refill_steps = false}},
	{"rate 1, refills in steps", {.jobs = {kThereA, kThereA}, .rules = {kRate}, .passes = 2}},
	{"rate 2",
	 {.jobs = {kThereA, kThereA, kThereA},
	  .rules = {kRateTwo},
	  .passes = 2,
	  .refill_steps = false}},
	{"rate 1 of two that run",
	 {.jobs = {kThereA, kThereA, kA},
	  .rules = {kRateOneOfTwo},
	  .passes = 2,
	  .refill_steps = false}},
	{"rate 1, one entry",
	 {.jobs = {kThereA, kThereB, kThereA},
	  .rules = {kRate},
	  .entries = 1,
	  .passes = 2,
	  .refill_steps = false}},
	{"rate 1, one entry, two in the window",
	 {.jobs = {kThereA, kThereB, kUrgentA},
	  .rules = {kRate},
	  .window = 2,
	  .entries = 1,
	  .passes = 2,
	  .refill_steps = false}},
	{"rate 1, two entries",
	 {.jobs = {kThereA, kThereB, kThereC, kThereA},
	  .rules = {kRate},
	  .window = 2,
	  .entries = 2,
	  .passes = 1,
	  .refill_steps = false}},
	{"rate 1, retries",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kRate},
	  .ticks = 1,
	  .passes = 1,
	  .rewrites = 1,
	  .refill_steps = false}},
	{"rate 1, leases without a slot",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kRate},
	  .passes = 1,
	  .parks = true,
	  .loses = true,
	  .verbs = true,
	  .refill_steps = false}},
	{"rate 1, by hand",
	 {.jobs = {kThereA, kThereB},
	  .rules = {kRate},
	  .passes = 1,
	  .rewrites = 1,
	  .retries = false,
	  .regroups = true,
	  .deletes = true,
	  .refill_steps = false}},
	{"rate 1 raised, none, and again",
	 {.jobs = {kThereA, kThereA},
	  .rules = {kRate, kRateTwo, kNoRules, kRate},
	  .passes = 1,
	  .refill_steps = false}},
	{"rate 2 lowered",
	 {.jobs = {kThereA, kThereA, kThereA},
	  .rules = {kOne, kRateTwo, kRate},
	  .passes = 1,
	  .refill_steps = false}},
	{"rate 1, fifo",
	 {.jobs = {kThereA, kThereA, kB}, .rules = {kFifoRate}, .passes = 2, .refill_steps = false}},
	{"rate 1, fifo, one entry",
	 {.jobs = {kThereA, kThereB, kThereA},
	  .rules = {kFifoRate},
	  .entries = 1,
	  .passes = 2,
	  .deletes = true,
	  .refill_steps = false}},
	{"fifo, on and off",
	 {.jobs = {kThereA, kThereA, kThereA}, .rules = {kTwo, kFifo, kOne}, .refill_steps = false}},
};

void
PrintTo(const Small &small, std::ostream *out)
{
	*out << small.name;
}

class ExploreGroups : public testing::TestWithParam<Small>
{};

TEST_P(ExploreGroups, TheInvariantHoldsInEveryState)
{
	Outcome outcome = explore(GetParam().plan, 200000);
	RecordProperty("states", static_cast<int>(outcome.states));
	EXPECT_EQ(outcome.violation, "");
	EXPECT_TRUE(outcome.complete);
}

INSTANTIATE_TEST_SUITE_P(Groups, ExploreGroups, testing::ValuesIn(kSmall), [](const auto &info) {
	std::string name = info.param.name;
	std::erase(name, ',');
	std::replace(name.begin(), name.end(), ' ', '_');
	return name;
});

/* Larger worlds, everything at once, in random order. A failure tells its seed. */
class WalkGroups : public testing::TestWithParam<unsigned>
{};

TEST_P(WalkGroups, TheInvariantHolds)
{
	static constexpr int kWalks = 500;
	static constexpr GroupRules kRules[] = {kOne, kFifo, kTwo, kRate, kFifoRate, kRateOneOfTwo};
	unsigned seed = GetParam();
	Plan plan{.jobs = {kA, kB, kSoonA, kUrgentB, kNoGroup, kUrgentA},
			  .rules = {kRules[seed % 6]},
			  .window = 1 + static_cast<int>(seed / 3 % 2),
			  .timer = 1 + static_cast<int>(seed / 6 % 2),
			  .batch = 1 + static_cast<int>(seed % 2),
			  .beyond = static_cast<int>(seed / 2 % 2),
			  .probes = 1 + static_cast<int>(seed / 5 % 2),
			  .entries = 2 + static_cast<int>(seed / 4 % 2),
			  .ticks = 3,
			  .clock_goes_back = seed % 7 == 0,
			  .slack = seed % 7 == 0 ? 0 : 100,
			  .passes = 4,
			  .rewrites = 2,
			  .crosses = seed % 5 > 0,
			  .sheds = seed % 4 == 0,
			  .prepares = seed % 4 == 2,
			  .parks = true,
			  .loses = true,
			  .verbs = true,
			  .moves = seed % 4 != 1,
			  .regroups = seed % 4 > 1,
			  .deletes = true};
	if (seed % 6 > 3)
		plan.rules = {kTwo, kFifo, kOne, kRate, kNoRules, kFifoRate, kTwo, kRateOneOfTwo, kRateTwo};
	if (seed > 36)
	{
		static constexpr GroupRules kFairRules[] = {kFair, kFairOne, kFairFifo};
		plan.rules = {kFairRules[seed % 3]};
		plan.window = 1 + static_cast<int>(seed / 3 % 3);
		plan.crowded = plan.entries == 2;
		if (seed % 6 > 3)
			plan.rules = {kFair, kTwo, kFairFifo, kRate, kFairTwo, kFair};
	}
	if (seed % 8 > 4)
		plan.jobs = {kThereA, kThereB, kThereA, kThereC, kA, kUrgentA};
	Outcome outcome = walk(plan, seed, kWalks, 400);
	EXPECT_EQ(outcome.violation, "");
	EXPECT_GT(outcome.states, 10u * kWalks) << "the actors stand still";
}

INSTANTIATE_TEST_SUITE_P(Groups, WalkGroups, testing::Range(1u, 61u));

/* More groups and priorities than entries and places, in random order. */
class WalkShortOfEntries : public testing::TestWithParam<unsigned>
{};

TEST_P(WalkShortOfEntries, TheInvariantHolds)
{
	static constexpr int kWalks = 500;
	static const std::vector<GroupRules> kRules[] = {
		{kFairFifo},
		{kFairTwo},
		{kFairOne},
		{kFair},
		{kTwo},
		{kFifo},
		{kNoRules, kOne, kFairFifo, kNoRules, kFairTwo, kFifo},
		{kNoRules, kFairFifo, kTwo, kFairOne}};
	unsigned seed = GetParam();
	Plan plan{.jobs = {kThereA, kThereB, kThereC, kThereD, kThereE, kA},
			  .rules = kRules[seed % std::size(kRules)],
			  .window = 1 + static_cast<int>(seed / 8 % 5),
			  .batch = 1 + static_cast<int>(seed % 5),
			  .beyond = static_cast<int>(seed / 2 % 2),
			  .probes = 1 + static_cast<int>(seed / 5 % 2),
			  .entries = 1 + static_cast<int>(seed / 3 % 3),
			  .most_aside = seed % 3 == 0 ? 1 : INT_MAX,
			  .crowded = true,
			  .ticks = 1,
			  .rewrites = 1,
			  .crosses = seed % 5 > 2,
			  .parks = true,
			  .loses = true,
			  .verbs = seed % 2 == 0,
			  .moves = seed % 4 == 1,
			  .regroups = seed % 4 == 2,
			  .deletes = seed % 2 == 1};
	if (seed % 3 == 1)
		for (size_t i = 0; i < plan.jobs.size(); i++)
			plan.jobs[i].priority = static_cast<int32_t>((i * seed) % 6);
	Outcome outcome = walk(plan, seed, kWalks, 300);
	EXPECT_EQ(outcome.violation, "");
	EXPECT_GT(outcome.states, 10u * kWalks) << "the actors stand still";
}

INSTANTIATE_TEST_SUITE_P(Groups, WalkShortOfEntries, testing::Range(1u, 81u));

/* ---- what the checks are worth ---- */

struct Broken
{
	Fault fault;
	const char *name;
	Plan plan;
};

class FaultyGroups : public testing::TestWithParam<Broken>
{};

TEST_P(FaultyGroups, IsNoticed)
{
	static constexpr size_t kEnough = 40000;
	Plan plan = GetParam().plan;
	EXPECT_EQ(explore(plan, kEnough).violation, "") << "without the fault";
	plan.fault = GetParam().fault;
	Outcome outcome = explore(plan, kEnough);
	EXPECT_NE(outcome.violation, "");
}

void
PrintTo(const Broken &broken, std::ostream *out)
{
	*out << broken.name;
}

INSTANTIATE_TEST_SUITE_P(
	Groups, FaultyGroups,
	testing::Values(
		Broken{Fault::kPopsAll, "PopsAll", {.jobs = {kThereA, kThereA}, .rules = {kOne}}},
		Broken{
			Fault::kRunsOn, "RunsOn", {.jobs = {kThereA, kThereA}, .rules = {kOne}, .loses = true}},
		Broken{Fault::kEndIsQuiet,
			   "EndIsQuiet",
			   {.jobs = {kThereA, kThereA}, .rules = {kFifo}, .entries = 1, .verbs = true}},
		Broken{Fault::kFreedWhereTheRowIs,
			   "FreedWhereTheRowIs",
			   {.jobs = {kThereA, kThereA},
				.rules = {kOne},
				.window = 2,
				.rewrites = 1,
				.regroups = true}},
		Broken{Fault::kAnyGroupFits,
			   "AnyGroupFits",
			   {.jobs = {kThereA, kThereB}, .rules = {kOne}, .rewrites = 1, .regroups = true}},
		Broken{Fault::kNobodyIsBehind,
			   "NobodyIsBehind",
			   {.jobs = {kThereA, kThereUrgentA}, .rules = {kFifo}}},
		Broken{Fault::kLeasedPassUnseen,
			   "LeasedPassUnseen",
			   {.jobs = {kThereA, kThereA},
				.rules = {kOne},
				.rewrites = 1,
				.retries = false,
				.verbs = true,
				.moves = true,
				.refill_steps = false}},
		Broken{Fault::kProbeErrorLeavesCursor,
			   "ProbeErrorLeavesCursor",
			   {.jobs = {kThereA, kThereA}, .rules = {kOne}}},
		Broken{Fault::kProbeSkipsUnpicked,
			   "ProbeSkipsUnpicked",
			   {.jobs = {kThereA, kThereA, kThereA}, .rules = {kOne}}},
		Broken{Fault::kProbeEndsAtBatch,
			   "ProbeEndsAtBatch",
			   {.jobs = {kThereA, kThereA, kThereA}, .rules = {kOne}, .beyond = 0}},
		Broken{Fault::kProbeErrorLeavesCursor,
			   "FairProbeErrorLeavesCursor",
			   {.jobs = {kThereA, kThereA}, .rules = {kFair}}},
		Broken{Fault::kProbeEndsAtBatch,
			   "FairProbeEndsAtBatch",
			   {.jobs = {kThereA, kThereA, kThereA},
				.rules = {kFair},
				.beyond = 0,
				.refill_steps = false}},
		Broken{Fault::kDeleteIsQuiet,
			   "DeleteIsQuiet",
			   {.jobs = {kThereA, kThereUrgentA}, .rules = {kFifo}, .deletes = true}},
		Broken{
			Fault::kRegroupIsQuiet,
			"RegroupIsQuiet",
			{.jobs = {kThereA, kThereUrgentA}, .rules = {kFifo}, .rewrites = 1, .regroups = true}},
		Broken{Fault::kRunningUncounted,
			   "RunningUncounted",
			   {.jobs = {kThereA, kThereA}, .rules = {kNoRules, kOne}}},
		Broken{Fault::kHintWithoutEntryIsDropped,
			   "HintWithoutEntryIsDropped",
			   {.jobs = {kThereA, kThereB}, .rules = {kOne}, .entries = 1}},
		Broken{Fault::kMissedGoesByKey,
			   "MissedGoesByKey",
			   {.jobs = {kThereA},
				.rules = {kTwo},
				.window = 2,
				.rewrites = 2,
				.retries = false,
				.regroups = true,
				.refill_steps = false}},
		Broken{Fault::kHeldIsQuiet,
			   "HeldIsQuiet",
			   {.jobs = {kThereA, kThereA}, .rules = {kOne}, .verbs = true}},
		Broken{Fault::kTimeIsQuiet,
			   "TimeIsQuiet",
			   {.jobs = {kThereA, kThereA}, .rules = {kRate}, .passes = 2, .refill_steps = false}},
		Broken{Fault::kStartsWhenTaken,
			   "StartsWhenTaken",
			   {.jobs = {kThereA, kThereA}, .rules = {kRate}, .passes = 2, .refill_steps = false}},
		Broken{Fault::kStartUncounted,
			   "StartUncounted",
			   {.jobs = {kThereA, kThereB, kThereA},
				.rules = {kNoRules, kRate},
				.window = 2,
				.entries = 1,
				.refill_steps = false}},
		Broken{Fault::kTakenForGood,
			   "TakenForGood",
			   {.jobs = {kThereA, kThereA, kThereB}, .rules = {kRate}, .refill_steps = false}},
		Broken{Fault::kCountedWithoutEntry,
			   "CountedWithoutEntry",
			   {.jobs = {kThereA, kThereB, kThereA, kThereB},
				.rules = {kNoRules, kOne},
				.window = 2,
				.entries = 1,
				.refill_steps = false}},
		Broken{Fault::kWrongInPlace,
			   "WrongInPlace",
			   {.jobs = {kThereA}, .rules = {kOne}, .ticks = 1, .refill_steps = false}}),
	[](const auto &info) { return info.param.name; });

} // namespace
